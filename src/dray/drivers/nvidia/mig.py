"""Parts of a card that are made when a claim gets them, and taken away when it gives them back (DynamicMIG)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from dray.drivers.contract import Device
from dray.drivers.nvidia.names import bus_id_of, partition_of
from dray.drivers.nvidia.nodes import gpu_node
from dray.errors import HardwareError, InvalidError
from dray.hardware.change import CreateMigDevice, DestroyMigDevice, HostChange, SetMigMode
from dray.hardware.host_root import Place
from dray.hardware.nvml.capabilities import read_mig_nodes
from dray.hardware.nvml.codes import NvmlError
from dray.hardware.nvml.facts import MigDevice, Placement
from dray.hardware.nvml.protocol import NvmlChanges, OpenNvml
from dray.hardware.nvml.reading import read_gpus
from dray.hardware.parse import pci_address

_RESET_NEEDED: Final = ("Ampere",)
"""Architectures that change MIG mode only by a reset: theirs is left as it is."""


@dataclass(frozen=True, slots=True, order=True)
class Card:
    """A card of the driver: its bus id, and the N of /dev/nvidiaN."""

    address: str
    minor: int


@dataclass(frozen=True, slots=True, order=True)
class MigPlace:
    """Where a MIG device is or would be: a profile, from slice `start` on."""

    card: Card
    profile: int
    start: int


def is_made_for_claims(device: Device) -> bool:
    """Whether it is only a possibility: a MIG device that is there has a UUID."""
    return device.attributes.get("type") == "mig" and "uuid" not in device.attributes


def place_of(device: Device) -> MigPlace:
    """Out of its name, `gpu-0-mig-1g5gb-19-4`; InvalidError for a device that is no part of a card."""
    found, address = partition_of(device.name), bus_id_of(device)
    if found is None or not address:
        raise InvalidError(f"{device.name or device.id} is not the name of a MIG device", field="device")
    return MigPlace(Card(address, found.minor), found.profile_id, found.start)


def changes_mode(device: Device) -> bool:
    """Whether its card can be divided and made whole again while the machine runs."""
    return device.attributes.get("architecture") not in _RESET_NEEDED


def to_make(device: Device) -> tuple[HostChange, ...]:
    """What makes it. Where it is there already nothing is changed."""
    place = place_of(device)
    card = place.card
    create = CreateMigDevice(card.address, card.minor, place.profile, place.start)
    return (SetMigMode(card.address, card.minor, on=True), create)


def to_take_away(device: Device) -> tuple[HostChange, ...]:
    """What takes it away; the card is whole again when it was the last part."""
    place = place_of(device)
    card = place.card
    off = (SetMigMode(card.address, card.minor, on=False),) if changes_mode(device) else ()
    return (DestroyMigDevice(card.address, card.minor, place.profile, place.start), *off)


def read_nodes(root: Place, open_nvml: OpenNvml, device: Device) -> tuple[str, ...]:
    """The nodes of a MIG device that was just made: the card's, and its own two. HardwareError where it is not there."""
    place = place_of(device)
    found = read_live(root, open_nvml, place)
    if found is None:
        raise HardwareError(
            f"{device.name}: the MIG device is not there though it was made: did somebody remove it with nvidia-smi?",
            device=device.id,
        )
    minor = place.card.minor
    return (gpu_node(minor), *read_mig_nodes(root, minor, found.gpu_instance, found.compute_instance))


def read_live(root: Place, open_nvml: OpenNvml, place: MigPlace) -> MigDevice | None:
    """The MIG device at this place, if one is there now."""
    with open_nvml(root) as nvml:
        gpus = read_gpus(nvml)
    for gpu in gpus.items:
        for one in gpu.mig_devices if gpu.bus_id == place.card.address else ():
            if (one.profile_id, one.placement.start) == (place.profile, place.start):
                return one
    return None


Instances = Mapping[Card, Collection[tuple[int, Placement]]]
"""Profile and placement of every GPU instance, by card."""


def read_instances(nvml: NvmlChanges) -> dict[Card, tuple[tuple[int, Placement], ...]]:
    """All GPU instances of the machine, those without a compute instance too; lost cards have none."""
    found: dict[Card, tuple[tuple[int, Placement], ...]] = {}
    for index in range(nvml.count()):
        try:
            handle = nvml.handle(index)
            address = pci_address(nvml.bus_id(handle))
            if address is None or nvml.mig_mode(handle) is None:
                continue
            instances = nvml.gpu_instances(handle)
            card = Card(address, nvml.minor(handle))
        except NvmlError:  # it fell off the bus
            continue
        found[card] = tuple((profile, placement) for _, profile, placement in instances)
    return found


def leftovers(instances: Instances, held: Iterable[Device]) -> tuple[HostChange, ...]:
    """What takes away the MIG devices that no prepared claim has: of claims that were given back while nobody was there.

    `held` are the devices of all prepared claims. Called at the start, before anything is handed out, and only where
    Dray makes MIG devices itself: elsewhere they are the administrator's. Pure.
    """
    kept = {place_of(device) for device in held if is_made_for_claims(device)}
    there = {
        MigPlace(card, profile, placement.start)
        for card in instances
        for profile, placement in instances[card]
    }
    return tuple(
        DestroyMigDevice(place.card.address, place.card.minor, place.profile, place.start)
        for place in sorted(there - kept)
    )
