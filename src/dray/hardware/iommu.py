"""IOMMU groups: devices that the hardware cannot keep apart, so that they can only be handed out together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dray.errors import Error, HardwareError
from dray.hardware.device_nodes import has_device_node
from dray.hardware.facts import Found, Problem, problem_of, showable
from dray.hardware.host_root import Place
from dray.hardware.parse import decimal, is_pci_address, link_name
from dray.hardware.pci import PciFunction, read_driver
from dray.hardware.sweep import Sweep, SysDirectory
from dray.hardware.vfio import group_path
from dray.hardware.vgpu import pass_through

GROUPS = "/sys/kernel/iommu_groups"
# Drivers that do no DMA of their own (the kernel's driver_managed_dma), besides the vfio ones.
_HARMLESS = ("pci-stub", "pcieport")


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A device in a group. `hazard` says why the group cannot be handed out because of it; empty where it can."""

    name: str
    driver: str | None
    hazard: str = ""

    @property
    def is_pci(self) -> bool:
        """Whether `name` is a PCI address; else it is a mediated device's UUID or a platform device."""
        return is_pci_address(self.name)


@dataclass(frozen=True, slots=True)
class IommuGroup:
    """One group, with the node that opens it. The node exists while a vfio driver has a member."""

    id: int
    members: tuple[GroupMember, ...]
    node: str
    has_node: bool

    @property
    def is_viable(self) -> bool:
        """Whether the kernel lets VFIO have the group: every member is on a vfio driver, a bridge, or without driver."""
        return not self.hazards

    @property
    def hazards(self) -> tuple[str, ...]:
        """What keeps the group from being handed out, one line a member."""
        return tuple(member.hazard for member in self.members if member.hazard)

    @property
    def pci(self) -> tuple[str, ...]:
        """The addresses of its PCI functions, bridges included."""
        return tuple(member.name for member in self.members if member.is_pci)


def read_iommu_groups(root: Place, functions: Iterable[PciFunction]) -> Found[IommuGroup]:
    """All groups, by number. `functions` is what `read_pci` found: a member it left out makes its group not viable."""
    known = {function.address: function for function in functions}
    with root.sweep() as sweep:
        found = sweep.read_each(GROUPS, lambda directory, problems: _read(sweep, directory, known, problems))
    return Found(tuple(sorted(found.items, key=lambda group: group.id)), found.problems)


def hazard_of(function: PciFunction) -> str:
    """Why a function keeps its group from being handed out; empty where it does not."""
    if function.driver is None or function.is_bridge or pass_through(function) is not None:
        return ""
    if _is_harmless(function.driver) or function.vfio_devices:
        return ""
    return f"{function.address} is bound to {function.driver}: unbind it, or bind it to vfio-pci"


def _is_harmless(driver: str) -> bool:
    """vfio-pci and its variants (mlx5_vfio_pci, nvgrace-gpu-vfio-pci) have the word in their names."""
    return driver in _HARMLESS or "vfio" in driver


def _read(
    sweep: Sweep, directory: SysDirectory, known: Mapping[str, PciFunction], problems: list[Problem]
) -> IommuGroup:
    group = decimal(directory.name)
    if group is None or group < 0:
        raise HardwareError(f"{directory.path} has no number for a name", path=directory.path)
    names = directory.names("devices")
    members = tuple(_read_member(sweep, f"{directory.path}/devices/{name}", known) for name in names)
    node = group_path(group)
    return IommuGroup(group, members, node, has_device_node(sweep, node, problems))


def _read_member(sweep: Sweep, path: str, known: Mapping[str, PciFunction]) -> GroupMember:
    name = path.rpartition("/")[2]
    if name in known:
        return GroupMember(name, known[name].driver, hazard_of(known[name]))
    name = showable(name)
    if is_pci_address(name):
        return GroupMember(name, None, f"{name} is in the group, and what it is could not be read")
    try:
        with sweep.directory(path) as directory:
            driver = read_driver(directory)
            bus = link_name(directory.link("subsystem"))
    except Error as error:
        return GroupMember(name, None, problem_of(error, path, before=f"{name} is in the group: ").message)
    if driver is None or bus == "mdev" or _is_harmless(driver):
        return GroupMember(name, driver)
    return GroupMember(name, driver, f"{name} is bound to {driver}: unbind it, or bind it to a vfio driver")
