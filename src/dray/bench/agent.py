"""`dray bench agent`: what the node agent costs, and how fast it is, beside a device plugin in Go.

All run at once on machines of their own, each registered with a recorder in place of a kubelet, and are measured in turns.
"""

from __future__ import annotations

import asyncio
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from dray.bench.agent_load import Load, load
from dray.bench.agent_machine import GPU, Sizes, build
from dray.bench.agent_process import (
    SAMPLE_RESOURCE,
    Contender,
    cpu_seconds,
    memory_of,
    start_agent,
    start_peer,
    start_sample,
)
from dray.bench.agent_unplug import time_unplugs
from dray.bench.left_out import LeftOut
from dray.bench.measure import Figure
from dray.bench.peers import agent_peer, sample_plugin
from dray.drivers.naming import KUBEVIRT_PREFIX
from dray.errors import NotFoundError
from dray.testing.install_steps import Say

KVM = f"{KUBEVIRT_PREFIX}kvm"
PODS = "pod created to running, on a real kubelet"


def figures(
    *, cluster: bool = False, sizes: Sizes | None = None, build_peer: bool = True, say: Say = lambda _: None
) -> Iterator[Figure | LeftOut]:
    """All figures. With `cluster` also those that need root and a real Kubernetes; `say` hears of the progress."""
    if cluster:
        from dray.bench.agent_pods import check_ready, pod_figures

        check_ready()
    wanted = sizes or Sizes()
    left_out: list[LeftOut] = []
    peer = _peer(build_peer, left_out, say)
    sample = _sample(left_out)
    yield from asyncio.run(_beside_recorders(wanted, peer, sample, say))
    if cluster:
        yield from pod_figures(wanted, say)
    else:
        left_out.append(
            LeftOut(PODS, "add --cluster (needs root, and `make e2e` or the install it begins with)")
        )
    yield from left_out


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of them do not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def _peer(may_build: bool, left_out: list[LeftOut], say: Say) -> Path | None:
    try:
        say("building the Go peer, if it is not there")
        return agent_peer(build=may_build)
    except NotFoundError as error:
        left_out.append(LeftOut("the Go plugin with as many devices", str(error)))
        return None


def _sample(left_out: list[LeftOut]) -> Path | None:
    name = "the Go sample-device-plugin"
    if os.geteuid() != 0:
        left_out.append(LeftOut(name, "it needs root: its directories are fixed, and get mounted over"))
        return None
    try:
        return sample_plugin()
    except NotFoundError as error:
        left_out.append(LeftOut(name, str(error)))
        return None


async def _beside_recorders(sizes: Sizes, peer: Path | None, sample: Path | None, say: Say) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="dray-bench-") as name:
        folder = Path(name)
        say(f"building a machine with {sizes.devices} devices")
        machine = build(folder / "machine", sizes)
        async with AsyncExitStack() as stack:
            ours = await start_agent(stack, folder / "dray", machine, sizes)
            theirs = [await start_peer(stack, folder / "peer", machine, peer)] if peer else []
            samples = [await start_sample(stack, folder / "sample", sample)] if sample else []
            rivals = theirs + samples
            return [
                *_memory("", ours, rivals),
                *await _idle(ours, rivals, sizes, say),
                *await _unplugs(ours, theirs, sizes, say),
                *await _allocations(ours, rivals, sizes, peer, say),
                *_memory(" after all calls", ours, rivals),
            ]


def _against(
    name: str, unit: str, values: Sequence[float], rivals: Sequence[Contender], *, higher: bool = False
) -> Iterator[Figure]:
    """`values` are ours and then those of the rivals: one figure for each of them, or one alone."""
    ours, *others = values
    if not others:
        yield Figure(name, unit, ours, higher_is_better=higher)
    for rival, other in zip(rivals, others, strict=True):
        yield Figure(name, unit, ours, rival.name, other, higher_is_better=higher)


def _memory(when: str, ours: Contender, rivals: Sequence[Contender]) -> Iterator[Figure]:
    used = [memory_of(one.pid) for one in (ours, *rivals)]
    yield from _against(f"memory, resident (RSS){when}", "MiB", [one.rss for one in used], rivals)
    yield from _against(f"memory, own share (PSS){when}", "MiB", [one.pss for one in used], rivals)
    yield from _against(f"memory, nobody else's (USS){when}", "MiB", [one.uss for one in used], rivals)


async def _idle(ours: Contender, rivals: Sequence[Contender], sizes: Sizes, say: Say) -> list[Figure]:
    """The first minute has the looks that follow a start, above all for rivals; they become ever rarer."""
    taken: list[Figure] = []
    for name in ("CPU in the minute after a start, nothing happens", "CPU while idle"):
        say(f"{name}: {sizes.idle_seconds:g} s")
        before = [cpu_seconds(one.pid) for one in (ours, *rivals)]
        await asyncio.sleep(sizes.idle_seconds)
        after = [cpu_seconds(one.pid) for one in (ours, *rivals)]
        spent = [1e3 * (now - was) / sizes.idle_seconds for now, was in zip(after, before, strict=True)]
        taken += _against(name, "ms/s", spent, rivals)
    return taken


async def _unplugs(ours: Contender, theirs: Sequence[Contender], sizes: Sizes, say: Say) -> list[Figure]:
    say(f"{sizes.unplugs} unplugs and replugs each")
    found = await time_unplugs((ours, *theirs), sizes)
    rows = {"unplug": [one.gone for one in found]}
    rows |= {f"unplug, {kind}": [one.by_kind[kind] for one in found] for kind in sorted(found[0].by_kind)}
    rows["replug"] = [one.back for one in found]
    return [
        figure
        for name, times in rows.items()
        for figure in _percentiles(f"{name} to ListAndWatch", times, theirs)
    ]


def _percentiles(
    name: str, times: Sequence[Sequence[float]], rivals: Sequence[Contender]
) -> Iterator[Figure]:
    for share in (0.5, 0.99):
        values = [1e3 * percentile(each, share) for each in times]
        yield from _against(f"{name}, p{share * 100:g}", "ms", values, rivals)


async def _allocations(
    ours: Contender, rivals: Sequence[Contender], sizes: Sizes, caller: Path | None, say: Say
) -> list[Figure]:
    whole = [one for one in rivals if one.machine.nodes]
    taken: list[Figure] = []
    for resource, clients, others in ((KVM, 1, rivals), (KVM, 8, rivals), (GPU, 1, whole)):
        title = f"Allocate {resource.rpartition('/')[2]}, {clients} at once"
        say(title)
        loads = await _load_in_turns((ours, *others), resource, clients, sizes, caller)
        taken += _percentiles(title, [one.calls for one in loads], others)
        rates = [len(one.calls) / one.whole for one in loads]
        taken += _against(title, "calls/s", rates, others, higher=True)
    return taken


async def _load_in_turns(
    everyone: Sequence[Contender], resource: str, clients: int, sizes: Sizes, caller: Path | None
) -> list[Load]:
    calls = max(1, sizes.calls // sizes.rounds)
    rounds: list[list[Load]] = [[] for _ in everyone]
    for _ in range(sizes.rounds):
        for one, taken in zip(everyone, rounds, strict=True):
            listed = one.recorder.lists[resource if one.machine.nodes else SAMPLE_RESOURCE]
            taken.append(await load(caller, listed.socket, listed.ids, calls, clients))
    return [
        Load(tuple(time for each in taken for time in each.calls), sum(each.whole for each in taken))
        for taken in rounds
    ]
