"""Names of PCI devices in ResourceSlices: by address, the same after a restart, and never another while it is held.

A driver that is bound or unbound changes which function leads a group, and with that what is told of it; not its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dray.drivers.contract import Device
from dray.drivers.naming import slice_name

Unit = int | str
"""What is handed out as a whole: the number of an IOMMU group, or the address of a function that is in none."""


def slice_names(endpoints: Mapping[Unit, Sequence[str]], known: Iterable[Device]) -> dict[Unit, str]:
    """A name for each unit: `pci-0000-05-00-0`, by the lowest of its functions. A known one stays as long as one of the
    functions it was made of is in the unit, though a lower one joined it."""
    names = _kept(endpoints, known)
    taken = set(names.values())
    for unit in endpoints:
        if unit not in names:
            names[unit] = next(name for name in _choices(unit, endpoints[unit]) if name not in taken)
            taken.add(names[unit])
    return names


def functions_of(device: Device) -> set[str]:
    """All functions that a device of this kind had; of one that was only remembered as held, its addresses."""
    return {*device.addresses, *filter(None, str(device.attributes.get("functions", "")).split(","))}


def _kept(endpoints: Mapping[Unit, Sequence[str]], known: Iterable[Device]) -> dict[Unit, str]:
    """Of two known ones for a unit, or two units for a name, the last counts."""
    units = {
        device.name: unit
        for device in known
        if device.name
        and (unit := device.id if device.iommu_group is None else device.iommu_group) in endpoints
        and functions_of(device) & set(endpoints[unit])
    }
    return {unit: name for name, unit in units.items()}


def _choices(unit: Unit, addresses: Sequence[str]) -> Iterator[str]:
    """An address whose name is taken has moved here from a unit that still goes by it."""
    for address in addresses:
        yield slice_name("pci-" + address.replace(":", "-").replace(".", "-"))
    yield slice_name("pci-group", str(unit))
