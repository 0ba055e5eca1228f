"""Pods on a real kubelet: how long from creation to running, with a device from Dray's agent and from the Go sample.

Two ends are taken: when a watch brings Running, which is what a user sees, and when the container wrote its first line,
which containerd notes to the nanosecond and which does not wait for the kubelet to notice.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from dray.api.core import Pod
from dray.api.kinds import PODS
from dray.bench.agent_machine import Sizes
from dray.bench.agent_process import SAMPLE_RESOURCE
from dray.bench.measure import Figure
from dray.bench.peers import MODULES
from dray.client.client import Client, Watch
from dray.client.kubeconfig import find_access
from dray.client.store import Entry
from dray.errors import NotFoundError, UnavailableError
from dray.testing.install_steps import Say
from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.images import BUSYBOX
from dray.testing.kubernetes.install import check_machine
from dray.testing.kubernetes.part import Part, wait_until
from dray.testing.kubernetes.tools import locate

DRAY_RESOURCE = "example.com/bench"
_DEVICES = 2  # as many as the sample has
_SAMPLE_FILES = ("/tmp/Dev-1", "/tmp/Dev-2")  # noqa: S108  (the sample makes its devices there, wherever it runs)
_PAUSE = 0.3
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class PodTimes:
    """Seconds since the pod was sent to the API server."""

    started: float
    running: float


def check_ready(modules: Path = MODULES) -> None:
    """Raise one clear line where `pod_figures` cannot work: before minutes are spent on other figures."""
    check_machine()
    if not modules.is_dir():
        raise NotFoundError(f"{modules} is not here: run from a checkout of Dray", kind="tools")
    if missing := locate(modules).missing():
        raise NotFoundError(
            f"not installed: {', '.join(missing)}; `python -m dray.testing.kubernetes install` builds them",
            kind="tools",
        )


def pod_figures(sizes: Sizes, say: Say) -> Iterator[Figure]:
    """Both ends, over `sizes.pods` pods each, in turns. What else the machine does shows in p90 first, in p10 last."""
    say("starting a real Kubernetes")
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(locate(MODULES)))
        stack.callback(_remove_sample_files)
        parts = _spawn_agent(cluster), cluster.spawn("sample", cluster.tools.path("sample-device-plugin"))
        for resource in (DRAY_RESOURCE, SAMPLE_RESOURCE):
            _wait_allocatable(cluster, resource, parts)
        times = asyncio.run(_time_pods(cluster, sizes, say))
    for name, values in _columns(times):
        for share, pick in (("p10", _p10), ("median", statistics.median), ("p90", _p90)):
            ours, theirs = (1e3 * pick(values[resource]) for resource in (DRAY_RESOURCE, SAMPLE_RESOURCE))
            yield Figure(f"pod created to {name}, {share}", "ms", ours, "Go sample plugin", theirs)


def _columns(times: dict[str, list[PodTimes]]) -> Iterator[tuple[str, dict[str, list[float]]]]:
    yield "Running in a watch", {key: [one.running for one in each] for key, each in times.items()}
    yield "its first output", {key: [one.started for one in each] for key, each in times.items()}


def _p10(values: list[float]) -> float:
    return statistics.quantiles(values, n=10)[0] if len(values) > 1 else values[0]


def _p90(values: list[float]) -> float:
    return statistics.quantiles(values, n=10)[-1] if len(values) > 1 else values[0]


def _spawn_agent(cluster: Cluster) -> Part:
    devices = [{"name": "bench", "count": _DEVICES, "resourceName": DRAY_RESOURCE}]
    config = cluster.directory / "agent.json"
    config.write_text(json.dumps({"dray": {"sim": {"devices": devices}}}))
    words = [
        f"--config={config}",
        f"--state-dir={cluster.directory / 'dray'}",
        "--metrics-address=127.0.0.1:0",
    ]
    paths = {"PYTHONPATH": str(Path(__file__).parents[2])}
    return cluster.spawn("dray-agent", sys.executable, "-m", "dray", "agent", *words, env=paths)


def _wait_allocatable(cluster: Cluster, resource: str, parts: tuple[Part, ...]) -> None:
    def is_there() -> bool:
        node = cluster.request("GET", f"/api/v1/nodes/{cluster.node_name}")
        return bool(node["status"].get("allocatable", {}).get(resource) == str(_DEVICES))

    wait_until(is_there, f"{resource} to be allocatable", _SECONDS, parts)


def _remove_sample_files() -> None:
    for path in _SAMPLE_FILES:
        Path(path).unlink(missing_ok=True)


async def _time_pods(cluster: Cluster, sizes: Sizes, say: Say) -> dict[str, list[PodTimes]]:
    times: dict[str, list[PodTimes]] = {DRAY_RESOURCE: [], SAMPLE_RESOURCE: []}
    async with Client(find_access(cluster.kubeconfig)) as client:
        await _time_pod(cluster, client, "warm-up", DRAY_RESOURCE)
        for number in range(sizes.pods):
            say(f"pods: {number} of {sizes.pods} each")
            order = (DRAY_RESOURCE, SAMPLE_RESOURCE) if number % 2 else (SAMPLE_RESOURCE, DRAY_RESOURCE)
            for resource in order:
                name = f"{resource.rpartition('/')[2]}-{number}"
                times[resource].append(await _time_pod(cluster, client, name, resource))
                await asyncio.sleep(_PAUSE)
    return times


async def _time_pod(cluster: Cluster, client: Client, name: str, resource: str) -> PodTimes:
    """One pod from its creation until it is gone again."""
    listed = await client.list_page(PODS)
    try:
        async with (
            asyncio.timeout(_SECONDS),
            client.watch(PODS, resource_version=listed.resource_version) as watch,
        ):
            created, wall = time.perf_counter(), time.time()
            await client.create(PODS, _manifest(name, resource), namespace="default")
            running = await _wait_running(watch, name) - created
            started = await asyncio.to_thread(_first_output, cluster, name) - wall
            await client.delete(PODS, name, namespace="default")
            await _wait_deleted(watch, name)
    except TimeoutError:
        raise UnavailableError(
            f"pod {name} did not start and end within {_SECONDS:g} s; containers cannot start under a real-time policy (chrt)"
        ) from None
    return PodTimes(started, running)


async def _wait_deleted(watch: Watch[Pod], name: str) -> None:
    async for event in watch:
        item = event.item
        if event.type == "DELETED" and isinstance(item, Entry) and item.value.metadata.name == name:
            return


async def _wait_running(watch: Watch[Pod], name: str) -> float:
    async for event in watch:
        pod = event.item.value if isinstance(event.item, Entry) else None
        if pod is None or pod.metadata.name != name:
            continue
        if pod.status.phase == "Failed" or event.type == "DELETED":
            raise UnavailableError(
                f"pod {name} is {pod.status.phase}: {pod.status.reason} {pod.status.message}"
            )
        if pod.status.phase == "Running":
            return time.perf_counter()
    raise UnavailableError(f"the API server ended the watch before pod {name} ran")


def _first_output(cluster: Cluster, name: str) -> float:
    """When the container wrote its first line, in seconds of the wall clock: containerd's own note in the log file."""
    pattern = f"pods/default_{name}_*/main/*.log"
    wait_until(
        lambda: any(path.stat().st_size for path in cluster.dirs.log.glob(pattern)), f"{name} to print", 10
    )
    (log,) = cluster.dirs.log.glob(pattern)
    return datetime.fromisoformat(log.read_text().split(" ", 1)[0]).timestamp()


def _manifest(name: str, resource: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "echo started; exec sleep 1000"],
        "resources": {"limits": {resource: "1"}},
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "hostNetwork": True,
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
