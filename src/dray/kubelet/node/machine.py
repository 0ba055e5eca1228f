"""What a Node says about its machine, read once at the start."""

from __future__ import annotations

import os
import platform
import socket
from dataclasses import dataclass
from pathlib import Path

from dray.api.quantity import Quantity
from dray.kubelet.node.resources import CPU, MEMORY, PODS, STORAGE

MAX_PODS = 110
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Machine:
    """`boot_id` differs after every boot."""

    hostname: str
    address: str
    boot_id: str
    machine_id: str
    kernel: str
    os_image: str
    architecture: str
    resources: dict[str, Quantity]


def read_machine(root: Path = Path("/"), state_dir: Path = Path("/"), max_pods: int = MAX_PODS) -> Machine:
    """Facts that cannot be read are empty: a node without a machine id is a node all the same."""
    return Machine(
        hostname=socket.gethostname().lower(),
        address=_address(),
        boot_id=_text(root / "proc/sys/kernel/random/boot_id"),
        machine_id=_text(root / "etc/machine-id"),
        kernel=platform.release(),
        os_image=_os_name(_text(root / "etc/os-release")),
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
        resources={
            CPU: Quantity.from_int(os.cpu_count() or 1),
            MEMORY: Quantity(f"{_memory(_text(root / 'proc/meminfo'))}Ki"),
            STORAGE: Quantity.from_int(_disk(state_dir)),
            PODS: Quantity.from_int(max_pods),
        },
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _os_name(text: str) -> str:
    for line in text.splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return ""


def _memory(text: str) -> int:
    """In KiB."""
    for line in text.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1])
    return 0


def _disk(path: Path) -> int:
    try:
        found = os.statvfs(path)
    except OSError:
        return 0
    return found.f_blocks * found.f_frsize


def _address() -> str:
    """The address that packets to the world would come from; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
