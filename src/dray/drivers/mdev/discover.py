"""Find mediated devices: the instances that exist, each an IOMMU group of its own."""

from __future__ import annotations

from collections.abc import Mapping

from dray.drivers.contract import Device, Discovery, Problem
from dray.drivers.health import health_for
from dray.drivers.mdev.config import MdevConfig
from dray.drivers.naming import attribute_text, slice_name
from dray.hardware.host_root import Place
from dray.hardware.mdev import INSTANCES, Mdev, read_mdevs
from dray.hardware.pci import read_pci
from dray.hardware.vfio import CONTAINER, Vfio, group_path, read_vfio

KIND = "mdev"
_WATCH = ("/dev/vfio",)


def discover(config: MdevConfig, root: Place) -> Discovery:
    """The instances by IOMMU group, which is their id."""
    with root.sweep() as sweep:
        found = read_mdevs(sweep)
        if not found.items:
            return Discovery((), found.problems, (INSTANCES,), _WATCH)
        vfio = read_vfio(sweep)
        functions = read_pci(sweep).items
    roots = {function.address: function.pcie_root for function in functions}
    whole = {function.iommu_group: function.address for function in functions}
    problems = [*found.problems, *vfio.problems]
    devices: dict[str, Device] = {}
    for mdev in sorted(found.items, key=lambda mdev: (mdev.iommu_group or 0, mdev.uuid)):
        resource = config.resource_of(mdev)
        if not resource and not config.everything:
            continue
        device = _device(mdev, resource, _why_unhealthy(mdev, vfio, whole), roots.get(mdev.parent))
        first = devices.setdefault(device.id, device)
        if first is not device:
            problems.append(Problem(f"{INSTANCES}/{mdev.uuid}", _shared(device, first)))
    return Discovery(tuple(devices.values()), tuple(problems), (INSTANCES,), _WATCH)


def _device(mdev: Mdev, resource: str, reason: str, pcie_root: str | None) -> Device:
    group = mdev.iommu_group
    nodes = () if group is None else (group_path(group),)
    return Device(
        id=mdev.uuid if group is None else str(group),
        kind=KIND,
        resource=resource,
        health=health_for(reason),
        reason=reason,
        label=mdev.uuid,
        numa_node=mdev.numa_node,
        iommu_group=group,
        pcie_root=pcie_root,
        attributes={
            "mdevUUID": mdev.uuid,  # what KubeVirt reads
            "parent": attribute_text(mdev.parent),
            "type": attribute_text(mdev.type_name),
            "typeId": attribute_text(mdev.type_id),
            "uuid": mdev.uuid,
        },
        paths=(CONTAINER, *nodes),
        watch=nodes,
        addresses=(mdev.uuid,),
        name=slice_name(f"mdev-{mdev.uuid.lower()}"),
        # Not the parent: its other instances would be held with this one. The kernel keeps parent and instances apart.
        hardware=(f"mdev:{mdev.uuid.lower()}",),
    )


def _why_unhealthy(mdev: Mdev, vfio: Vfio, whole: Mapping[int | None, str]) -> str:
    """`whole` are PCI functions by group. The kernel keeps the groups apart; should it not, the group has one owner: PCI."""
    if mdev.iommu_group is None:
        return f"{mdev.uuid} is in no IOMMU group: bind it to its vfio driver"
    if mdev.iommu_group in whole:
        return f"{mdev.uuid} shares IOMMU group {mdev.iommu_group} with {whole[mdev.iommu_group]}, a PCI function"
    if mdev.iommu_group not in vfio.groups:
        return f"{group_path(mdev.iommu_group)} does not exist"
    return ""


def _shared(device: Device, first: Device) -> str:
    return f"{device.label} is left out: it shares IOMMU group {device.id} with {first.label}"
