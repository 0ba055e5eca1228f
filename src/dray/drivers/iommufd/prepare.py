"""Hand out /dev/iommu."""

from __future__ import annotations

from collections.abc import Sequence

from dray.drivers.contract import Device, Prepared
from dray.drivers.parcels import node_edits


def prepare(devices: Sequence[Device]) -> Prepared:
    """The node, which must still be there when the container is answered for."""
    return Prepared(node_edits(devices), required=tuple(path for device in devices for path in device.paths))
