"""Devices that had another name, or were in another set, before the configuration changed: who holds one keeps it.

The kubelet knows a device by resource and id. When an edit gives it another name, the kubelet would hand it out a second
time while a container has it under the old one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from dray.drivers.contract import Device, Health


def formers(before: Iterable[Device], known: Iterable[Device], found: Iterable[Device]) -> tuple[Device, ...]:
    """Those of `before` and of the last look that one container holds at a time, and that are not `found` under their names."""
    now = {_name(device) for device in found}
    gone = {
        _name(device): device
        for device in (*before, *known)
        if device.is_exclusive and device.resource and _name(device) not in now
    }
    return tuple(gone[name] for name in sorted(gone))


def held_back(found: Iterable[Device], held: Collection[Device]) -> tuple[Device, ...]:
    """The devices; one that a container has under a former name is not healthy under the new one."""
    owners = {part: device for device in held for part in device.parts}
    return tuple(_judged(device, owners) for device in found)


def _judged(device: Device, owners: dict[str, Device]) -> Device:
    if not device.is_exclusive or device.health is not Health.HEALTHY:
        return device
    owner = next((owners[part] for part in device.parts if part in owners), None)
    if owner is None:
        return device
    reason = f"a container still has it as {owner.resource} {owner.id}"
    return replace(device, health=Health.UNHEALTHY, reason=reason, upkeep=())


def _name(device: Device) -> tuple[str, str]:
    return device.resource, device.id
