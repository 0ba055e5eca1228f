"""Devices as the kubelet wants to see them: the whole list in one message, and never more than it can receive."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dray.drivers.contract import Device
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
