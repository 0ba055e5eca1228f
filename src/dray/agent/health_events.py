"""Tells by Events when a device stops working and when it works again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

from dray.agent.events import AgentEvents, Reason
from dray.dra.parcels import ClaimRef
from dray.drivers.contract import Device, Health
from dray.inventory.inventory import InventoryFeed

Holders = Callable[[Device], Iterable[tuple[ClaimRef, Iterable[tuple[str, str]]]]]
"""The claims that have a device now, each with the name and uid of its pods."""


async def tell_health(feed: InventoryFeed, events: AgentEvents, holders: Holders) -> NoReturn:
    """Until cancelled. Only changes are told, so not what was broken before we looked for the first time."""
    before = feed.current
    while True:
        after = await feed.wait_newer(before.generation)
        for device, reason in changes(before.devices, after.devices):
            _tell(device, reason, events, holders)
        before = after


def _tell(device: Device, reason: Reason, events: AgentEvents, holders: Holders) -> None:
    """A pod is told once, though several of its claims may have a share of the device."""
    message, told = _message(device), set[str]()
    events.tell_node(reason, message)
    for claim, pods in holders(device):
        others = [(name, uid) for name, uid in pods if uid not in told]
        events.tell_claim(claim, reason, message, others)
        told |= {uid for _, uid in others}


def changes(before: Iterable[Device], after: Iterable[Device]) -> Iterator[tuple[Device, Reason]]:
    """Devices that are in both and whose health differs, by kind and id. Pure."""
    known = {(device.kind, device.id): device.health for device in before}
    for device in sorted(after, key=lambda one: (one.kind, one.id)):
        if known.get((device.kind, device.id), device.health) is not device.health:
            is_well = device.health is Health.HEALTHY
            yield device, Reason.DEVICE_RECOVERED if is_well else Reason.DEVICE_UNHEALTHY


def _message(device: Device) -> str:
    name = f"{device.kind} {device.id}"  # its label may be that of its model
    if device.health is Health.HEALTHY:
        return f"{name} works again"
    return f"{name} does not work: {device.reason or 'no reason is known'}"
