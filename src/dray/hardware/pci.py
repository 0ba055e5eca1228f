"""PCI functions: what /sys/bus/pci/devices says about each."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dray.errors import Error, HardwareError, InvalidError, NotFoundError
from dray.hardware.facts import Found, Problem, problem_of, showable
from dray.hardware.host_root import Place
from dray.hardware.numa import read_numa_node
from dray.hardware.parse import decimal, hexadecimal, is_pci_address, link_name, pair, pairs
from dray.hardware.sweep import Sweep, SysDirectory

DEVICES = "/sys/bus/pci/devices"
_ROOT_BUS = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", re.ASCII)
_VIRTUAL = re.compile(r"virtfn([0-9]{1,5})", re.ASCII)
_VFIO = re.compile(r"vfio[0-9]{1,9}", re.ASCII)
_VGPU = "nvidia/current_vgpu_type"
# PCI-to-PCI, CardBus and semi-transparent bridges: those that forward, and are no endpoint.
_BRIDGES = ("0604", "0607", "0609")


@dataclass(frozen=True, slots=True)
class Sriov:
    """What a physical function makes: how many at most, and those there are now, in order.

    `total` is None where the host's text is no number; the function is a physical one all the same. `sriov_numvfs`
    is not read: the kernel takes the device's lock for it, so a stuck unbind would hold up discovery.
    """

    total: int | None
    functions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PciFunction:
    """One function. Ids are lower-case hexadecimal text without 0x; `class_code` has six digits (030200).

    `pcie_root` is the root complex's bus (`pci0000:00`, the value of resource.kubernetes.io/pcieRoot) and `bridge` the
    port right above. `physical_function` is set for a virtual one. `vfio_devices` are names in sysfs (`vfio0`): Linux
    6.1 has them without a node, see `vfio.py`. `vgpu_profile` is the NVIDIA vGPU type a virtual function has; None
    where it has none, or where `is_vgpu` is False and it could not have one.
    """

    address: str
    vendor: str
    device: str
    class_code: str
    subsystem_vendor: str = ""
    subsystem_device: str = ""
    revision: str = ""
    driver: str | None = None
    iommu_group: int | None = None
    numa_node: int | None = None
    pcie_root: str | None = None
    bridge: str | None = None
    sriov: Sriov | None = None
    physical_function: str | None = None
    vfio_devices: tuple[str, ...] = ()
    is_vgpu: bool = False
    vgpu_profile: str | None = None

    @property
    def id(self) -> str:
        """`vendor:device`, as KubeVirt's pciVendorSelector in lower case."""
        return f"{self.vendor}:{self.device}"

    @property
    def is_physical(self) -> bool:
        """Whether it can make virtual functions (KubeVirt's PF: `sriov_totalvfs` exists)."""
        return self.sriov is not None

    @property
    def is_virtual(self) -> bool:
        """Whether it is a virtual function of another."""
        return self.physical_function is not None

    @property
    def is_bridge(self) -> bool:
        """Whether it forwards to another bus: a root port, switch port or bridge."""
        return self.class_code.startswith(_BRIDGES)


def read_pci(root: Place) -> Found[PciFunction]:
    """All functions, by address. What is not known for sure and matters for handing out hides the function."""
    with root.sweep() as sweep:
        return sweep.read_each(
            DEVICES, lambda directory, problems: _read_function(sweep, directory, problems)
        )


def read_iommu_group(directory: SysDirectory) -> int | None:
    """A device's IOMMU group; None where it has none. HardwareError where the link says no number."""
    if "iommu_group" not in directory:
        return None
    text = link_name(directory.link("iommu_group"))
    group = decimal(text)
    if group is None or group < 0:
        path = f"{directory.path}/iommu_group"
        raise HardwareError(f"{path} leads to {text!r}, which is no IOMMU group", path=path)
    return group


def read_driver(directory: SysDirectory) -> str | None:
    """The driver that has a device; None where none has. HardwareError where that cannot be said."""
    return link_name(directory.link("driver")) if "driver" in directory else None


def read_vfio_devices(directory: SysDirectory) -> tuple[str, ...]:
    """The names a device has for VFIO (`vfio0`), none where no vfio driver has it or the kernel is old."""
    return tuple(name for name in directory.names("vfio-dev") if _VFIO.fullmatch(name))


def _read_function(sweep: Sweep, directory: SysDirectory, problems: list[Problem]) -> PciFunction:
    address = directory.name
    if not is_pci_address(address):
        raise HardwareError(f"{directory.path} has no PCI address for a name", path=directory.path)
    event = _read_event(directory, problems)
    vendor, device = _read_ids(directory, event)
    subsystem = pair(event.get("PCI_SUBSYS_ID", "")) or _read_subsystem(directory, problems)
    pcie_root, bridge = _read_place(sweep, address)
    is_vgpu, profile = _read_vgpu(sweep, directory, problems)
    return PciFunction(
        address=address,
        vendor=vendor,
        device=device,
        class_code=hexadecimal(event.get("PCI_CLASS", ""), 6) or _hexadecimal(directory, "class", 6),
        subsystem_vendor=subsystem[0],
        subsystem_device=subsystem[1],
        revision=_read_revision(directory, problems),
        driver=read_driver(directory),
        iommu_group=read_iommu_group(directory),
        numa_node=read_numa_node(directory, problems),
        pcie_root=pcie_root,
        bridge=bridge,
        sriov=_read_sriov(directory, problems),
        physical_function=_read_physical(directory),
        vfio_devices=read_vfio_devices(directory),
        is_vgpu=is_vgpu,
        vgpu_profile=profile,
    )


def _read_event(directory: SysDirectory, problems: list[Problem]) -> dict[str, str]:
    """One file with most of the facts. Without it they are read one by one."""
    try:
        return pairs(directory.text("uevent"))
    except Error as error:
        problems.append(problem_of(error, f"{directory.path}/uevent"))
        return {}


def _read_ids(directory: SysDirectory, event: dict[str, str]) -> tuple[str, str]:
    """As KubeVirt from the uevent file, where that has them."""
    known = pair(event.get("PCI_ID", ""))
    return known or (_hexadecimal(directory, "vendor", 4), _hexadecimal(directory, "device", 4))


def _read_subsystem(directory: SysDirectory, problems: list[Problem]) -> tuple[str, str]:
    try:
        return (
            _hexadecimal(directory, "subsystem_vendor", 4),
            _hexadecimal(directory, "subsystem_device", 4),
        )
    except NotFoundError:
        return ("", "")
    except Error as error:
        problems.append(problem_of(error, directory.path, before="subsystem not known: "))
        return ("", "")


def _read_revision(directory: SysDirectory, problems: list[Problem]) -> str:
    if "revision" not in directory:
        return ""
    try:
        return _hexadecimal(directory, "revision", 2)
    except Error as error:
        problems.append(problem_of(error, f"{directory.path}/revision", before="revision not known: "))
        return ""


def _hexadecimal(directory: SysDirectory, name: str, digits: int) -> str:
    text = directory.text(name)
    value = hexadecimal(text, digits)
    if value is None:
        path = f"{directory.path}/{name}"
        raise HardwareError(f"{path} holds {text!r}, not a hexadecimal number", path=path)
    return value


def _read_place(sweep: Sweep, address: str) -> tuple[str | None, str | None]:
    """Root bus and bridge, out of `../../../devices/pci0000:00/0000:00:04.0/0000:01:00.0`."""
    try:
        parts = sweep.read_link(f"{DEVICES}/{address}").split("/")[:-1]
    except InvalidError:  # a directory in place of the link, in a tree that somebody made by hand
        return (None, None)
    pcie_root = next((part for part in parts if _ROOT_BUS.fullmatch(part)), None)
    return (pcie_root, parts[-1] if parts and is_pci_address(parts[-1]) else None)


def _read_sriov(directory: SysDirectory, problems: list[Problem]) -> Sriov | None:
    if "sriov_totalvfs" not in directory:
        return None
    functions = {
        int(found[1]): function
        for found in map(_VIRTUAL.fullmatch, directory)
        if found and (function := _read_virtual(directory, found[0], problems))
    }
    return Sriov(
        _read_count(directory, "sriov_totalvfs", problems),
        tuple(functions[index] for index in sorted(functions)),
    )


def _read_virtual(directory: SysDirectory, name: str, problems: list[Problem]) -> str | None:
    path = f"{directory.path}/{name}"
    try:
        address = link_name(directory.link(name))
    except Error as error:
        problems.append(problem_of(error, path))
        return None
    if is_pci_address(address):
        return address
    problems.append(Problem(path, showable(f"{path} leads to {address!r}, which is no PCI address")))
    return None


def _read_count(directory: SysDirectory, name: str, problems: list[Problem]) -> int | None:
    path = f"{directory.path}/{name}"
    try:
        text = directory.text(name)
    except Error as error:
        problems.append(problem_of(error, path))
        return None
    number = decimal(text)
    if number is None or number < 0:
        problems.append(Problem(path, showable(f"{path} holds {text!r}, not a number")))
        return None
    return number


def _read_physical(directory: SysDirectory) -> str | None:
    if "physfn" not in directory:
        return None
    address = link_name(directory.link("physfn"))
    if not is_pci_address(address):
        path = f"{directory.path}/physfn"
        raise HardwareError(f"{path} leads to {address!r}, which is no PCI address", path=path)
    return address


def _read_vgpu(sweep: Sweep, directory: SysDirectory, problems: list[Problem]) -> tuple[bool, str | None]:
    """Whether it can have an NVIDIA vGPU profile, and the one it has: KubeVirt's rule, neither empty nor 0."""
    if "nvidia" not in directory:
        return (False, None)
    path = f"{directory.path}/{_VGPU}"
    try:
        profile = showable(sweep.read_text(path).strip())
    except NotFoundError:
        return (False, None)
    except Error as error:
        problems.append(problem_of(error, path, before="vGPU profile not known: "))
        return (True, None)
    return (True, None if profile in ("", "0") else profile)
