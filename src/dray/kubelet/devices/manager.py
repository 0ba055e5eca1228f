"""The device manager: what plugins list goes in, what containers hold comes out. A provider of topology hints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from dray.api.core import Pod
from dray.api.core.container import Container, ResourceStatus
from dray.kubelet.devices.allocating import Allocator
from dray.kubelet.devices.contract import Endpoint, Surroundings
from dray.kubelet.devices.hints import Ask, resource_hints
from dray.kubelet.devices.known import Device
from dray.kubelet.devices.ledger import Ledger
from dray.kubelet.devices.requests import container_limits, pod_limits
from dray.kubelet.devices.status import allocated_status, health_of
from dray.kubelet.node.resources import DeviceCapacity
from dray.kubelet.pods.contract import RunOptions
from dray.kubelet.topology.hints import Hint, ResourceHints
from dray.runtime.files.checkpoint import SetAside
from dray.runtime.logs import get_log

_log = get_log("kubelet.devices.manager")


class DeviceManager:
    """One a node, on one event loop. `load` first, then everything else in any order; `close` last."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._ledger = Ledger(around)
        self._allocator = Allocator(self._ledger, around)
        around.metrics.follow_devices(self._counts)

    def load(self) -> SetAside | None:
        """Read the checkpoint. One that is damaged never stops the node: it is kept under another name, told and logged."""
        return self._ledger.load()

    def close(self) -> None:
        """Let go of the checkpoint. Grants stay: containers outlive this process."""
        self._ledger.close()

    @property
    def was_recreated(self) -> bool:
        """Whether this node never had a checkpoint: what its Node object says of extended resources is then from before."""
        return self._ledger.was_recreated

    # What plugins say.

    def connected(self, resource: str, endpoint: Endpoint) -> None:
        """A plugin registered. From now on its resource is known, with nothing to give before it lists."""
        with self._noticing(resource):
            self._ledger.known.connected(resource, endpoint)

    def listed(self, resource: str, devices: Iterable[Device], endpoint: Endpoint) -> None:
        """A whole list of a connected plugin; what it does not name any more is gone. Ignored after `disconnected`."""
        with self._noticing(resource):
            self._ledger.known.listed(resource, devices, endpoint)
        self._ledger.save_known()

    def disconnected(self, resource: str, endpoint: Endpoint) -> None:
        """Its connection ended; twice is harmless. Only the last instance takes the resource's devices with it."""
        with self._noticing(resource):
            self._ledger.known.stopped(resource, endpoint, self._around.clock.monotonic())
        _log.info("device plugin disconnected", resource=resource)

    @contextmanager
    def _noticing(self, resource: str) -> Iterator[None]:
        """Tell of pods whose devices changed their health."""
        before = self._held_health(resource)
        yield
        after = self._held_health(resource)
        held = self._ledger.grants.held(resource)
        pods = {pod for one, health in after.items() if health != before.get(one) for pod in held[one]}
        if pods:
            self._around.health_changed(sorted(pods))

    def _held_health(self, resource: str) -> dict[str, str]:
        known = self._ledger.known.get(resource)
        return {one: health_of(known, one) for one in self._ledger.grants.held(resource)}

    # What pods get.

    def topology_hints(self, pod: Pod, container: Container) -> ResourceHints:
        """For one container, after what the ones before it got."""
        uid = pod.metadata.uid
        with self._ledger.admitting(uid):
            self._ledger.forget_inactive()
        hints: dict[str, list[Hint] | None] = {}
        for resource, count in container_limits(pod, container).items():
            if self._ledger.is_of_plugin(resource):
                grant = self._ledger.grants.get(uid, container.name, resource)
                existing = grant.ids if grant else frozenset()
                reusable = self._ledger.reusable(pod, resource)
                hints[resource] = self._hints(resource, count, existing, reusable)
        return hints

    def pod_topology_hints(self, pod: Pod) -> ResourceHints:
        """For the pod as a whole."""
        with self._ledger.admitting(pod.metadata.uid):
            self._ledger.forget_inactive()
        grants = self._ledger.grants.of_pod(pod.metadata.uid)
        hints: dict[str, list[Hint] | None] = {}
        for resource, count in pod_limits(pod).items():
            if self._ledger.is_of_plugin(resource):
                own = (grant.ids for grant in grants if grant.resource == resource)
                hints[resource] = self._hints(resource, count, frozenset().union(*own), frozenset())
        return hints

    def _hints(
        self, resource: str, count: int, existing: frozenset[str], reusable: frozenset[str]
    ) -> list[Hint] | None:
        known = self._ledger.known.get(resource)
        if known is None:
            return None
        ask = Ask(count, existing, self._ledger.free(resource), reusable)
        return resource_hints(ask, known.devices, self._around.numa_nodes)

    async def allocate(self, pod: Pod, container: Container) -> None:
        """At admission: init containers first, in the pod's order; again after a restart. Its Errors reject the pod."""
        await self._allocator.allocate(pod, container)

    async def run_options(self, pod: Pod, container: Container) -> RunOptions:
        """Before every start of a container: plugins that want it reset their devices. Nothing where nothing is held."""
        return await self._allocator.run_options(pod, container)

    def forget_inactive(self) -> None:
        """Take devices back from pods that are over. Also happens by itself before hints and grants."""
        self._ledger.forget_inactive()

    # What others see.

    def capacity(self) -> DeviceCapacity:
        """For the Node's status. A resource that lost its plugin too long ago is named as deleted this one time."""
        found = self._ledger.known.capacity(self._around.clock.monotonic())
        if found.deleted:
            self._ledger.save_known()
        return found

    def held(self, pod_uid: str) -> dict[str, int]:
        """For a pod that has devices already: how many of each resource are held on this node, so that it fits again."""
        return self._ledger.grants.counts() if self._ledger.grants.has_pod(pod_uid) else {}

    def allocated_status(self, pod: Pod, container: Container) -> tuple[ResourceStatus, ...]:
        """The health of what a container holds."""
        grants = self._ledger.grants.of_container(pod.metadata.uid, container.name)
        return allocated_status(grants, self._ledger.known)

    def allocatable_devices(self) -> Mapping[str, tuple[Device, ...]]:
        """All healthy devices by resource, sorted, held or not."""
        known = ((name, self._ledger.known.get(name)) for name in self._ledger.known)
        return {name: tuple(one.devices[each] for each in sorted(one.healthy)) for name, one in known if one}

    def container_devices(self, pod_uid: str, container: str) -> Mapping[str, tuple[Device, ...]]:
        """What a container holds by resource, sorted, with the NUMA nodes it had when it was granted."""
        grants = self._ledger.grants.of_container(pod_uid, container)
        return {grant.resource: grant.located() for grant in grants if grant.ids}

    def _counts(self) -> dict[str, tuple[int, int]]:
        known = ((name, self._ledger.known.get(name)) for name in self._ledger.known)
        return {name: (len(one.healthy), len(one.unhealthy)) for name, one in known if one}
