"""`dray bench scheduler`: pods bound a second by Dray's scheduler and by kube-scheduler, on a real API server.

Each scheduler gets a new API server with the same nodes, slices, claims and pods, all there before it starts. Counted is
from the first binding to the last. The ceiling is a client that only writes what a scheduler has to, and decides nothing.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.bench.left_out import LeftOut
from dray.bench.measure import Figure
from dray.bench.peers import MODULES
from dray.bench.scheduler_cluster import add_pods, check, fill, watch_bindings
from dray.bench.scheduler_workloads import Workload, partitions, whole_devices
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.testing.install_steps import Say
from dray.testing.kubernetes.control_plane import ControlPlane
from dray.testing.kubernetes.part import Part
from dray.testing.kubernetes.tools import locate

PEER: Final = "kube-scheduler"
CEILING: Final = "writes alone"
NAME: Final = "dray"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the workloads are; the defaults are those of the documented figures."""

    nodes: int = 500
    devices: int = 10
    pods: int = 2000
    partitioned_nodes: int = 100
    partitioned_pods: int = 300
    large_nodes: int = 5000
    large_pods: int = 2000
    large_fair: int = 300


@dataclass(frozen=True, slots=True)
class _Run:
    """Pods a second, and milliseconds of processor time a pod."""

    rate: float
    cpu: float
    server_cpu: float


Command = Callable[[ControlPlane], Sequence[str | Path]]


def figures(*, sizes: Sizes | None = None, say: Say = lambda _: None) -> Iterator[Figure | LeftOut]:
    """All figures; `say` hears of the progress. Needs what `make e2e` installs."""
    wanted = sizes or Sizes()
    missing = locate(MODULES).missing() if MODULES.is_dir() else ("the checkout of Dray",)
    if missing:
        why = f"not here: {', '.join(missing)}; `python -m dray.testing.kubernetes install` builds a real Kubernetes"
        yield LeftOut("scheduler", why)
        return
    first = whole_devices(wanted.nodes, wanted.devices, wanted.pods)
    yield from _compare(first, say, show_cpu=True)
    words = [str(word) for word in (wanted.nodes, wanted.devices, wanted.pods)]
    say(f"{first.name}: {CEILING}")
    ceiling = _run(
        first,
        first.fair,
        "nobody",
        lambda plane: _python("dray.bench.scheduler_ceiling", plane.kubeconfig, *words),
    )
    yield Figure(f"{first.name}: ceiling, {CEILING}", "pods/s", ceiling.rate, higher_is_better=True)
    yield from _compare(partitions(wanted.partitioned_nodes, wanted.partitioned_pods), say)
    yield from _compare(
        whole_devices(wanted.large_nodes, wanted.devices, wanted.large_pods, wanted.large_fair), say
    )


def _compare(workload: Workload, say: Say, *, show_cpu: bool = False) -> Iterator[Figure]:
    count = len(workload.claims)
    say(f"{workload.name}, {count} pods: Dray")
    ours = _run(workload, count, NAME, _dray)
    say(f"{workload.name}, {workload.fair} pods: {PEER}")
    theirs = _run(workload, workload.fair, "default-scheduler", _kube_scheduler)
    name = f"{workload.name}, {count} pods"
    if workload.fair != count:
        name += f" ({workload.fair} for {PEER})"
    yield Figure(name, "pods/s", ours.rate, PEER, theirs.rate, higher_is_better=True)
    if show_cpu:
        yield Figure(
            f"{name}: CPU of the scheduler, its start included", "ms/pod", ours.cpu, PEER, theirs.cpu
        )
        yield Figure(
            f"{name}: CPU of API server and etcd", "ms/pod", ours.server_cpu, PEER, theirs.server_cpu
        )


def _run(workload: Workload, count: int, scheduler: str, command: Command) -> _Run:
    with ControlPlane(locate(MODULES)) as plane:
        return asyncio.run(_measure(plane, workload, count, scheduler, command))


async def _measure(
    plane: ControlPlane, workload: Workload, count: int, scheduler: str, command: Command
) -> _Run:
    async with Client(find_access(plane.kubeconfig)) as client:
        await fill(client, workload)
        await add_pods(client, workload, scheduler, count)
        part = Part("contender", command(plane), plane.directory)
        before = _cpu(plane.apiserver, plane.etcd)
        try:
            bound = await watch_bindings(client, count, part.start)
            own = 0.0 if part.returncode is not None else _cpu(part)
            spent = _cpu(plane.apiserver, plane.etcd) - before
            await check(client)
        finally:
            await asyncio.to_thread(part.stop)
        return _Run(bound.rate, own / count * 1e3, spent / count * 1e3)


def _cpu(*parts: Part) -> float:
    """Seconds of processor time that running programs have taken so far."""
    ticks = 0
    for part in parts:
        fields = Path(f"/proc/{part.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _dray(plane: ControlPlane) -> Sequence[str | Path]:
    return _python(
        "dray",
        "scheduler",
        "--kubeconfig",
        plane.kubeconfig,
        "--scheduler-name",
        NAME,
        "--metrics-address",
        "none",
    )


def _python(*words: str | Path) -> Sequence[str | Path]:
    return [sys.executable, "-m", *words]


def _kube_scheduler(plane: ControlPlane) -> Sequence[str | Path]:
    """Its client may ask as often as it likes; else it would be the limit."""
    config = plane.directory / "kube-scheduler.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        f"clientConnection: {{kubeconfig: {plane.kubeconfig}, qps: 100000, burst: 100000}}\n"
        "leaderElection: {leaderElect: false}\n"
    )
    gates = plane.settings.gates
    return [plane.tools.path("kube-scheduler"), f"--config={config}", "--secure-port=0", gates]
