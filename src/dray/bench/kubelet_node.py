"""`python -m dray.bench.kubelet_node`: our side of `dray bench kubelet`, a process of its own, for its memory counts.

A `Load` comes as JSON on stdin. The plugin registers over the socket; then pods are admitted one after another as the kubelet
does it, with devices from the plugin and a checkpoint on the disk for each. Times and the most memory go to stdout.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from dray.api.codec.json_codec import view
from dray.api.core import Pod
from dray.api.quantity import Quantity
from dray.errors import InvariantError
from dray.kubelet.admission import NodeAdmission
from dray.kubelet.devices.contract import CHECKPOINT, Surroundings
from dray.kubelet.devices.manager import DeviceManager
from dray.kubelet.metrics import KubeletMetrics
from dray.kubelet.node.resources import node_resources
from dray.kubelet.plugins.connections import Connections
from dray.kubelet.plugins.registration import Registration
from dray.kubelet.topology.manager import TopologyManager
from dray.kubelet.topology.nodes import NumaNodes
from dray.kubelet.topology.options import TopologyConfig
from dray.kubelet.views import DevicesSeen
from dray.runtime.clock import SystemClock
from dray.runtime.metrics import Metrics

_LISTED_SECONDS = 60.0
_MACHINE = {"cpu": "64", "memory": "256Gi", "pods": "100000"}


class Node:
    """The parts of `dray kubelet` that a pod passes on its way in."""

    def __init__(self, load: Mapping[str, Any]) -> None:
        self._directory = Path(load["directory"])
        self._metrics = KubeletMetrics(Metrics())
        self._pods: list[Pod] = []
        clock = SystemClock()
        numa = NumaNodes(tuple(load["nodes"]))
        config = TopologyConfig(load["policy"], load["scope"])
        self._topology = TopologyManager(config, numa, clock, self._metrics.topology)
        self._devices = DeviceManager(
            Surroundings(
                checkpoint=self._directory / CHECKPOINT,
                active_pods=lambda: [pod.metadata.uid for pod in self._pods],
                sources_ready=lambda: True,
                was_running=lambda _uid, _container: False,
                affinity=self._topology.affinity,
                numa_nodes=numa.ids,
                clock=clock,
                metrics=self._metrics,
            )
        )
        self._topology.add_provider(self._devices)
        self._seen = DevicesSeen(self._devices)
        self._machine = {name: Quantity.parse(amount) for name, amount in _MACHINE.items()}
        self._admission = NodeAdmission(self._topology, self._devices, self._allocatable)

    def _allocatable(self) -> Mapping[str, Quantity]:
        return node_resources(self._machine, self._seen.capacity(), {}).allocatable

    async def serve(self, stack: AsyncExitStack) -> None:
        """Plugins may register."""
        stack.callback(self._devices.close)
        self._devices.load()
        connections = Connections(self._seen)
        await stack.enter_async_context(connections.running())
        registration = Registration(self._directory, connections, self._metrics)
        await stack.enter_async_context(registration.serving())

    async def wait_listed(self, count: int) -> None:
        """Until so many devices can be given."""
        async with asyncio.timeout(_LISTED_SECONDS):
            while sum(self._seen.capacity().allocatable.values()) < count:
                await self._seen.wait()

    async def admit(self, pod: Pod) -> float:
        """The seconds it took."""
        started = time.perf_counter()
        others = self._pods.copy()
        self._pods.append(pod)
        rejection = await self._admission.admit(pod, others)
        spent = time.perf_counter() - started
        if rejection is not None:
            raise InvariantError(f"pod {pod.metadata.name} was not admitted: {rejection.message}")
        return spent


def pod_of(number: int, resource: str, each: int) -> Pod:
    """As the API server has it."""
    limits = {resource: str(each)}
    return view(
        {
            "metadata": {
                "name": f"pod-{number}",
                "namespace": "default",
                "uid": f"8c2f0d3e-0b7c-4d5e-9f5a-{number:012x}",
                "resourceVersion": "1",
            },
            "spec": {"containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}]},
        },
        Pod,
    )


async def run(load: Mapping[str, Any]) -> list[float]:
    """The seconds of each admission."""
    async with AsyncExitStack() as stack:
        node = Node(load)
        await node.serve(stack)
        await node.wait_listed(load["devices"])
        pods = [pod_of(number, load["resource"], load["each"]) for number in range(load["pods"])]
        return [await node.admit(pod) for pod in pods]


def peak() -> int:
    """The most KiB that this process ever had resident."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


def main() -> None:
    """One load in, one line out."""
    seconds = asyncio.run(run(json.load(sys.stdin)))
    json.dump({"error": "", "micros": [round(one * 1e6) for one in seconds], "peakKiB": peak()}, sys.stdout)


if __name__ == "__main__":
    main()
