"""Hand out mediated devices: VFIO's nodes, and their UUIDs in a variable."""

from __future__ import annotations

from collections.abc import Sequence

from dray.cdi.edits import merge
from dray.drivers.contract import Device, Prepared
from dray.drivers.naming import MDEV_PREFIX
from dray.drivers.parcels import address_edits, node_edits
from dray.errors import NotFoundError


def prepare(resource: str, devices: Sequence[Device]) -> Prepared:
    """NotFoundError without devices. The group's node must still be there when the container is answered for."""
    if not devices:
        raise NotFoundError(
            f"none of the mediated devices asked for as {resource} exists any more: ask again",
            kind=resource,
            name=resource,
        )
    edits = merge([node_edits(devices), address_edits(MDEV_PREFIX, resource, devices)])
    return Prepared(edits, required=tuple(node for device in devices for node in device.watch))
