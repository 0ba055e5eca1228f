"""Devices as the kubelet wants to see them: the whole list in one message, and never more than it can receive.

What is made of a resource's devices is made once per change of them, however many calls ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from dray.deviceplugin.preferred import Spot
from dray.drivers.contract import Device
from dray.inventory.inventory import Inventory, InventoryFeed
from dray.wire.gen.deviceplugin_v1beta1_pb2 import Device as PluginDevice
from dray.wire.gen.deviceplugin_v1beta1_pb2 import ListAndWatchResponse, NUMANode, TopologyInfo

MESSAGE_BYTES = 4 * 2**20 - 1024
"""A kubelet ends the stream at 4 MiB; the rest is room for gRPC's own bytes."""
_FRAMING = 6
"""Bytes that a list entry costs beside its content: a tag and a length."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One message, and how many ids did not fit into it. Left out are the last ones, so those shown stay the same."""

    message: ListAndWatchResponse
    left_out: int = 0


def listing(devices: Iterable[Device], limit: int = MESSAGE_BYTES) -> Listing:
    """All ids of `devices` with health and NUMA node, in the order given."""
    message = ListAndWatchResponse()
    size = left_out = 0
    for device in devices:
        topology = None if device.numa_node is None else TopologyInfo(nodes=[NUMANode(ID=device.numa_node)])
        for name in device.share_ids:
            entry = PluginDevice(ID=name, health=device.health.value, topology=topology)
            size += entry.ByteSize() + _FRAMING
            if size > limit:
                left_out += 1
            else:
                message.devices.append(entry)
    return Listing(message, left_out)


class Shelf:
    """The devices of one resource at one moment, and what is made of them when it is first asked for."""

    def __init__(self, devices: tuple[Device, ...]) -> None:
        self.devices = devices

    @cached_property
    def by_id(self) -> Mapping[str, Device]:
        """The device behind each id that the kubelet sees."""
        return {name: device for device in self.devices for name in device.share_ids}

    @cached_property
    def spots(self) -> Mapping[str, Spot]:
        """Where the device behind each id sits."""
        return {
            name: Spot(-1 if device.numa_node is None else device.numa_node, device.pcie_root or "")
            for name, device in self.by_id.items()
        }

    @cached_property
    def listing(self) -> Listing:
        """The message for the kubelet."""
        return listing(self.devices)


class Catalog:
    """Gives the same `Shelf` object for as long as the resource's devices are equal, whatever else changes."""

    def __init__(self, resource: str, feed: InventoryFeed) -> None:
        self._resource = resource
        self._feed = feed
        self._seen: Inventory | None = None
        self._shelf = Shelf(())

    @property
    def current(self) -> Shelf:
        """The newest; cheap where nothing changed."""
        inventory = self._feed.current
        if inventory is not self._seen:
            self._seen = inventory
            devices = inventory.of(self._resource)
            if devices != self._shelf.devices:
                self._shelf = Shelf(devices)
        return self._shelf
