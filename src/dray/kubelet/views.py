"""How the parts of a kubelet see each other: each through the few questions it asks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from dray.api.core import Pod
from dray.api.core.container import Container
from dray.api.resource.claim import ResourceClaim
from dray.errors import Error, NotFoundError
from dray.kubelet.claims.manager import ClaimManager
from dray.kubelet.devices.known import Device
from dray.kubelet.devices.manager import DeviceManager
from dray.kubelet.node.resources import DeviceCapacity
from dray.kubelet.plugins.endpoint import PluginEndpoint
from dray.kubelet.podresources import HeldClaim, HeldDevice
from dray.kubelet.pods.manager import PodManager


class PodsSeen:
    """The pods, for parts that are made before the pod manager: `manager` is set last."""

    manager: PodManager

    def uids(self) -> Collection[str]:
        """Of the pods that hold, or may hold, devices."""
        return [pod.metadata.uid for pod in self.manager.known.active]

    def active_pods(self) -> list[Pod]:
        """The same pods."""
        return self.manager.known.active

    def known_pods(self) -> list[Pod]:
        """All."""
        return [one.pod for one in self.manager.known.by_uid.values()]

    def is_ready(self) -> bool:
        """Whether all pods that shall be here are known."""
        return self.manager.is_ready

    def was_running(self, uid: str, container: str) -> bool:
        """Whether a container ran when this process began."""
        return self.manager.was_running(uid, container)

    def wake(self, uids: Collection[str]) -> None:
        """Look at these again."""
        for uid in uids:
            self.manager.wake(uid)


class DevicesSeen:
    """The device manager, as plugins see it; `wait` tells the node that something changed."""

    def __init__(self, devices: DeviceManager) -> None:
        self._devices = devices
        self._changed = asyncio.Event()
        self._deleted: set[str] = set()

    def connected(self, resource: str, endpoint: PluginEndpoint) -> None:
        """See `Devices`."""
        self._devices.connected(resource, endpoint)
        self._changed.set()

    def listed(self, resource: str, devices: Sequence[Device], endpoint: PluginEndpoint) -> None:
        """See `Devices`."""
        self._devices.listed(resource, devices, endpoint)
        self._changed.set()

    def disconnected(self, resource: str, endpoint: PluginEndpoint) -> None:
        """See `Devices`."""
        self._devices.disconnected(resource, endpoint)
        self._changed.set()

    def capacity(self) -> DeviceCapacity:
        """For all who ask. The manager names a resource that it gave up once; here it stays named until it is back."""
        found = self._devices.capacity()
        self._deleted = (self._deleted | set(found.deleted)) - found.capacity.keys()
        return DeviceCapacity(found.capacity, found.allocatable, tuple(sorted(self._deleted)))

    async def wait(self) -> None:
        """Until something changed since the last call."""
        await self._changed.wait()
        self._changed.clear()


class ClaimsSeen:
    """The claims, as pod resources see them."""

    def __init__(self, claims: ClaimManager) -> None:
        self._claims = claims

    def container_claims(self, pod: Pod, container: Container) -> tuple[HeldClaim, ...]:
        """What a container uses; nothing where one of them is not known, as a kubelet answers."""
        try:
            found = self._claims.container_claims(pod, container)
        except Error:
            return ()
        return tuple(
            HeldClaim(
                one.namespace,
                one.name,
                tuple(
                    HeldDevice(driver, device.pool, device.name, device.cdi_ids, device.share_id)
                    for driver, device in one.devices()
                ),
            )
            for one in found
        )


class NoClaims:
    """Without an API server no pod has claims."""

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        """NotFoundError that says what to do."""
        raise NotFoundError(
            f"ResourceClaim {namespace}/{name}: claims need an API server; give one with --kubeconfig",
            kind="ResourceClaim",
            name=name,
        )

    async def delete_slices(self, node: str, driver: str) -> None:
        """There are none."""
