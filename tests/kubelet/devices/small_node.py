"""A node of one device manager, and plugins in the same process that can be told what to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from pathlib import Path

from dray.api.core import Pod
from dray.api.core.container import Container, ResourceRequirements
from dray.api.core.pod import PodSpec
from dray.api.meta import ObjectMeta
from dray.api.quantity import Quantity
from dray.kubelet.devices.contract import CHECKPOINT, Surroundings
from dray.kubelet.devices.known import Device
from dray.kubelet.devices.manager import DeviceManager
from dray.kubelet.metrics import KubeletMetrics
from dray.kubelet.topology.hints import Hint
from dray.runtime.clock import FakeClock
from dray.runtime.metrics import Metrics
from dray.wire.gen.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse, DevicePluginOptions

RESOURCE = "domain1.com/resource1"
OTHER = "domain2.com/resource2"


class SmallPlugin:
    """Answers Allocate with the ids in the environment. `before` is awaited in each call, with its name."""

    def __init__(self, *, preferred: bool = False, pre_start: bool = False, name: str = "IDS") -> None:
        self.options = DevicePluginOptions(
            pre_start_required=pre_start, get_preferred_allocation_available=preferred
        )
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.questions: list[tuple[tuple[str, ...], tuple[str, ...], int]] = []
        self.wish: Sequence[str] = ()
        self.response: ContainerAllocateResponse | None = None
        self.before: Callable[[str], Awaitable[None]] | None = None
        self._name = name

    async def allocate(self, ids: Sequence[str]) -> ContainerAllocateResponse:
        self.calls.append(("allocate", tuple(ids)))
        await self._wait("allocate")
        if self.response is not None:
            return self.response
        return ContainerAllocateResponse(envs={self._name: ",".join(ids)})

    async def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        self.questions.append((tuple(available), tuple(must_include), size))
        await self._wait("preferred")
        return self.wish

    async def pre_start(self, ids: Sequence[str]) -> None:
        self.calls.append(("pre_start", tuple(ids)))
        await self._wait("pre_start")

    async def _wait(self, name: str) -> None:
        if self.before is not None:
            await self.before(name)


class SmallNode:
    """`manager` is loaded. `restart()` makes a new one from the checkpoint."""

    def __init__(self, directory: Path, *, numa_nodes: tuple[int, ...] = (0, 1)) -> None:
        self.path = directory / "device-plugins" / CHECKPOINT
        self.clock = FakeClock()
        self.active: set[str] | None = None
        self.is_ready = True
        self.running: set[tuple[str, str]] = set()
        self.hints: dict[tuple[str, str], Hint] = {}
        self.hint = Hint(None, True)
        self.changed: list[tuple[str, ...]] = []
        self.metrics = Metrics()
        self._numa_nodes = numa_nodes
        self._seen: set[str] = set()
        self.manager = self._made()

    def _made(self) -> DeviceManager:
        self.metrics = Metrics()
        self.around = Surroundings(
            checkpoint=self.path,
            active_pods=self._active,
            sources_ready=lambda: self.is_ready,
            was_running=lambda uid, name: (uid, name) in self.running,
            affinity=lambda uid, name: self.hints.get((uid, name), self.hint),
            numa_nodes=self._numa_nodes,
            clock=self.clock,
            metrics=KubeletMetrics(self.metrics),
            health_changed=lambda pods: self.changed.append(tuple(pods)),
        )
        manager = DeviceManager(self.around)
        self.aside = manager.load()
        return manager

    def _active(self) -> Collection[str]:
        """All pods ever admitted, unless a test says otherwise."""
        return self._seen if self.active is None else self.active

    def restart(self) -> None:
        self.manager.close()
        self.manager = self._made()

    def plug(
        self, resource: str, devices: Iterable[Device], plugin: SmallPlugin | None = None
    ) -> SmallPlugin:
        plugin = plugin or SmallPlugin()
        self.manager.connected(resource, plugin)
        self.manager.listed(resource, tuple(devices), plugin)
        return plugin

    async def admit(self, pod: Pod) -> None:
        """As the topology manager does without a policy."""
        self._seen.add(pod.metadata.uid)
        for one in (*pod.spec.init_containers, *pod.spec.containers):
            await self.manager.allocate(pod, one)

    def ids(self, pod: Pod, container: str = "c", resource: str = RESOURCE) -> set[str]:
        found = self.manager.container_devices(pod.metadata.uid, container).get(resource, ())
        return {one.id for one in found}

    def in_use(self, resource: str = RESOURCE) -> frozenset[str]:
        """Healthy and not to be had."""
        ledger = self.manager._ledger
        known = ledger.known.get(resource)
        return (known.healthy if known else frozenset()) - ledger.free(resource)


def devices(*ids: str, healthy: bool = True, nodes: tuple[int, ...] = ()) -> list[Device]:
    return [Device(one, healthy, nodes, bool(nodes)) for one in ids]


def container(name: str = "c", policy: str | None = None, **counts: int) -> Container:
    """`res1=2` stands for two of the first resource."""
    names = {"res1": RESOURCE, "res2": OTHER}
    limits = {names.get(key, key): Quantity.from_int(count) for key, count in counts.items()}
    return Container(name=name, restart_policy=policy, resources=ResourceRequirements(limits=limits))


def pod_of(uid: str, *containers: Container, init: Sequence[Container] = ()) -> Pod:
    return Pod(
        metadata=ObjectMeta(uid=uid, name=uid, namespace="default"),
        spec=PodSpec(containers=tuple(containers), init_containers=tuple(init)),
    )


def simple(uid: str, **counts: int) -> Pod:
    """A pod of one container `c`."""
    return pod_of(uid, container("c", None, **counts))
