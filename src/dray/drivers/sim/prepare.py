"""Hand out simulated devices: the node that stands for each, under the device's own name, and their ids in a variable."""

from __future__ import annotations

from collections.abc import Sequence

from dray.cdi.edits import ContainerEdits, DeviceNode, merge
from dray.drivers.contract import Device, Prepared
from dray.drivers.parcels import address_edits
from dray.errors import NotFoundError

ENV_PREFIX = "SIM_RESOURCE"
DIRECTORY = "/dev/dray-sim"


def prepare(resource: str, devices: Sequence[Device]) -> Prepared:
    """NotFoundError without devices. The nodes must still be there when the container is answered for."""
    if not devices:
        raise NotFoundError(
            f"none of the simulated devices asked for as {resource} exists any more: ask again",
            kind=resource,
            name=resource,
        )
    nodes = [
        DeviceNode(path, f"{DIRECTORY}/{device.id}", device.permissions)
        for device in devices
        for path in device.paths
    ]
    parcels = (ContainerEdits(device_nodes=(node,)) for node in nodes)
    edits = merge([*parcels, address_edits(ENV_PREFIX, resource, devices)])
    return Prepared(edits, required=tuple(dict.fromkeys(node.host_path for node in nodes)))
