"""Names as NVIDIA's own software gives them, so that claims, classes and quotas written for it fit."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Final

from dray.drivers.contract import Device
from dray.hardware.nvml.facts import Placement

KIND: Final = "nvidia"
DRIVER: Final = "gpu.nvidia.com"
REPLICA: Final = "::"
"""Between a UUID and the number of a share."""
PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
_PARTITION: Final = re.compile(r"gpu-([0-9]{1,4})-mig-(.{1,40})-([0-9]{1,4})-([0-9]{1,3})", re.ASCII)
_HUMP: Final = re.compile(r"([A-Z])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Partition:
    """Where a MIG device is or will be: on which card, of which profile, from which memory slice on."""

    minor: int
    profile_id: int
    start: int


def gpu_name(minor: int) -> str:
    """A whole card in a slice."""
    return f"gpu-{minor}"


def mig_name(minor: int, profile: str, profile_id: int, placement: Placement) -> str:
    """A part of a card: `gpu-0-mig-1g18gb-me-20-3`."""
    plain = re.sub(r"[^a-z0-9-]", "-", profile.lower().replace(".", "")).strip("-")
    return f"gpu-{minor}-mig-{plain}-{profile_id}-{placement.start}"


def vfio_name(index: int) -> str:
    """A card for a VM, by its number on the PCI bus among NVIDIA's."""
    return f"gpu-vfio-{index}"


def vfio_uuid(bus_id: str) -> str:
    """The same for the same place on the bus: a card on vfio-pci cannot be asked for its own."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, bus_id))


def partition_of(name: str) -> Partition | None:
    """What a name of a part says; None for other names."""
    found = _PARTITION.fullmatch(name)
    return Partition(int(found[1]), int(found[3]), int(found[4])) if found else None


def counter_set_name(minor: int) -> str:
    """The counters that a card and its parts draw on."""
    return f"{gpu_name(minor)}-counter-set"


def counter_name(capacity: str) -> str:
    """`copyEngines` as a counter: `copy-engines`."""
    return _HUMP.sub(lambda found: f"-{found[1].lower()}", capacity)


def slice_counter(index: int) -> str:
    """The counter of one memory slice."""
    return f"memory-slice-{index}"


def mig_resource(resource: str, profile: str) -> str:
    """The resource of MIG devices of a profile beside `nvidia.com/gpu`: `nvidia.com/mig-1g.18gb.me`."""
    return f"{resource.rpartition('/')[0]}/mig-{profile.replace('+', '.')}"


def bus_id_of(device: Device) -> str:
    """The card that a device of this kind is, or is a part of; empty where it does not say."""
    parts = (part.removeprefix("pci:").partition("/")[0] for part in device.hardware)
    return next(parts, "")
