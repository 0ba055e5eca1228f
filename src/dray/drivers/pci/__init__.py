"""PCI functions that a VM gets as a whole: on driver vfio-pci, or NVIDIA virtual functions with a vGPU profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dray.drivers.contract import Device, Discovery, Prepared
from dray.drivers.pci.config import PciConfig
from dray.drivers.pci.discover import KIND, discover
from dray.drivers.pci.prepare import prepare
from dray.hardware.host_root import Place


@dataclass(frozen=True, slots=True)
class PciDriver:
    """IOMMU groups by what their functions are."""

    config: PciConfig = field(default_factory=PciConfig)
    kind: str = KIND

    def discover(self, root: Place, known: Sequence[Device] = ()) -> Discovery:
        """One device for each IOMMU group that has a function the config names."""
        return discover(self.config, root, known)

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        """VFIO's nodes, and the addresses."""
        return prepare(resource, devices)
