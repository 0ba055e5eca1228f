"""How long until the kubelet knows that a device node is gone, or back."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from dray.bench.agent_machine import PluggedNode, Sizes
from dray.bench.agent_process import Contender


@dataclass
class Unplugs:
    """Seconds from each change of a node to the decoded message that tells of it."""

    by_kind: dict[str, list[float]] = field(default_factory=dict)
    back: list[float] = field(default_factory=list)

    @property
    def gone(self) -> list[float]:
        """Those of all kinds."""
        return [seconds for times in self.by_kind.values() for seconds in times]


async def time_unplugs(everyone: Sequence[Contender], sizes: Sizes) -> list[Unplugs]:
    """One node at a time, of each kind in turn, at one contender after the other."""
    source = random.Random(sizes.seed)  # noqa: S311
    found = [Unplugs() for _ in everyone]
    kinds = sorted({node.kind for node in everyone[0].machine.nodes})
    for number in range(sizes.unplugs):
        kind = kinds[number % len(kinds)]
        nodes = [source.choice([node for node in one.machine.nodes if node.kind == kind]) for one in everyone]
        for one, node, times in zip(everyone, nodes, found, strict=True):
            times.by_kind.setdefault(kind, []).append(await change(one, node, plugged=False))
        await asyncio.sleep(source.uniform(*sizes.pause))
        for one, node, times in zip(everyone, nodes, found, strict=True):
            times.back.append(await change(one, node, plugged=True))
        await asyncio.sleep(source.uniform(*sizes.pause))
    return found


async def change(one: Contender, node: PluggedNode, *, plugged: bool) -> float:
    """Take a node away or bring it back; seconds until the recorder has the list that shows it."""
    healthy = one.machine.count(node.resource) - (0 if plugged else node.ids)
    began = time.perf_counter()
    (node.replug if plugged else node.unplug)()
    return await one.recorder.wait_healthy(node.resource, healthy) - began
