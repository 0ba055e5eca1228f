"""Find PCI functions to pass through. Functions that share an IOMMU group are one device: the kernel gives them to one owner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from dray.drivers.contract import Device, Discovery, Problem
from dray.drivers.health import health_for
from dray.drivers.naming import attribute_text, card_parts
from dray.drivers.pci.config import PciConfig, PciUnit
from dray.drivers.pci.slice_names import Unit, functions_of, slice_names
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
    def unit(self) -> Unit:
        """What it is handed out with: its group, or itself where it is in none."""
        group = self.function.iommu_group
        return self.function.address if group is None else group

    @property
    def is_permitted(self) -> bool:
        return pass_through(self.function) is not None

    @property
    def is_endpoint(self) -> bool:
        return not self.function.is_bridge

    @property
    def is_free(self) -> bool:
        return self.function.driver is None

    @property
    def rank(self) -> tuple[bool, bool, int, str]:
        """The lowest leads its unit: permitted before not, named before not, then by address."""
        address = self.function.address
        return (not self.is_permitted, not self.resource, len(address), address)


@dataclass(frozen=True, slots=True)
class _Look:
    """What all units are judged by."""

    groups: Mapping[int, IommuGroup]
    vfio: Vfio
    ids: Mapping[int, str]
    endpoints: Mapping[Unit, Sequence[str]]
    names: Mapping[Unit, str]
    gpus: AbstractSet[str]
    """Addresses of GPUs that may be divided: whoever has a part of one must not meet who has the whole."""

    def parts(self, unit: Unit) -> tuple[str, ...]:
        """What a unit is made of."""
        addresses = self.endpoints[unit]
        found = (card_parts(one) if one in self.gpus else (f"pci:{one}",) for one in addresses)
        return tuple(part for parts in found for part in parts)


def discover(config: PciConfig, root: Place, known: Sequence[Device] = ()) -> Discovery:
    """The units, by group. A function that a host driver has is the host's; one without driver is listed as unhealthy,
    and so is one that was handed out before, whatever driver has it now, until it leaves the bus."""
    with root.sweep() as sweep:
        functions = read_pci(sweep)
        groups = read_iommu_groups(sweep, functions.items)
        vfio = read_vfio(sweep)
    problems = [*functions.problems, *groups.problems, *vfio.problems]
    members = [_Member(function, config.resource_of(function)) for function in functions.items]
    candidates = _candidates(
        config, members, {address for device in known for address in functions_of(device)}
    )
    units = _units(candidates)
    endpoints = _endpoints(members, units)
    look = _Look(
        {group.id: group for group in groups.items},
        vfio,
        _ids(config, members, known),
        endpoints,
        slice_names(endpoints, known),
        {one.address for one in functions.items if _is_nvidia_gpu(one)},
    )
    devices = [_unit(unit, look, problems) for unit in units.values()]
    return Discovery(tuple(devices), tuple(problems), (DEVICES,), _WATCH)


def _is_nvidia_gpu(function: PciFunction) -> bool:
    return function.vendor == "10de" and function.class_code.startswith(("0300", "0302"))


def _candidates(config: PciConfig, members: Iterable[_Member], known: AbstractSet[str]) -> list[_Member]:
    return [
        member
        for member in members
        if ((member.resource or config.everything) and member.is_permitted)
        or (member.resource and member.is_endpoint and (member.is_free or member.function.address in known))
    ]


def _ids(config: PciConfig, members: Iterable[_Member], known: Iterable[Device]) -> dict[int, str]:
    """The ids of groups that do not go by their number. A known one stays as long as one of its functions is there.

    Drivers have no say here: an id is the same before and after a bind. Of two known ones for a group, or two groups for
    an id, the last counts. A function that left its group while others of it stay leaves them the id, too.
    """
    named: dict[int, list[str]] = {}
    present: dict[int, set[str]] = {}
    for member in members:
        if (group := member.function.iommu_group) is not None:
            present.setdefault(group, set()).add(member.function.address)
            if member.resource and member.is_endpoint:
                named.setdefault(group, []).append(member.function.address)
    by_function = config.unit is PciUnit.FUNCTION
    alone = {group: addresses[0] for group, addresses in named.items() if by_function and len(addresses) == 1}
    groups = {
        device.id: device.iommu_group
        for device in known
        if device.iommu_group is not None and functions_of(device) & present.get(device.iommu_group, set())
    }
    kept = {group: name for name, group in groups.items()}
    return {group: name for group, name in alone.items() if name not in groups} | kept


def _units(members: Iterable[_Member]) -> dict[Unit, list[_Member]]:
    """Members by group, each group's leader first; a function without group is alone under its address."""
    units: dict[Unit, list[_Member]] = {}
    for member in members:
        units.setdefault(member.unit, []).append(member)
    order = sorted(
        units, key=lambda key: (isinstance(key, str), key if isinstance(key, int) else 0, str(key))
    )
    return {key: sorted(units[key], key=lambda member: member.rank) for key in order}


def _endpoints(members: Iterable[_Member], units: Mapping[Unit, Sequence[_Member]]) -> dict[Unit, list[str]]:
    """All functions that nobody else may have while somebody has the unit, whatever driver they are on."""
    found: dict[Unit, set[str]] = {key: {one.function.address for one in units[key]} for key in units}
    for member in members:
        if member.is_endpoint and member.unit in found:
            found[member.unit].add(member.function.address)
    return {key: sorted(found[key], key=lambda address: (len(address), address)) for key in found}


def _unit(unit: list[_Member], look: _Look, problems: list[Problem]) -> Device:
    leader = unit[0]
    function, group = leader.function, leader.function.iommu_group
    problems += _folded(leader, unit[1:])
    nodes = () if group is None else (group_path(group),)
    reason = _why_unhealthy(leader, look)
    names = [name for member in unit if member.is_permitted for name in member.function.vfio_devices]
    return Device(
        id=function.address if group is None else look.ids.get(group, str(group)),
        kind=KIND,
        resource=leader.resource,
        health=health_for(reason),
        reason=reason,
        label=function.address,
        numa_node=function.numa_node,
        iommu_group=group,
        pcie_root=function.pcie_root,
        attributes=_attributes(function, unit),
        paths=(CONTAINER, *nodes, *look.vfio.device_paths(names)),
        watch=nodes,
        addresses=(function.address,),
        name=look.names[leader.unit],
        hardware=look.parts(leader.unit),
    )


def _why_unhealthy(leader: _Member, look: _Look) -> str:
    group = leader.function.iommu_group
    if not leader.is_permitted:
        return why_not(leader.function)
    if group is None:
        return _NO_GROUP.format(leader.function.address)
    if group in look.groups and look.groups[group].hazards:
        return f"IOMMU group {group}: {look.groups[group].hazards[0]}"
    return "" if group in look.vfio.groups else f"{group_path(group)} does not exist"


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
    """`functions` is whole, because the next look needs it: a slice has no room for more than four."""
    attributes: dict[str, str | int | bool] = {
        "address": function.address,
        "class": function.class_code,
        "device": function.device,
        "vendor": function.vendor,
    }
    if function.driver is not None:
        attributes["driver"] = attribute_text(function.driver)
    if function.vgpu_profile is not None:
        attributes["vgpuProfile"] = attribute_text(function.vgpu_profile)
    if function.physical_function is not None:
        attributes["physicalFunction"] = function.physical_function
    if len(unit) > 1:
        attributes["functions"] = ",".join(sorted(member.function.address for member in unit))
    return attributes
