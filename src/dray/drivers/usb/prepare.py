"""Hand out USB devices: nodes that QEMU's user owns, and their numbers in a variable."""

from __future__ import annotations

from collections.abc import Sequence

from dray.cdi.edits import merge
from dray.drivers.contract import Device, Prepared
from dray.drivers.naming import USB_PREFIX
from dray.drivers.parcels import QEMU, address_edits, node_edits
from dray.hardware.change import Chown


def prepare(resource: str, devices: Sequence[Device]) -> Prepared:
    """Bus and device number of each member of each set; without devices nothing, not even the variable."""
    if not devices:
        return Prepared(node_edits(devices))
    edits = merge([node_edits(devices), address_edits(USB_PREFIX, resource, devices)])
    return Prepared(edits, tuple(Chown(node.host_path, *QEMU) for node in edits.device_nodes))
