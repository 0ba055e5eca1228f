"""A simulated device goes away or fails: how long until the API server has a slice that says so."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dray.api.kinds import RESOURCE_SLICES
from dray.api.resource import ResourceSlice
from dray.bench.driver_side import OURS
from dray.client.client import Client, Watch
from dray.client.requests import Selection
from dray.client.store import Entry
from dray.errors import UnavailableError
from dray.semantics.pools import newest

GOES, FAILS = "gpu-0", "gpu-1"
_PAUSE: Final = (0.05, 0.15)
_SECONDS: Final = 30.0

Shown = Mapping[str, bool]
"""Devices of the pool, each with whether it has a taint."""


def faults(directory: Path) -> list[dict[str, Any]]:
    """For the config of the driver: what happens while a file is there."""
    return [
        {"device": GOES, "gone": True, "whileFile": str(directory / GOES)},
        {"device": FAILS, "whileFile": str(directory / FAILS)},
    ]


@dataclass(frozen=True, slots=True)
class Unplugs:
    """Seconds from the event to the slice, by what happened."""

    gone: list[float] = field(default_factory=list)
    back: list[float] = field(default_factory=list)
    tainted: list[float] = field(default_factory=list)
    healed: list[float] = field(default_factory=list)


async def time_unplugs_to_slices(client: Client, directory: Path, count: int, seed: int = 8) -> Unplugs:
    """So many of each, one after the other."""
    chance, times = random.Random(seed), Unplugs()  # noqa: S311  (pauses)
    selection = Selection(fields=f"spec.driver={OURS}")
    listed = await client.list_page(RESOURCE_SLICES, selection)
    known = {one.metadata.name: one for one in listed.items}
    async with client.watch(RESOURCE_SLICES, selection, resource_version=listed.resource_version) as watch:
        pool = _Pool(watch, known)
        for _ in range(count):
            for name, gone, back in ((GOES, times.gone, times.back), (FAILS, times.tainted, times.healed)):
                file = directory / name
                gone.append(await pool.time(file.touch, name, is_well=False))
                await asyncio.sleep(chance.uniform(*_PAUSE))
                back.append(await pool.time(file.unlink, name, is_well=True))
                await asyncio.sleep(chance.uniform(*_PAUSE))
    return times


class _Pool:
    """The slices as a watch tells of them."""

    def __init__(self, watch: Watch[ResourceSlice], known: dict[str, ResourceSlice]) -> None:
        self._watch = watch
        self._known = known

    async def time(self, act: Callable[[], None], name: str, *, is_well: bool) -> float:
        """Seconds from the act until the slices have the device without a taint, or not."""
        began = time.perf_counter()
        act()
        try:
            async with asyncio.timeout(_SECONDS):
                while (self._shown().get(name) is False) != is_well:
                    await self._next()
        except TimeoutError:
            raise UnavailableError(f"no slice says so within {_SECONDS:g} s") from None
        return time.perf_counter() - began

    async def _next(self) -> None:
        event = await anext(self._watch)
        if isinstance(event.item, Entry):
            one = event.item.value
            if event.type == "DELETED":
                self._known.pop(one.metadata.name, None)
            else:
                self._known[one.metadata.name] = one

    def _shown(self) -> Shown:
        return {
            device.name: bool(device.taints)
            for one in newest(self._known.values())
            for device in one.spec.devices or ()
        }
