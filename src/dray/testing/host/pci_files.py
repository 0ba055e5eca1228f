"""A PCI function's directory in sysfs, as text: facts in, files out."""

from __future__ import annotations

import struct

from dray.testing.host.pci_facts import PciFacts, Sriov
from dray.testing.host.system import cpu_list
from dray.testing.host.tree import Attribute, Directory, Entry, Link, ro, rw, wo

NO_OVERRIDE = "(null)"
_NO_RESOURCE = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"


def function_entries(facts: PciFacts) -> dict[str, Entry]:
    """What every function has, before a driver comes."""
    entries: dict[str, Entry] = {
        "ari_enabled": ro(0),
        "broken_parity_status": rw(0),
        "class": ro(f"0x{facts.class_code}"),
        "config": Attribute(config_space(facts), 0o644),
        "consistent_dma_mask_bits": ro(64),
        "d3cold_allowed": rw(1),
        "device": ro(f"0x{facts.device}"),
        "dma_mask_bits": ro(64),
        "driver_override": rw(NO_OVERRIDE),
        "irq": ro(0),
        "link": Directory(),
        "modalias": ro(facts.modalias),
        "msi_bus": rw(1),
        "numa_node": rw(facts.numa_node),
        "power_state": ro("D0"),
        "resource": Attribute(_NO_RESOURCE * 7),
        "revision": ro(f"0x{facts.revision}"),
        "subsystem": Link("sys/bus/pci"),
        "subsystem_device": ro(f"0x{facts.subsystem_device}"),
        "subsystem_vendor": ro(f"0x{facts.subsystem_vendor}"),
        "vendor": ro(f"0x{facts.vendor}"),
    }
    return (
        entries
        | _link_entries(facts)
        | (_bridge_entries(facts) if facts.secondary_bus is not None else _endpoint_entries())
    )


def physical_entries(sriov: Sriov | None, *, device: str) -> dict[str, Entry]:
    """What only a physical function has: the kernel may remove it, and it may make virtual ones."""
    entries: dict[str, Entry] = {"remove": wo(0o220), "rescan": wo()}
    if sriov is not None:
        entries |= {
            "sriov_drivers_autoprobe": rw(1),
            "sriov_numvfs": rw(0),
            "sriov_offset": ro(sriov.offset),
            "sriov_stride": ro(sriov.stride),
            "sriov_totalvfs": ro(sriov.total),
            "sriov_vf_device": ro(f"{int(sriov.vf_device or device, 16):x}"),
            "sriov_vf_total_msix": ro(0),
        }
    return entries


def driver_entries(facts: PciFacts, driver: str, *, numvfs: int | None) -> dict[str, Attribute]:
    """The files whose text depends on the driver."""
    line = f"DRIVER={driver}\n" if driver else ""
    lines = (
        f"{line}PCI_CLASS={int(facts.class_code, 16):04X}\n"
        f"PCI_ID={facts.id.upper()}\n"
        f"PCI_SUBSYS_ID={facts.subsystem_vendor.upper()}:{facts.subsystem_device.upper()}\n"
        f"PCI_SLOT_NAME={facts.address}\n"
        f"MODALIAS={facts.modalias}\n"
    )
    # A vfio driver enables the function only while someone has it open.
    entries = {"enable": rw(int(bool(driver) and not is_vfio(driver))), "uevent": Attribute(lines, 0o644)}
    return entries if numvfs is None else entries | {"sriov_numvfs": rw(numvfs)}


def affinity_entries(cpus: tuple[int, ...], mask: str) -> dict[str, Attribute]:
    """The processors near the function, by its NUMA node."""
    return {"local_cpulist": ro(cpu_list(cpus)), "local_cpus": ro(mask)}


def bus_entries(owner: str, cpus: tuple[int, ...], mask: str) -> dict[str, Entry]:
    """One `pci_bus` directory: the bus below a host bridge or a PCI bridge."""
    return {
        "cpuaffinity": ro(mask),
        "cpulistaffinity": ro(cpu_list(cpus)),
        "device": Link(owner),
        "rescan": wo(),
        "subsystem": Link("sys/class/pci_bus"),
        "uevent": Attribute("", 0o644),
    }


def vgpu_text(types: dict[int, str]) -> str:
    """NVIDIA's table of the vGPU types that can be made, by number."""
    return "".join(f"{number:<6}: {name}\n" for number, name in [("ID", "vGPU Name"), *sorted(types.items())])


def is_vfio(driver: str) -> bool:
    """Whether this driver hands the device to user space: vfio-pci or one of its variants (mlx5_vfio_pci)."""
    return "vfio" in driver


def config_space(facts: PciFacts) -> bytes:
    """The standard header, enough for lspci; the rest of the 256 bytes is zero."""
    space = bytearray(256)
    struct.pack_into("<HH", space, 0x00, int(facts.vendor, 16), int(facts.device, 16))
    class_code = int(facts.class_code, 16)
    struct.pack_into("<I", space, 0x08, class_code << 8 | int(facts.revision, 16))
    if facts.secondary_bus is not None:
        space[0x0E] = 1
        space[0x18:0x1B] = bytes((int(facts.bus[-2:], 16), facts.secondary_bus, facts.secondary_bus))
    else:
        struct.pack_into("<HH", space, 0x2C, int(facts.subsystem_vendor, 16), int(facts.subsystem_device, 16))
    return bytes(space)


def _link_entries(facts: PciFacts) -> dict[str, Entry]:
    return {
        "current_link_speed": ro(facts.link_speed),
        "current_link_width": ro(facts.link_width),
        "max_link_speed": ro(facts.link_speed),
        "max_link_width": ro(facts.link_width),
    }


def _endpoint_entries() -> dict[str, Entry]:
    return {"reset": wo(), "reset_method": rw("flr bus")}


def _bridge_entries(facts: PciFacts) -> dict[str, Entry]:
    return {
        "reset_subordinate": wo(),
        "secondary_bus_number": ro(facts.secondary_bus),
        "subordinate_bus_number": ro(facts.secondary_bus),
    }
