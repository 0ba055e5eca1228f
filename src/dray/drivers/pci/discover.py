"""Find PCI functions to pass through. Functions that share an IOMMU group are one device: the kernel gives them to one owner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dray.drivers.contract import Device, Discovery, Problem
from dray.drivers.health import health_for
from dray.drivers.pci.config import PciConfig
from dray.hardware.host_root import Place
from dray.hardware.iommu import IommuGroup, read_iommu_groups
from dray.hardware.pci import DEVICES, PciFunction, read_pci
from dray.hardware.vfio import CONTAINER, Vfio, group_path, read_vfio
from dray.hardware.vgpu import pass_through, why_not

KIND = "pci"
_WATCH = ("/dev/vfio", "/dev/vfio/devices")
_NO_GROUP = "{} is in no IOMMU group: switch the IOMMU on in the firmware and the kernel (intel_iommu=on, amd_iommu=on)"


@dataclass(frozen=True, slots=True)
class _Member:
    function: PciFunction
    resource: str

    @property
    def is_permitted(self) -> bool:
        return pass_through(self.function) is not None

    @property
    def rank(self) -> tuple[bool, bool, int, str]:
        """The lowest leads its unit: permitted before not, named before not, then by address."""
        address = self.function.address
        return (not self.is_permitted, not self.resource, len(address), address)


def discover(config: PciConfig, root: Place) -> Discovery:
    """The units, by group. A function that a host driver has is the host's; one without driver is listed as unhealthy."""
    with root.sweep() as sweep:
        functions = read_pci(sweep)
        groups = read_iommu_groups(sweep, functions.items)
        vfio = read_vfio(sweep)
    problems = [*functions.problems, *groups.problems, *vfio.problems]
    by_id = {group.id: group for group in groups.items}
    devices = [
        _unit(unit, by_id, vfio, problems) for unit in _units(_candidates(config, functions.items)).values()
    ]
    return Discovery(tuple(devices), tuple(problems), (DEVICES,), _WATCH)


def _candidates(config: PciConfig, functions: Iterable[PciFunction]) -> list[_Member]:
    members = [_Member(function, config.resource_of(function)) for function in functions]
    return [
        member
        for member in members
        if ((member.resource or config.everything) and member.is_permitted)
        or (member.resource and member.function.driver is None and not member.function.is_bridge)
    ]


def _units(members: Iterable[_Member]) -> dict[int | str, list[_Member]]:
    """Members by group, each group's leader first; a function without group is alone under its address."""
    units: dict[int | str, list[_Member]] = {}
    for member in members:
        group = member.function.iommu_group
        units.setdefault(member.function.address if group is None else group, []).append(member)
    order = sorted(
        units, key=lambda key: (isinstance(key, str), key if isinstance(key, int) else 0, str(key))
    )
    return {key: sorted(units[key], key=lambda member: member.rank) for key in order}


def _unit(
    unit: list[_Member], groups: Mapping[int, IommuGroup], vfio: Vfio, problems: list[Problem]
) -> Device:
    leader = unit[0]
    function, group = leader.function, leader.function.iommu_group
    problems += _folded(leader, unit[1:])
    nodes = () if group is None else (group_path(group),)
    reason = _why_unhealthy(leader, groups, vfio)
    names = [name for member in unit if member.is_permitted for name in member.function.vfio_devices]
    return Device(
        id=function.address if group is None else str(group),
        kind=KIND,
        resource=leader.resource,
        health=health_for(reason),
        reason=reason,
        label=function.address,
        numa_node=function.numa_node,
        iommu_group=group,
        pcie_root=function.pcie_root,
        attributes=_attributes(function, unit),
        paths=(CONTAINER, *nodes, *vfio.device_paths(names)),
        watch=nodes,
        addresses=(function.address,),
    )


def _why_unhealthy(leader: _Member, groups: Mapping[int, IommuGroup], vfio: Vfio) -> str:
    group = leader.function.iommu_group
    if not leader.is_permitted:
        return why_not(leader.function)
    if group is None:
        return _NO_GROUP.format(leader.function.address)
    if group in groups and groups[group].hazards:
        return f"IOMMU group {group}: {groups[group].hazards[0]}"
    return "" if group in vfio.groups else f"{group_path(group)} does not exist"


def _folded(leader: _Member, others: Iterable[_Member]) -> list[Problem]:
    """A function that has a resource name and is not handed out under it must not vanish in silence."""
    return [
        Problem(
            f"{DEVICES}/{member.function.address}",
            f"{member.function.address} ({member.resource}) is not handed out by itself: it shares IOMMU group "
            f"{leader.function.iommu_group} with {leader.function.address}, and comes with it as {leader.resource}",
        )
        for member in others
        if member.resource and member.resource != leader.resource
    ]


def _attributes(function: PciFunction, unit: list[_Member]) -> dict[str, str | int | bool]:
    attributes: dict[str, str | int | bool] = {
        "address": function.address,
        "class": function.class_code,
        "device": function.device,
        "vendor": function.vendor,
    }
    if function.driver is not None:
        attributes["driver"] = function.driver
    if function.vgpu_profile is not None:
        attributes["vgpuProfile"] = function.vgpu_profile
    if function.physical_function is not None:
        attributes["physicalFunction"] = function.physical_function
    if len(unit) > 1:
        attributes["functions"] = ",".join(sorted(member.function.address for member in unit))
    return attributes
