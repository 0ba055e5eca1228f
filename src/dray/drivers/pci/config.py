"""What the PCI kind serves."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from dray.errors import InvalidError
from dray.hardware.parse import is_pci_address, pair
from dray.hardware.pci import PciFunction


class PciUnit(StrEnum):
    """How devices are named. Either way a device is one IOMMU group: no two owners ever share one.

    By group the id is its number, as KubeVirt has it. By function it is the PCI address of the one function of the group
    that the config names: an address stays when a new card or kernel counts the groups anew, and `lspci` shows it. Where
    the config names several functions of a group, the id is the group's number all the same: any one of them may come,
    go or lead, and an id that changed with it would let the group be handed out a second time.
    """

    IOMMU_GROUP = "iommu-group"
    FUNCTION = "function"


class PciSelector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Functions under a resource name: by `id` (`10de:1eb8`, any case), by `address`, or by `iommu_group`; one of them."""

    resource: str
    id: str = ""
    address: str = ""
    iommu_group: int | None = None

    def __post_init__(self) -> None:
        given = [bool(self.id), bool(self.address), self.iommu_group is not None]
        if sum(given) != 1:
            raise InvalidError(
                f"resource {self.resource!r} needs one of id, address and iommu_group to select by",
                field="id",
            )
        if self.id and pair(self.id) is None:
            raise InvalidError(
                f"{self.id!r} must be vendor:device in hexadecimal, like 10de:1eb8", field="id"
            )
        if self.address and not is_pci_address(self.address.lower()):
            raise InvalidError(f"{self.address!r} must be a PCI address like 0000:05:00.0", field="address")


class PciConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which functions, in the order of the config. `everything` also lists those that no selector names.

    A device that is known keeps its id: another `unit` shows when it has left the list and come back.
    """

    selectors: tuple[PciSelector, ...] = ()
    everything: bool = False
    unit: PciUnit = PciUnit.IOMMU_GROUP

    def resource_of(self, function: PciFunction) -> str:
        """The function's resource; empty where it has none. An address beats a group, a group an id; the last one wins."""
        found = {0: "", 1: "", 2: ""}
        for selector in self.selectors:
            if selector.address.lower() == function.address:
                found[0] = selector.resource
            elif selector.iommu_group is not None and selector.iommu_group == function.iommu_group:
                found[1] = selector.resource
            elif selector.id and pair(selector.id) == (function.vendor, function.device):
                found[2] = selector.resource
        return found[0] or found[1] or found[2]
