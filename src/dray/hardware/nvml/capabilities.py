"""The nodes that let a process use a MIG device: one for its GPU instance, one for its compute instance."""

from __future__ import annotations

import re
from typing import Final

from dray.errors import HardwareError
from dray.hardware.host_root import Place

CAPABILITIES: Final = "/proc/driver/nvidia/capabilities"
NODES: Final = "/dev/nvidia-caps"
_MINOR: Final = re.compile(r"(?m)^DeviceFileMinor: *([0-9]{1,9})$", re.ASCII)


def gpu_instance_file(minor: int, gpu_instance: int) -> str:
    """The kernel's file about a GPU instance of /dev/nvidia<minor>."""
    return f"{CAPABILITIES}/gpu{minor}/mig/gi{gpu_instance}/access"


def compute_instance_file(minor: int, gpu_instance: int, compute_instance: int) -> str:
    """The kernel's file about a compute instance."""
    return f"{CAPABILITIES}/gpu{minor}/mig/gi{gpu_instance}/ci{compute_instance}/access"


def read_capability_node(root: Place, path: str) -> str:
    """The node that one of these files stands for. NotFoundError where there is no such file, so no such instance."""
    found = _MINOR.search(root.read_text(path))
    if found is None:
        raise HardwareError(f"{path} names no DeviceFileMinor: is NVIDIA's driver 450 or newer?", path=path)
    return f"{NODES}/nvidia-cap{int(found[1])}"


def read_mig_nodes(root: Place, minor: int, gpu_instance: int, compute_instance: int) -> tuple[str, str]:
    """The two nodes of a MIG device."""
    return (
        read_capability_node(root, gpu_instance_file(minor, gpu_instance)),
        read_capability_node(root, compute_instance_file(minor, gpu_instance, compute_instance)),
    )
