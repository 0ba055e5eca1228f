"""Devices as people see them: who holds one, whether a claim could still get it, and what it is.

Admin access holds nothing. A device that several claims share (`allowMultipleAllocations`) stays free while the least
that a claim may take of it is left of each capacity, as Kubernetes' allocator counts; so it can be held and free at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from dray.api.quantity import Quantity
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.slice import CapacityRequestPolicy, Device, DeviceAttribute
from dray.api.taints import DeviceTaint
from dray.semantics.taints import (
    HELD_BY_CLAIM,
    HELD_BY_PLUGIN,
    DeviceHealth,
    device_health,
    keeps_away,
    taint_name,
)

DeviceKey = tuple[str, str, str]
"""Driver, pool and device."""
AttributeValue = int | bool | str | tuple[int, ...] | tuple[bool, ...] | tuple[str, ...]
"""What one attribute has; a version is a text."""
_STANDARD: Final = "resource.kubernetes.io"
_PRODUCT: Final = ("productName", "model", "product", "type", "shape", "resource", "device")
"""Attributes that say what a device is, the best first; `resource` is the one by which a device plugin offers it."""
_SIMULATED: Final = "sim."
_ANY: Final = 1
"""The least amount that is more than nothing, in billionths."""


@dataclass(frozen=True, slots=True)
class Holder:
    """One claim's hold on a device, or on a share of it: `takes` says how much.

    `pods` are those that may use it now. `door` says how it was given: `dra`; `plugin`, where `claim` is "" and the pod is
    told without its namespace; or `other`: the same hardware is held as another device, by a claim that is told without
    its namespace.
    """

    claim: str
    pods: tuple[str, ...] = ()
    share: str = ""
    admin: bool = False
    door: str = "dra"
    takes: Mapping[str, Quantity] = field(default_factory=dict)


class DeviceState(StrEnum):
    """The one word for a device. Health comes first: a device that is both held and broken is broken."""

    UNHEALTHY = "unhealthy"
    TAINTED = "tainted"
    FREE = "free"
    """A claim could get it now, or a share of it."""
    HELD = "held"
    """Somebody has it, and nothing of it is left."""
    BLOCKED = "blocked"
    """Nobody has it, and nobody can: other devices of its pool have the counters that it would draw on."""


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """What counts of a device. It may be held and unhealthy, or held and free: its state is the one word for that."""

    health: DeviceHealth
    is_free: bool
    is_held: bool
    is_blocked: bool = False

    @property
    def state(self) -> DeviceState:
        """The one word."""
        if self.health is not DeviceHealth.HEALTHY:
            return DeviceState(self.health.value)
        if self.is_free:
            return DeviceState.FREE
        return DeviceState.BLOCKED if self.is_blocked else DeviceState.HELD


@dataclass(frozen=True, slots=True)
class Totals:
    """How many of some devices. What is held may be free, tainted or unhealthy as well, and counts as each of these."""

    devices: int = 0
    free: int = 0
    held: int = 0
    blocked: int = 0
    tainted: int = 0
    unhealthy: int = 0


def holders_in(claim: ResourceClaim) -> Iterator[tuple[DeviceKey, Holder]]:
    """The devices that a claim has, share by share; of what it has by admin access the holder says so."""
    if claim.status.allocation is None:
        return
    space = f"{claim.metadata.namespace}/" if claim.metadata.namespace else ""
    name = f"{space}{claim.metadata.name}"
    pods = tuple(f"{space}{one.name}" for one in claim.status.reserved_for if one.resource == "pods")
    for one in claim.status.allocation.devices.results:
        holder = Holder(name, pods, one.share_id or "", bool(one.admin_access), takes=one.consumed_capacity)
        yield (one.driver, one.pool, one.device), holder


def holders_by_taint(taints: Iterable[DeviceTaint]) -> Iterator[Holder]:
    """Who has a device in a way that no claim of its own tells: Dray's agent says so by a taint."""
    for taint in taints:
        name = taint_name(taint)
        if name == HELD_BY_PLUGIN:
            yield Holder("", (taint.value,) if taint.value else (), door="plugin")
        elif name == HELD_BY_CLAIM:
            yield Holder(taint.value, door="other")


def device_status(
    device: Device, taints: Sequence[DeviceTaint], holders: Sequence[Holder], *, is_blocked: bool = False
) -> DeviceStatus:
    """How a device is. `taints` are its own and those of rules; `is_blocked`: its pool has not the counters for it."""
    health = device_health(taints)
    is_held = any(not one.admin for one in holders)
    is_reachable = not any(map(keeps_away, taints)) and (is_held or not is_blocked)
    return DeviceStatus(
        health, is_reachable and has_room(device, holders), is_held, is_blocked and not is_held
    )


def has_room(device: Device, holders: Iterable[Holder]) -> bool:
    """Whether some claim could get the device, or a share of it, beside those that have it."""
    held = [one for one in holders if not one.admin]
    if not held:
        return True
    if not device.allow_multiple_allocations or not all(one.share for one in held):
        return False  # without a share it is held as a whole
    for name, capacity in device.capacity.items():
        taken = sum(one.takes[name].nano for one in held if name in one.takes)
        if taken + _least(capacity.request_policy) > capacity.value.nano:
            return False
    return True


def _least(policy: CapacityRequestPolicy | None) -> int:
    """The least that a claim takes of a capacity, in billionths: it may ask for less than it gets without asking."""
    if policy is None:
        return _ANY
    if policy.valid_range is not None and policy.valid_range.min is not None:
        valid = [policy.valid_range.min.nano]
    else:
        valid = [one.nano for one in policy.valid_values] or [_ANY]
    return min(valid if policy.default is None else [*valid, policy.default.nano])


def totals(statuses: Iterable[DeviceStatus]) -> Totals:
    """Their sums."""
    every = tuple(statuses)
    return Totals(
        devices=len(every),
        free=sum(one.is_free for one in every),
        held=sum(one.is_held for one in every),
        blocked=sum(one.is_blocked for one in every),
        tainted=sum(one.health is DeviceHealth.TAINTED for one in every),
        unhealthy=sum(one.health is DeviceHealth.UNHEALTHY for one in every),
    )


def find_attribute(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """The driver's own attribute of this name, else one that all drivers share, else that of any domain."""
    known = device.attributes
    for key in (name, f"{driver}/{name}", f"{_STANDARD}/{name}"):
        if key in known:
            return known[key]
    return next((known[key] for key in sorted(known) if key.endswith(f"/{name}")), None)


def attribute_value(one: DeviceAttribute) -> AttributeValue | None:
    """The one member that is set."""
    members = (one.int_value, one.bool_value, one.string_value, one.version_value)
    lists = (one.int_values, one.bool_values, one.string_values, one.version_values)
    return next((value for value in (*members, *lists) if value is not None), None)


def attribute(device: Device, driver: str, name: str) -> AttributeValue | None:
    """The value of an attribute; None where the device has none of this name."""
    found = find_attribute(device, driver, name)
    return attribute_value(found) if found is not None else None


def product_name(device: Device, driver: str) -> str:
    """What the device is, in its driver's words; "" where they are missing."""
    values = (attribute(device, driver, name) for name in _PRODUCT)
    return next((value for value in values if isinstance(value, str) and value), "")


def is_simulated(device: Device, driver: str) -> bool:
    """Whether there is no hardware behind it."""
    return driver.startswith(_SIMULATED) or attribute(device, driver, "simulated") is True
