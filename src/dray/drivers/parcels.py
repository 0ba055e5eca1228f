"""What several kinds put into a container alike: nodes under their own names, and a variable with addresses."""

from __future__ import annotations

from collections.abc import Sequence

from dray.cdi.edits import ContainerEdits, DeviceNode, merge
from dray.drivers.contract import Device
from dray.drivers.naming import env_name

QEMU = (107, 107)
"""User and group of QEMU in KubeVirt's launcher."""


def node_edits(devices: Sequence[Device]) -> ContainerEdits:
    """All nodes of the devices, each once, in the order given."""
    return merge(
        ContainerEdits(
            device_nodes=tuple(DeviceNode(path, path, device.permissions) for path in device.paths)
        )
        for device in devices
    )


def address_edits(prefix: str, resource: str, devices: Sequence[Device]) -> ContainerEdits:
    """The variable that virt-launcher takes addresses from, one after the other; empty text without devices."""
    addresses = dict.fromkeys(address for device in devices for address in device.addresses)
    return ContainerEdits(env=((env_name(prefix, resource), ",".join(addresses)),))
