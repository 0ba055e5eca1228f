"""One resource as a device plugin: what the kubelet is answered. Transport and lifetime are elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from dray.deviceplugin.allocate import to_response
from dray.deviceplugin.listing import listing
from dray.deviceplugin.preferred import Spot, prefer
from dray.drivers.contract import Device, Driver, HasPreStart, Prepared
from dray.inventory.inventory import Inventory, InventoryFeed
from dray.runtime.logs import get_log
from dray.runtime.tasks import wait_first
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

CarryOut = Callable[[Prepared], Awaitable[None]]
"""Does to the host what a container needs before it may have its devices; raises a Dray error if that fails."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One resource name, the driver behind it, and the file name of its socket."""

    resource: str
    driver: Driver
    socket: str


class ResourcePlugin:
    """Answers for one resource (`wire.deviceplugin.DevicePlugin`). Calls may come at once, and again after a restart.

    `retire` ends every list stream with an empty list, so that the kubelet takes the devices back at once and not
    after five minutes. A retired plugin is not used again.
    """

    def __init__(self, offer: Offer, feed: InventoryFeed, carry_out: CarryOut) -> None:
        self.offer = offer
        self._feed = feed
        self._carry_out = carry_out
        self._retired = asyncio.Event()
        self._streams = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def get_device_plugin_options(self, request: Empty) -> DevicePluginOptions:
        """What the driver can do."""
        return DevicePluginOptions(
            pre_start_required=isinstance(self.offer.driver, HasPreStart),
            get_preferred_allocation_available=True,
        )

    async def list_and_watch(self, request: Empty) -> AsyncIterator[ListAndWatchResponse]:
        """The list now and after each change of it, an empty one at the end."""
        self._streams += 1
        self._quiet.clear()
        try:
            told: ListAndWatchResponse | None = None
            inventory = self._feed.current
            while not self._retired.is_set():
                found = listing(inventory.of(self.offer.resource))
                if found.message != told:
                    if found.left_out:
                        _log.error(
                            "too many devices for one message",
                            resource=self.offer.resource,
                            left_out=found.left_out,
                        )
                    told = found.message
                    yield told
                inventory = await self._next(inventory.generation)
            yield ListAndWatchResponse()
        finally:
            self._streams -= 1
            if not self._streams:
                self._quiet.set()

    async def _next(self, generation: int) -> Inventory:
        """The next inventory, or the same once more when it is time to go."""
        await wait_first(self._feed.wait_newer(generation), self._retired.wait())
        return self._feed.current

    async def retire(self, timeout: float) -> None:
        """Let the streams say goodbye; returns when they did, or after `timeout` seconds."""
        self._retired.set()
        try:
            async with asyncio.timeout(timeout):
                await self._quiet.wait()
        except TimeoutError:
            _log.warning("the kubelet did not take the last list", resource=self.offer.resource)

    async def get_preferred_allocation(
        self, request: PreferredAllocationRequest
    ) -> PreferredAllocationResponse:
        """Near each other, see `preferred`."""
        spots = {name: _spot(device) for name, device in self._by_id().items()}
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
        """Each container gets its own answer; the first that fails fails the pod, and nothing has been promised."""
        answer = AllocateResponse()
        for asked in request.container_requests:
            devices = self._devices(asked.devices_ids)
            prepared = self.offer.driver.prepare(self.offer.resource, devices)
            await self._carry_out(prepared)
            answer.container_responses.append(to_response(prepared.edits))
            _log.info("allocated", resource=self.offer.resource, ids=",".join(asked.devices_ids))
        return answer

    async def pre_start_container(self, request: PreStartContainerRequest) -> PreStartContainerResponse:
        """Before each start of a container, if the driver wants it."""
        if isinstance(self.offer.driver, HasPreStart):
            await self.offer.driver.pre_start(self.offer.resource, self._devices(request.devices_ids))
        return PreStartContainerResponse()

    def _by_id(self) -> Mapping[str, Device]:
        devices = self._feed.current.of(self.offer.resource)
        return {name: device for device in devices for name in device.share_ids}

    def _devices(self, ids: Iterable[str]) -> list[Device]:
        """The devices behind the ids, each once. Ids of devices that are gone are left out; the driver judges that."""
        known = self._by_id()
        asked = list(ids)
        if missing := [name for name in asked if name not in known]:
            _log.warning(
                "asked for devices that are gone", resource=self.offer.resource, ids=",".join(missing)
            )
        return list({known[name].id: known[name] for name in asked if name in known}.values())


def _spot(device: Device) -> Spot:
    return Spot(-1 if device.numa_node is None else device.numa_node, device.pcie_root or "")
