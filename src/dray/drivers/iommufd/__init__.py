"""/dev/iommu, the kernel's newer way to VFIO. A container gets the node, and an opened one over a socket (`passing.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dray.drivers.contract import Device, Discovery, Prepared
from dray.drivers.iommufd.config import IommufdConfig
from dray.drivers.iommufd.discover import KIND, discover
from dray.drivers.iommufd.prepare import prepare
from dray.hardware.host_root import Place


@dataclass(frozen=True, slots=True)
class IommufdDriver:
    """One node, shared."""

    config: IommufdConfig = field(default_factory=IommufdConfig)
    kind: str = KIND

    def discover(self, root: Place, known: Sequence[Device] = ()) -> Discovery:
        """The node, there or not."""
        return discover(self.config, root)

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        """The node, and a descriptor of it."""
        return prepare(devices)
