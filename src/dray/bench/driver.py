"""`dray bench driver`: the agent as DRA driver beside the one of Kubernetes' own tests, in Go.

Both talk to one API server, are found through their real sockets, and are measured in turns. Ours has every claim on
disk before it answers; the peer keeps claims in memory alone.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dray.api.kinds import NODES
from dray.bench.agent import percentile
from dray.bench.agent_process import memory_of
from dray.bench.driver_calls import time_prepares
from dray.bench.driver_server import api_server
from dray.bench.driver_side import (
    NODE,
    PEER,
    DriverProgram,
    Place,
    RunningDriver,
    go_driver,
    our_driver,
    running_driver,
)
from dray.bench.driver_unplug import faults, time_unplugs_to_slices
from dray.bench.left_out import LeftOut
from dray.bench.measure import Figure
from dray.bench.peers import MODULES
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.errors import InvariantError
from dray.testing.install_steps import Say
from dray.testing.kubernetes.leftovers import PARENT
from dray.testing.kubernetes.tools import Tools, locate

UNPLUG: Final = "device unplugged to slice, the Go test-driver"
PODS: Final = "pod created to running with a claim, on a real kubelet"
_MEMORY: Final = Path("/dev/shm")  # noqa: S108  (a tmpfs, as /run is on a node)
_GPUS: Final = 8
_PARTITIONS: Final = (
    ("1g", 7, "10Gi"),
    ("2g", 3, "20Gi"),
    ("3g", 2, "40Gi"),
    ("4g", 1, "40Gi"),
    ("7g", 1, "80Gi"),
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured. `calls`: how many with how many claims."""

    calls: Mapping[int, int]
    unplugs: int = 60
    starts: int = 7
    pods: int = 50

    @property
    def devices(self) -> int:
        """Enough for the largest call, and for those that fail."""
        return max(*self.calls, 2)


WHOLE: Final = Sizes({1: 200, 8: 200, 32: 60})


def figures(
    *, cluster: bool = False, sizes: Sizes = WHOLE, peer: bool = True, say: Say = lambda _: None
) -> Iterator[Figure | LeftOut]:
    """All figures; `say` hears of the progress. Without `peer`, as where none is installed, ours alone on our API server."""
    if cluster:
        from dray.bench.agent_pods import check_ready

        check_ready()
    found = installed_tools() if peer else None
    if found is None:
        why = "a real Kubernetes is not installed: `python -m dray.testing.kubernetes install` builds it"
        yield LeftOut(f"the {PEER}, and kube-apiserver as its server", why)
    yield from asyncio.run(_measure(sizes, found, say))
    yield LeftOut(UNPLUG, "its devices never go away")
    if cluster:
        from dray.bench.driver_pods import claim_pod_figures

        yield from claim_pod_figures(sizes.pods, say)
    else:
        yield LeftOut(PODS, "add --cluster (needs root, and `make e2e` or the install it begins with)")


def installed_tools() -> Tools | None:
    """Those of a real Kubernetes, where all of them are there."""
    if not MODULES.is_dir():
        return None
    tools = locate(MODULES)
    return None if tools.missing() else tools


async def _measure(sizes: Sizes, tools: Tools | None, say: Say) -> list[Figure]:
    with ExitStack() as stack:
        say("starting the API server")
        kubeconfig = await asyncio.to_thread(stack.enter_context, api_server(tools))
        disk = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dray-bench-", dir=PARENT)))
        memory = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="dray-bench-", dir=_MEMORY if _MEMORY.is_dir() else PARENT)
            )
        )
        go = tools.path("test-driver") if tools is not None else None
        bench = _Bench(sizes, disk, memory, kubeconfig, go, say)
        async with Client(find_access(kubeconfig)) as client:
            await client.create(NODES, {"metadata": {"name": NODE}})
            return [
                *await bench.starts(client),
                *await bench.latencies(client),
                *await bench.memory_with_partitions(client),
            ]


@dataclass(frozen=True, slots=True)
class _Bench:
    """What all parts of a run share. `go` is None where there is no peer."""

    sizes: Sizes
    disk: Path
    memory: Path
    kubeconfig: Path
    go: Path | None
    say: Say

    def programs(self, name: str, sim: Mapping[str, Any], devices: int) -> list[DriverProgram]:
        """Ours, and the peer with as many devices; each in directories of its own that nobody used before."""
        ours = our_driver(self._place(f"{name}-dray"), sim)
        return [ours] if self.go is None else [ours, go_driver(self._place(f"{name}-go"), self.go, devices)]

    def _place(self, name: str) -> Place:
        return Place(self.disk / name, self.memory / name, self.kubeconfig)

    async def starts(self, client: Client) -> list[Figure]:
        """One process at a time."""
        self.say(f"{self.sizes.starts} starts each")
        times: list[list[float]] = [[], []]
        for number in range(self.sizes.starts):
            for program, taken in zip(self.programs(f"s{number}", _gpus(_GPUS), _GPUS), times, strict=False):
                async with running_driver(client, program) as driver:
                    taken.append(driver.first_slice)
        values = [1e3 * statistics.median(taken) for taken in times if taken]
        return _against("process start to first slice, median", "ms", values)

    async def latencies(self, client: Client) -> list[Figure]:
        """Calls and unplugs, with all drivers running."""
        figures: list[Figure] = []
        switches = self.disk / "switches"
        switches.mkdir()
        sim = {**_gpus(self.sizes.devices), "faults": faults(switches)}
        async with AsyncExitStack() as stack:
            programs = self.programs("c", sim, self.sizes.devices)
            drivers = [await stack.enter_async_context(running_driver(client, one)) for one in programs]
            for claims, calls in self.sizes.calls.items():
                self.say(f"{calls} calls each with {claims} new claims")
                times = await time_prepares(client, drivers, claims, calls)
                figures += _percentiles(f"NodePrepareResources, {_plural(claims, 'claim')}", times)
            self.say(f"{self.sizes.unplugs} unplugs")
            found = await time_unplugs_to_slices(client, switches, self.sizes.unplugs)
        figures += _percentiles("device unplugged to slice", [found.gone])
        figures += _percentiles("device back to slice", [found.back])
        figures += _percentiles("device unhealthy to taint in slice", [found.tainted])
        return figures

    async def memory_with_partitions(self, client: Client) -> list[Figure]:
        """With as many devices as eight GPUs have together with all places for their partitions."""
        self.say("memory with partitions")
        devices = _GPUS * (1 + sum(count for _, count, _ in _PARTITIONS))
        async with AsyncExitStack() as stack:
            drivers = [
                await stack.enter_async_context(running_driver(client, one))
                for one in self.programs("m", _gpus(_GPUS, partitions=True), devices)
            ]
            _check_count(drivers, devices)
            used = [memory_of(one.pid) for one in drivers]
        what = f"{_GPUS} GPUs with partitions, {devices} devices"
        return [
            *_against(f"memory, resident (RSS), {what}", "MiB", [one.rss for one in used]),
            *_against(f"memory, nobody else's (USS), {what}", "MiB", [one.uss for one in used]),
        ]


def _gpus(count: int, *, partitions: bool = False) -> dict[str, Any]:
    """The config of so many simulated GPUs."""
    cuts = [{"profile": name, "count": many, "memory": size} for name, many, size in _PARTITIONS]
    return {"devices": [{"name": "gpu", "count": count, "partitions": cuts if partitions else []}]}


def _check_count(drivers: Sequence[RunningDriver], devices: int) -> None:
    for one in drivers:
        if len(one.devices) != devices:
            raise InvariantError(f"{one.program.label} shows {len(one.devices)} devices, not {devices}")


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _against(name: str, unit: str, values: Sequence[float]) -> list[Figure]:
    """`values` are ours and, where there is one, the peer's."""
    if len(values) == 1:
        return [Figure(name, unit, values[0])]
    return [Figure(name, unit, values[0], PEER, values[1])]


def _percentiles(name: str, times: Sequence[Sequence[float]]) -> list[Figure]:
    return [
        one
        for share in (0.5, 0.99)
        for one in _against(
            f"{name}, p{share * 100:g}", "ms", [1e3 * percentile(each, share) for each in times]
        )
    ]
