"""One resource as a device plugin: what the kubelet is answered. Transport and lifetime are elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from dray.cdi.edits import ContainerEdits
from dray.deviceplugin.allocate import to_response
from dray.deviceplugin.listing import Catalog
from dray.deviceplugin.metrics import NoMetrics, ResourceMetrics
from dray.deviceplugin.preferred import prefer
from dray.deviceplugin.streams import ListStreams
from dray.drivers.contract import Device, Driver, HasPreStart, Health, Prepared
from dray.errors import HardwareError, InvalidError
from dray.inventory.inventory import InventoryFeed
from dray.runtime.logs import get_log
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerPreferredAllocationResponse,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
)

_log = get_log("deviceplugin")

CarryOut = Callable[[Prepared], Awaitable[ContainerEdits]]
"""Does to the host what a container needs before it may have its devices, and returns all that the container gets.

Raises a Dray error if that fails. It may be cancelled, and is called again with an equal value when a pod is tried again.
"""

Giving = Callable[[str, Collection[Device]], AbstractAsyncContextManager[None]]
"""Notes durably that a container is about to get these devices of a resource; ConflictError where somebody else has one.

Entered before the host is touched, and left when the kubelet is answered; an error inside takes the note back. Nobody
says when they are given back: the kubelet is asked for that.
"""


def _noting_nothing(resource: str, devices: Collection[Device]) -> AbstractAsyncContextManager[None]:
    """There is no other door."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Offer:
    """One resource name, the driver behind it, and the file name of its socket."""

    resource: str
    driver: Driver
    socket: str

    @property
    def terms(self) -> tuple[str, str, bool]:
        """What the kubelet is told at registration. A change of anything else needs none."""
        return self.resource, self.socket, isinstance(self.driver, HasPreStart)


class ResourcePlugin:
    """Answers for one resource (`wire.deviceplugin.DevicePlugin`). Calls may come at once, and again after a restart.

    `offer` may be replaced at any time by one with equal terms: calls that begin later use its driver. A plugin whose
    `streams` were retired is not used again.
    """

    def __init__(
        self,
        offer: Offer,
        feed: InventoryFeed,
        carry_out: CarryOut,
        metrics: ResourceMetrics | None = None,
        giving: Giving | None = None,
    ) -> None:
        self.offer = offer
        self.metrics = metrics or NoMetrics()
        self._carry_out = carry_out
        self._giving = giving or _noting_nothing
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._catalog = Catalog(offer.resource, feed)
        self.streams = ListStreams(offer.resource, feed, self._catalog, self.metrics)

    @property
    def ids(self) -> frozenset[str]:
        """All ids of the resource, healthy or not."""
        return frozenset(self._catalog.current.by_id)

    async def get_device_plugin_options(self, request: Empty) -> DevicePluginOptions:
        """What the driver can do."""
        return DevicePluginOptions(
            pre_start_required=isinstance(self.offer.driver, HasPreStart),
            get_preferred_allocation_available=True,
        )

    def list_and_watch(self, request: Empty) -> AsyncIterator[ListAndWatchResponse]:
        """The list now and after each change of it, see `streams`."""
        return self.streams.follow()

    async def get_preferred_allocation(
        self, request: PreferredAllocationRequest
    ) -> PreferredAllocationResponse:
        """Near each other, see `preferred`."""
        spots = self._catalog.current.spots
        return PreferredAllocationResponse(
            container_responses=[
                ContainerPreferredAllocationResponse(
                    deviceIDs=prefer(
                        asked.available_deviceIDs, asked.must_include_deviceIDs, asked.allocation_size, spots
                    )
                )
                for asked in request.container_requests
            ]
        )

    async def allocate(self, request: AllocateRequest) -> AllocateResponse:
        """One answer for each container, or an error for the whole call.

        The host is touched only when every container can be prepared, and its devices are noted as held. If a change
        then fails, or the caller gives up (a kubelet that ends; it has no deadline for this call), what was changed so
        far stays: nothing was promised, and the next call makes the same changes again. A container that asks for no
        device gets nothing, without the driver. A device that is unhealthy is refused with its reason, though a kubelet
        that did not have our last list yet may ask for it: it would fail later, and less clearly, when the container
        starts.
        """
        with self._working(), self.metrics.allocating():
            driver, resource = self.offer.driver, self.offer.resource
            given = [self._healthy(asked.devices_ids) for asked in request.container_requests]
            parcels = [None if one is None else driver.prepare(resource, one) for one in given]
            async with self._giving(resource, [device for one in given for device in one or ()]):
                edits = [
                    await self._carry_out(one) if one is not None else ContainerEdits() for one in parcels
                ]
            for asked in request.container_requests:
                _log.info("allocated", resource=resource, ids=",".join(asked.devices_ids))
            return AllocateResponse(container_responses=[to_response(one) for one in edits])

    async def pre_start_container(self, request: PreStartContainerRequest) -> PreStartContainerResponse:
        """Before each start of a container, if the driver wants it; of a device that is unhealthy by now, too."""
        driver = self.offer.driver
        if isinstance(driver, HasPreStart):
            with self._working(), self.metrics.pre_starting():
                await driver.pre_start(self.offer.resource, self._devices(request.devices_ids))
        return PreStartContainerResponse()

    async def wait_idle(self, timeout: float) -> None:
        """Return when no container is being worked for, or after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("stops though a container waits", resource=self.offer.resource, waited_s=timeout)

    @contextmanager
    def _working(self) -> Iterator[None]:
        self._calls += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    def _healthy(self, ids: Iterable[str]) -> list[Device] | None:
        """The devices for one container, none of them sick; None where it asks for none."""
        asked = list(ids)
        if not asked:
            return None
        devices = self._devices(asked)
        if len(asked) > 1 and any(device.one_share for device in devices):
            raise InvalidError(
                f"{len(asked)} of {self.offer.resource} were asked for, and more than one give no more: ask for 1",
                field=self.offer.resource,
            )
        for device in devices:
            if device.health is not Health.HEALTHY:
                raise HardwareError(
                    f"device {device.id} of {self.offer.resource} is not healthy: "
                    f"{device.reason or 'no reason given'}",
                    device=device.id,
                )
        return devices

    def _devices(self, ids: Iterable[str]) -> list[Device]:
        """The devices behind the ids, each once. Ids of devices that are gone are left out; the driver judges that."""
        known = self._catalog.current.by_id
        asked = list(ids)
        if missing := [name for name in asked if name not in known]:
            _log.warning(
                "asked for devices that are gone", resource=self.offer.resource, ids=",".join(missing)
            )
        return list({known[name].id: known[name] for name in asked if name in known}.values())
