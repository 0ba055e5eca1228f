"""The inventory as each door shows it: without what is not offered there, and marked where another door gave it away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import StrEnum

from dray.api.names import label_value
from dray.api.taints import DeviceTaint, Effect
from dray.drivers.contract import Device, Health
from dray.inventory.inventory import Inventory
from dray.inventory.ledger import Door, Hold, Way, foreign
from dray.semantics.taints import HELD_BY_CLAIM, HELD_BY_PLUGIN


class Offered(StrEnum):
    """Through which doors something is offered; the words of the configuration."""

    PLUGIN = "plugin"
    DRA = "dra"
    BOTH = "both"

    def has(self, door: Door) -> bool:
        """Whether this is one of them."""
        return self is Offered.BOTH or self.value == door.value


DoorOf = Callable[[str, str], Offered]
"""Kind and resource, to how such a device is offered. A device without a resource can only be offered through DRA."""


def offers(inventory: Inventory, door_of: DoorOf) -> dict[Door, tuple[Device, ...]]:
    """What is offered through each door, as it is."""
    asked = [(device, door_of(device.kind, device.resource)) for device in inventory.devices]
    return {
        Door.PLUGIN: tuple(device for device, how in asked if device.resource and how.has(Door.PLUGIN)),
        Door.DRA: tuple(device for device, how in asked if how.has(Door.DRA)),
    }


def plugin_view(devices: Iterable[Device], holds: Iterable[Hold]) -> tuple[Device, ...]:
    """What plugins list, of what is offered through them. A device that a claim has is unhealthy, so that the kubelet gives it to nobody.

    That is so from the claim's allocation on. A container that has it already is not disturbed by it.
    """
    mine = _Index(holds)
    return tuple(_unhealthy(device, mine.first(device, Door.PLUGIN)) for device in devices)


def dra_view(
    devices: Iterable[Device], holds: Iterable[Hold], driver_of: Callable[[str], str]
) -> tuple[Device, ...]:
    """What slices show, of what is offered through DRA. A device that a pod has through a plugin is tainted, so that no claim is given it.

    `driver_of` names the DRA driver of a kind. A claim of another kind that has the same hardware is shown alike.
    """
    mine = _Index(holds)
    return tuple(
        device
        if (hold := mine.first(device, Door.DRA)) is None
        else _tainted(device, hold, driver_of(device.kind))
        for device in devices
    )


def ways(offered: Mapping[Door, Iterable[Device]]) -> dict[str, frozenset[Way]]:
    """How each piece of hardware can be given away: through which doors, as devices of which kinds."""
    found: dict[str, set[Way]] = {}
    for door, devices in offered.items():
        for device in devices:
            for part in device.parts if device.is_exclusive else ():
                found.setdefault(part, set()).add((door, device.kind))
    return {part: frozenset(found[part]) for part in sorted(found)}


class _Index:
    """Holds by what they are made of."""

    def __init__(self, holds: Iterable[Hold]) -> None:
        self._by_part: dict[str, list[Hold]] = {}
        for hold in holds:
            for part in hold.parts:
                self._by_part.setdefault(part, []).append(hold)

    def first(self, device: Device, door: Door) -> Hold | None:
        """The hold to tell of: one that is confirmed before one that is not."""
        found = [
            hold
            for part in device.parts
            for hold in self._by_part.get(part, ())
            if foreign(hold, device, door)
        ]
        return min(found, key=lambda hold: (not hold.confirmed, hold.key), default=None)


def _unhealthy(device: Device, hold: Hold | None) -> Device:
    """What is wrong with the device itself says more than who has it."""
    if hold is None or device.health is not Health.HEALTHY:
        return device
    return replace(device, health=Health.UNHEALTHY, reason=f"{hold.holder} has it")


def _tainted(device: Device, hold: Hold, driver: str) -> Device:
    name = HELD_BY_PLUGIN if hold.door is Door.PLUGIN else HELD_BY_CLAIM
    who = hold.owner.rpartition("/")[2]
    value = "" if label_value(who) else who
    taint = DeviceTaint(key=f"{driver}/{name}", value=value, effect=Effect.NO_SCHEDULE)
    return replace(device, taints=(*device.taints, taint))
