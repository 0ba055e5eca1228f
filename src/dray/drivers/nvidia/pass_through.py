"""Whole cards for VMs. A card is on NVIDIA's driver until a claim gets it; both of its devices draw on one counter set."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from dray.drivers.contract import Device, Problem
from dray.drivers.health import health_for
from dray.drivers.naming import attribute_text, card_parts
from dray.drivers.nvidia.mig_profiles import capacities, takes_card
from dray.drivers.nvidia.names import KIND, PCI_BUS_ID, vfio_name, vfio_uuid
from dray.errors import Error, NotFoundError
from dray.hardware.device_nodes import has_device_node
from dray.hardware.facts import problem_of
from dray.hardware.iommu import GroupMember, read_iommu_groups
from dray.hardware.nvml.facts import Gpu
from dray.hardware.pci import DEVICES, PciFunction
from dray.hardware.sweep import Sweep
from dray.hardware.vfio import IOMMUFD

VENDOR: Final = "10de"
_CARDS: Final = ("0300", "0302")
"""Classes of display controllers: with an outlet, and without."""
_BARS: Final = 6
_MEMORY_64: Final = 0x204
"""Flags of a region that is memory and has a 64-bit address."""
_REGION: Final = re.compile(r"0x([0-9a-f]{16}) 0x([0-9a-f]{16}) 0x([0-9a-f]{16})", re.ASCII)
_NO_GROUP: Final = "{} is in no IOMMU group: switch the IOMMU on in the firmware and the kernel (intel_iommu=on, amd_iommu=on)"


def cards_for_vms(
    sweep: Sweep,
    functions: Sequence[PciFunction],
    gpus: Sequence[Gpu],
    divisible: Collection[str],
    problems: list[Problem],
) -> Iterator[Device]:
    """By address. A card that somebody divided for good is not among them; `divisible` are bus ids of those we divide."""
    by_address = {gpu.bus_id: gpu for gpu in gpus}
    has_iommufd = has_device_node(sweep, IOMMUFD, problems)
    groups = {group.id: group for group in read_iommu_groups(sweep, functions).items}
    for index, function in enumerate(_cards(functions)):
        gpu = by_address.get(function.address)
        if gpu is not None and gpu.is_divided and gpu.bus_id not in divisible:
            continue
        mates = groups[function.iommu_group].members if function.iommu_group in groups else ()
        others = [mate for mate in mates if mate.name != function.address]
        reason = _why_not(function, others)
        memory = _memory(sweep, function.address, problems)
        yield Device(
            id=vfio_uuid(function.address),
            kind=KIND,
            resource="",
            health=health_for(reason),
            reason=reason,
            label=f"{gpu.name if gpu else _product(function)} for VMs",
            numa_node=function.numa_node,
            iommu_group=function.iommu_group,
            pcie_root=function.pcie_root,
            attributes=_attributes(function, gpu, has_iommufd=has_iommufd),
            addresses=(function.address,),
            name=vfio_name(index),
            capacity=capacities({"addressableMemory": memory}) if memory else {},
            consumes=takes_card(gpu, is_divisible=gpu.bus_id in divisible) if gpu else (),
            hardware=(*card_parts(function.address), *_functions(others, functions)),
        )


def _why_not(function: PciFunction, mates: Iterable[GroupMember]) -> str:
    """Why it cannot go to a VM; empty where it can. That NVIDIA's driver has the card itself is no hindrance."""
    if function.iommu_group is None:
        return _NO_GROUP.format(function.address)
    hazards = [mate.hazard for mate in mates if mate.hazard]
    return f"IOMMU group {function.iommu_group}: {hazards[0]}" if hazards else ""


def _functions(mates: Iterable[GroupMember], functions: Iterable[PciFunction]) -> Iterator[str]:
    """What goes to the VM beside the card: other functions of its group, bridges excepted."""
    bridges = {function.address for function in functions if function.is_bridge}
    return (f"pci:{mate.name}" for mate in mates if mate.is_pci and mate.name not in bridges)


def _cards(functions: Iterable[PciFunction]) -> list[PciFunction]:
    found = (one for one in functions if one.vendor == VENDOR and one.class_code.startswith(_CARDS))
    return sorted((one for one in found if not one.is_virtual), key=lambda one: one.address)


def _attributes(function: PciFunction, gpu: Gpu | None, *, has_iommufd: bool) -> dict[str, str | int | bool]:
    found: dict[str, str | int | bool] = {
        PCI_BUS_ID: function.address,
        "deviceID": f"0x{function.device}",
        "iommuFDEnabled": has_iommufd,
        "productName": attribute_text(gpu.name if gpu else _product(function)),
        "type": "vfio",
        "uuid": vfio_uuid(function.address),
        "vendorID": f"0x{function.vendor}",
    }
    if function.numa_node is not None:
        found["numa"] = function.numa_node
    return found


def _product(function: PciFunction) -> str:
    return f"NVIDIA {function.device}"


def _memory(sweep: Sweep, address: str, problems: list[Problem]) -> int:
    """What a VM must map of it: its 64-bit regions, rounded up to a power of two; 0 where it does not say."""
    path = f"{DEVICES}/{address}/resource"
    try:
        lines = sweep.read_text(path).splitlines()[:_BARS]
    except NotFoundError:
        return 0
    except Error as error:
        problems.append(problem_of(error, path))
        return 0
    found = 0
    for line in lines:
        region = _REGION.fullmatch(line.strip())
        if region and int(region[3], 16) & _MEMORY_64 == _MEMORY_64:
            found += int(region[2], 16) - int(region[1], 16) + 1
    return 1 << (found - 1).bit_length() if found > 0 else 0
