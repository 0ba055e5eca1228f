"""Hand out PCI functions: VFIO's nodes, and their addresses in a variable."""

from __future__ import annotations

from collections.abc import Sequence

from dray.cdi.edits import merge
from dray.drivers.contract import Device, Prepared
from dray.drivers.naming import PCI_PREFIX
from dray.drivers.parcels import address_edits, node_edits


def prepare(resource: str, devices: Sequence[Device]) -> Prepared:
    """One address a device, the one that leads its IOMMU group. The variable is there even without devices."""
    return Prepared(merge([node_edits(devices), address_edits(PCI_PREFIX, resource, devices)]))
