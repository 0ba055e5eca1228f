"""What handing devices to containers and virtual machines needs of the host: IOMMU, VFIO, KVM, SELinux, NVIDIA's driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from dray.doctor.finding import Finding, cannot_look, note, ok, warning
from dray.doctor.places import State
from dray.errors import DeniedError, Error, NotFoundError
from dray.hardware.host_root import HostRoot, open_host_root
from dray.hardware.iommu import GROUPS
from dray.hardware.nvml.library import find_library, has_driver
from dray.hardware.nvml.session import open_nvml
from dray.hardware.selinux import SelinuxState, read_selinux

KVM: Final = "/dev/kvm"
_NODES: Final = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")
_MODULES: Final = ("vfio", "vfio_pci")


class Node(msgspec.Struct, frozen=True):
    """A device node; `may_open`: this process may read and write it."""

    state: State = State.MISSING
    may_open: bool = False


class Passthrough(msgspec.Struct, frozen=True):
    """`modules` are those that are loaded or built in. `nvml` is why the library cannot be loaded, empty where it can."""

    groups: int = 0
    command_line: str = ""
    vendor: str = ""
    has_virtualization: bool = False
    modules: tuple[str, ...] = ()
    kvm: Node = Node()
    selinux: str = "absent"
    cards: int = 0
    has_nvidia: bool = False
    nvml: str = ""
    nvidia_nodes: dict[str, Node] = {}


def look_at_passthrough(host_root: str) -> Passthrough:
    """InvalidError where the root itself is none."""
    root = open_host_root(host_root)
    cpu = _text(root, "/proc/cpuinfo")
    has_nvidia = _has_driver(root)
    return Passthrough(
        groups=len(_names(root, GROUPS)),
        command_line=_text(root, "/proc/cmdline"),
        vendor=_vendor(cpu),
        has_virtualization=bool({"vmx", "svm"} & set(cpu.split())),
        modules=tuple(
            one for one in _MODULES if _node(root, f"/sys/module/{one}").state is not State.MISSING
        ),
        kvm=_node(root, KVM),
        selinux=read_selinux(root).value,
        cards=_cards(root),
        has_nvidia=has_nvidia,
        nvml=_nvml(root) if has_nvidia else "",
        nvidia_nodes={path: _node(root, path) for path in _NODES} if has_nvidia else {},
    )


def _vendor(cpu: str) -> str:
    return next((one for one in ("GenuineIntel", "AuthenticAMD") if one in cpu), "")


def _cards(root: HostRoot) -> int:
    """PCI functions of NVIDIA."""
    base = "/sys/bus/pci/devices"
    return sum(_text(root, f"{base}/{name}/vendor").strip() == "0x10de" for name in _names(root, base))


def _nvml(root: HostRoot) -> str:
    if not root.is_this_host:  # a library of another root would stay loaded in this process
        return "" if find_library(root) else "libnvidia-ml.so.1 was not found"
    try:
        with open_nvml(root):
            return ""
    except Error as error:
        return str(error)


def _has_driver(root: HostRoot) -> bool:
    try:
        return has_driver(root)
    except Error:
        return False


def _text(root: HostRoot, path: str) -> str:
    try:
        return root.read_text(path)
    except Error:
        return ""


def _names(root: HostRoot, path: str) -> list[str]:
    try:
        return root.names(path)
    except Error:
        return []


def _node(root: HostRoot, path: str) -> Node:
    try:
        root.stat(path)
        return Node(State.THERE, root.may_open(path))
    except NotFoundError:
        return Node()
    except DeniedError:
        return Node(State.DENIED)
    except Error:
        return Node(State.BROKEN)


def check_passthrough(facts: Passthrough) -> Iterator[Finding]:
    """None of it is a fault: machines without passthrough have none of it."""
    yield _check_iommu(facts)
    yield _check_vfio(facts)
    yield _check_kvm(facts)
    yield _check_selinux(facts)
    yield from _check_nvidia(facts)


def _check_iommu(facts: Passthrough) -> Finding:
    if facts.groups:
        return ok("iommu", f"the IOMMU is on: {facts.groups} groups")
    flag = {"GenuineIntel": "intel_iommu=on", "AuthenticAMD": "amd_iommu=on"}.get(facts.vendor, "")
    words = facts.command_line.split()
    why = "without it no PCI device can be handed to a virtual machine"
    if flag == "intel_iommu=on" and flag not in words:
        fix = f"switch VT-d on in the firmware and add `{flag} iommu=pt` to the kernel's command line"
    elif flag:
        fix = (
            "switch the IOMMU (VT-d, AMD-Vi) on in the firmware; add `iommu=pt` to the kernel's command line"
        )
    else:
        fix = "switch the IOMMU on in the firmware"
    return note("iommu", "the IOMMU is off: there are no groups", why, fix)


def _check_vfio(facts: Passthrough) -> Finding:
    missing = [one.replace("_", "-") for one in _MODULES if one not in facts.modules]
    if not missing:
        return ok("vfio", "the modules vfio and vfio-pci are loaded")
    if not facts.groups:
        return note("vfio", f"not loaded: {', '.join(missing)}", "without an IOMMU they are of no use")
    fix = f"modprobe {' '.join(missing)}, and add it to /etc/modules-load.d/vfio.conf"
    why = "PCI devices are handed out through them"
    return note("vfio", f"not loaded: {', '.join(missing)}", why, fix)


def _check_kvm(facts: Passthrough) -> Finding:
    why = "virtual machines run on it"
    if facts.kvm.state is State.DENIED:
        return cannot_look("kvm", KVM)
    if facts.kvm.state is not State.THERE:
        more = (
            ""
            if facts.has_virtualization
            else "switch virtualization on in the firmware (or nested, in a VM), then "
        )
        module = {"GenuineIntel": "kvm_intel", "AuthenticAMD": "kvm_amd"}.get(facts.vendor, "kvm")
        return note("kvm", f"there is no {KVM}", why, f"{more}modprobe {module}")
    if not facts.kvm.may_open:
        fix = "add the user to the group kvm (root in a container: its device cgroup forbids it)"
        return warning("kvm", f"{KVM} may not be opened by this user", why, fix)
    return ok("kvm", f"{KVM} is there and may be opened")


def _check_selinux(facts: Passthrough) -> Finding:
    if facts.selinux == SelinuxState.ENFORCING:
        why = "containers may use only device nodes with their label: the agent relabels those it hands out"
        return note(
            "selinux", "SELinux is enforcing", why, "keep CAP_MAC_ADMIN and spc_t for the agent's pod"
        )
    return ok("selinux", f"SELinux is {facts.selinux}")


def _check_nvidia(facts: Passthrough) -> Iterator[Finding]:
    if not facts.has_nvidia:
        if facts.cards:
            why = "the cards can be handed out whole to virtual machines only"
            text = f"{facts.cards} NVIDIA functions, and no driver is loaded"
            yield note("nvidia", text, why, "install NVIDIA's driver for GPUs in containers")
        return
    if facts.nvml:
        why = "without it no GPU is found"
        yield warning(
            "nvidia", f"NVML does not answer: {facts.nvml}", why, "reinstall NVIDIA's driver, or reboot"
        )
    else:
        yield ok("nvidia", "NVIDIA's driver is loaded, and NVML answers")
    missing = [path for path, node in sorted(facts.nvidia_nodes.items()) if node.state is State.MISSING]
    if missing:
        why = "containers get them with a GPU"
        yield warning("nvidia-nodes", f"missing: {', '.join(missing)}", why, "run nvidia-modprobe -u -c 0")
