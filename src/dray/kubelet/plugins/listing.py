"""A plugin's list as devices. What makes no sense is left out and named, so that it harms nobody further on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice

from dray.kubelet.devices.known import Device, from_wire
from dray.wire.gen.deviceplugin_v1beta1_pb2 import ListAndWatchResponse

NUMA_NODES = 1024
"""Ids from here on cannot be: it is the most that Linux can be built for."""
MOST_DEVICES = 131_072
"""Of one resource. A device takes some hundreds of bytes here, and a plugin could list a million in one message."""

LONGEST_ID = 4096
"""Characters of an id. It goes into requests, checkpoints and the status of a pod, which is at most 1.5 MiB."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What one message says. `faults` are for the log, without ids: a hostile list has many."""

    devices: tuple[Device, ...]
    faults: tuple[str, ...] = ()


def read(message: ListAndWatchResponse) -> Listing:
    """In the plugin's order, each id once: the last entry for it counts, as in a kubelet."""
    found: dict[str, Device] = {}
    nameless = shouting = misplaced = 0
    for one in islice(message.devices, MOST_DEVICES):
        if not one.ID:
            nameless += 1
            continue
        if len(one.ID) > LONGEST_ID:
            shouting += 1
            continue
        device = from_wire(one)
        if device.nodes and not (device.nodes[0] >= 0 and device.nodes[-1] < NUMA_NODES):
            misplaced += 1
            device = _on_real_nodes(device)
        found[device.id] = device
    beyond = max(0, len(message.devices) - MOST_DEVICES)
    counts = {
        f"devices beyond the first {MOST_DEVICES}": beyond,
        "devices without an id": nameless,
        f"devices with an id of more than {LONGEST_ID} characters": shouting,
        "ids listed again": len(message.devices) - beyond - nameless - shouting - len(found),
        "devices on NUMA nodes that cannot be": misplaced,
    }
    faults = tuple(f"{count} {text}" for text, count in counts.items() if count)
    return Listing(tuple(found.values()), faults)


def _on_real_nodes(device: Device) -> Device:
    """Plugins pass on the -1 that sysfs has for "unknown": a device with no other node says nothing about its place."""
    nodes = tuple(node for node in device.nodes if 0 <= node < NUMA_NODES)
    return replace(device, nodes=nodes, has_topology=bool(nodes))
