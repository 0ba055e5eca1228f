"""The nodes of NVIDIA's driver: of a card, of all cards together, and for graphics."""

from __future__ import annotations

import re
from typing import Final

from dray.errors import Error
from dray.hardware.device_nodes import has_device_node
from dray.hardware.facts import Problem
from dray.hardware.host_root import Place
from dray.hardware.nvml.capabilities import NODES
from dray.hardware.parse import is_pci_address

CONTROLS: Final = ("/dev/nvidiactl", "/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
"""Nodes that belong to no card. The first is always there, the others as far as modules are loaded."""
_CAPABILITY: Final = re.compile(rf"{NODES}/nvidia-cap([0-9]{{1,7}})", re.ASCII)
_GPU: Final = re.compile(r"/dev/nvidia([0-9]{1,4})", re.ASCII)
_DRM: Final = re.compile(r"(?:card|renderD)[0-9]{1,4}", re.ASCII)


def gpu_node(minor: int) -> str:
    """The card's own node."""
    return f"/dev/nvidia{minor}"


def gpu_minor(path: str) -> int | None:
    """The card's minor, where the path is a card's node."""
    found = _GPU.fullmatch(path)
    return int(found[1]) if found else None


def capability_minor(path: str) -> int | None:
    """The minor of a node that lets a container use a part of a card; None for another path."""
    found = _CAPABILITY.fullmatch(path)
    return int(found[1]) if found else None


def control_nodes(root: Place) -> tuple[str, ...]:
    """Those of `CONTROLS` that the host has."""
    problems: list[Problem] = []
    return tuple(path for path in CONTROLS if has_device_node(root, path, problems))


def drm_nodes(root: Place, bus_id: str) -> tuple[str, ...]:
    """The card's nodes for graphics (/dev/dri/card1, /dev/dri/renderD128), where it has any."""
    if not is_pci_address(bus_id):
        return ()
    problems: list[Problem] = []
    try:
        names = root.names(f"/sys/bus/pci/devices/{bus_id}/drm")
    except Error:  # no graphics
        return ()
    paths = (f"/dev/dri/{name}" for name in names if _DRM.fullmatch(name))
    return tuple(path for path in paths if has_device_node(root, path, problems))
