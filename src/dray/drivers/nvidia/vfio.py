"""A whole card for a VM: from NVIDIA's driver to vfio-pci when a claim gets it, and back when it gives it back."""

from __future__ import annotations

from collections.abc import Iterator

from dray.drivers.contract import Device
from dray.drivers.nvidia.names import bus_id_of
from dray.drivers.nvidia.parameters import VfioDeviceConfig
from dray.errors import Error, HardwareError, InvalidError
from dray.hardware.change import BindDriver, HostChange, SetPersistence, SetUnbindLock
from dray.hardware.device_nodes import has_device_node
from dray.hardware.facts import Problem
from dray.hardware.host_root import Place
from dray.hardware.parse import decimal, is_pci_address, link_name
from dray.hardware.pci import DEVICES
from dray.hardware.vfio import CONTAINER, IOMMUFD, device_path, group_path

DRIVER = "nvidia"
VFIO = "vfio-pci"


def address_of(device: Device) -> str:
    """The card's bus id; InvalidError for a device without one."""
    address = bus_id_of(device)
    if not is_pci_address(address):
        raise InvalidError(f"{device.name or device.id} is no PCI function", field="device")
    return address


def to_pass(device: Device) -> tuple[HostChange, ...]:
    """What gives the card to vfio-pci: the driver must not keep it, then nobody may use it, then it is bound."""
    address = address_of(device)
    return (SetPersistence(address, on=False), SetUnbindLock(address), BindDriver(address, VFIO))


def to_return(device: Device) -> tuple[HostChange, ...]:
    """What gives it back to NVIDIA's driver, with no override left behind."""
    address = address_of(device)
    return (BindDriver(address, DRIVER, override=""), SetPersistence(address, on=True))


def read_nodes(root: Place, device: Device, config: VfioDeviceConfig) -> tuple[str, ...]:
    """The nodes a VM needs for a card that vfio-pci has: that of its IOMMU group, or its own where iommufd is preferred.

    HardwareError where vfio-pci does not have the card, or its node is not there.
    """
    address = address_of(device)
    if config.prefers_iommufd and (own := _own_node(root, address)) is not None:
        return (own, IOMMUFD) if config.iommu.enable_api_device else (own,)
    node = _group_node(root, address)
    return (node, CONTAINER) if config.iommu.enable_api_device else (node,)


def _own_node(root: Place, address: str) -> str | None:
    """By which iommufd takes it; None where the host has no iommufd, or no such node."""
    problems: list[Problem] = []
    if not has_device_node(root, IOMMUFD, problems):
        return None
    paths = (device_path(name) for name in _names(root, f"{DEVICES}/{address}/vfio-dev"))
    return next((path for path in paths if has_device_node(root, path, problems)), None)


def _group_node(root: Place, address: str) -> str:
    path = f"{DEVICES}/{address}/iommu_group"
    try:
        group = decimal(link_name(root.read_link(path)))
    except Error as error:
        message = (
            f"{address} is in no IOMMU group: switch the IOMMU on (intel_iommu=on or the firmware's setting)"
        )
        raise HardwareError(message, device=address, path=path) from error
    node = "" if group is None else group_path(group)
    problems: list[Problem] = []
    if not node or not has_device_node(root, node, problems):
        raise HardwareError(
            f"{address}: {node or path} is not there: does vfio-pci have it?", device=address, path=node
        )
    return node


def _names(root: Place, path: str) -> Iterator[str]:
    try:
        yield from root.names(path)
    except Error:  # an older kernel, or another driver
        return
