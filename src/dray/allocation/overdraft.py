"""Whether devices that nobody holds would still give more than there is: shared counters, and capacity of shared devices.

Both are checked from what the current slices of a pool say. A device or counter that they do not name is not judged: it
may have been taken out of the pool after it was given, or not be published yet. Only what is wanted now is judged: what was
overdrawn before, because a slice shrank, stands in the way of nothing that adds nothing to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from dray.allocation.candidates import CounterKey, counters_of
from dray.allocation.holding import Held
from dray.api.quantity import ZERO, Quantity
from dray.api.resource import ResourceSlice
from dray.api.resource.slice import Device, ResourceSliceSpec
from dray.semantics.pools import current

_NANO: Final = Quantity("1n")


class Limits(msgspec.Struct, frozen=True):
    """What of a device can be shared out, and what it takes from its pool's counters while it is held, in billionths."""

    capacity: Mapping[str, Quantity] = {}
    takes: Mapping[CounterKey, int] = {}


_NONE: Final = Limits()


class Part(msgspec.Struct, frozen=True):
    """One slice, as far as amounts go. `spec` has its pool and node only; `takers` are devices that take from a counter."""

    spec: ResourceSliceSpec
    devices: Mapping[str, Limits]
    counters: Mapping[CounterKey, Quantity]
    takers: Mapping[CounterKey, Sequence[str]]


class Overdraft(msgspec.Struct, frozen=True):
    """More of `what` is asked for by `wanted` than is `left` of the `total`; `users` are the devices that have the rest."""

    what: str
    where: str
    total: Quantity
    asked: Quantity
    left: Quantity
    wanted: tuple[Held, ...]
    users: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.what} of {self.where}: {self.total} is all there is"


class Holders(Protocol):
    """What others hold of one pool. Admin access holds nothing."""

    def is_held(self, device: str) -> bool:
        """Whether anybody holds the device or a share of it."""
        ...

    def of(self, device: str) -> Iterable[Held]:
        """Everything that is held of the device."""
        ...


class Given:
    """`Holders` over a plain list, all of one pool."""

    def __init__(self, held: Iterable[Held]) -> None:
        self._held: dict[str, list[Held]] = defaultdict(list)
        for one in held:
            self._held[one.device].append(one)

    def is_held(self, device: str) -> bool:
        """See `Holders`."""
        return device in self._held

    def of(self, device: str) -> Iterable[Held]:
        """See `Holders`."""
        return self._held.get(device, ())


def overdraft(slices: Iterable[ResourceSlice], held: Sequence[Held], wanted: Sequence[Held]) -> str:
    """What would be overdrawn, in words, or "". All of one pool."""
    found = find_overdraft([part_of(one) for one in slices], Given(held), wanted)
    return "" if found is None else str(found)


def part_of(one: ResourceSlice) -> Part:
    """The amounts of a slice; worth to be kept for as long as the slice does not change."""
    devices = {device.name: _limits(device) for device in one.spec.devices or ()}
    takers: dict[CounterKey, list[str]] = defaultdict(list)
    for name, limits in devices.items():
        for key in limits.takes:
            takers[key].append(name)
    counters = {
        (counter_set.name, name): counter.value
        for counter_set in one.spec.shared_counters or ()
        for name, counter in counter_set.counters.items()
    }
    spec = ResourceSliceSpec(driver=one.spec.driver, pool=one.spec.pool, node_name=one.spec.node_name)
    return Part(spec, devices, counters, takers)


def _limits(device: Device) -> Limits:
    if not device.capacity and not device.consumes_counters:
        return _NONE
    takes: dict[CounterKey, int] = defaultdict(int)
    for key, amount in counters_of(device):
        takes[key] += amount
    return Limits({name: one.value for name, one in device.capacity.items()}, takes)


def find_overdraft(parts: Sequence[Part], holders: Holders, wanted: Sequence[Held]) -> Overdraft | None:
    """What one claim would overdraw with the devices it wants. All of one pool; `holders` are the other claims."""
    parts = current(parts)
    published = {}
    for one in wanted:
        for part in parts:
            if (limits := part.devices.get(one.device)) is not None:
                published[one.device] = limits
    return _counters(parts, published, holders, wanted) or _capacity(published, holders, wanted)


def _counters(
    parts: Sequence[Part], published: Mapping[str, Limits], holders: Holders, wanted: Sequence[Held]
) -> Overdraft | None:
    """A device takes its counters once, however many shares of it there are."""
    added = {name: one for name, one in published.items() if one.takes and not holders.is_held(name)}
    keys = sorted({key for one in added.values() for key in one.takes})
    used = _users(parts, keys, holders) if keys else {}
    for key in keys:
        asked = {name: one.takes[key] for name, one in added.items() if one.takes.get(key, 0) > 0}
        home = next((part for part in parts if key in part.counters), None)
        if not asked or home is None:
            continue
        total, users = home.counters[key], {name: one.takes.get(key, 0) for name, one in used.items()}
        if sum(asked.values()) + sum(users.values()) > total.nano:
            what, where = f"counter {'/'.join(key)}", f"pool {home.spec.pool.name}"
            who = tuple(one for one in wanted if one.device in asked)
            return _overdraft(what, where, total, sum(asked.values()), users, who)
    return None


def _users(parts: Iterable[Part], keys: Sequence[CounterKey], holders: Holders) -> dict[str, Limits]:
    """The devices that others hold and that take from one of these counters."""
    found = {}
    for part in parts:
        for name in {name for key in keys for name in part.takers.get(key, ())}:
            if holders.is_held(name):
                found[name] = part.devices[name]
    return found


def _capacity(published: Mapping[str, Limits], holders: Holders, wanted: Sequence[Held]) -> Overdraft | None:
    """What a device has not, or not any more, is nothing that can be given."""
    for device in sorted({one.device for one in wanted if one.consumed_capacity} & published.keys()):
        who = tuple(one for one in wanted if one.device == device)
        asked = _amounts(who)
        used = _amounts(holders.of(device))
        for key in sorted(key for key in asked if asked[key] > 0):
            total = published[device].capacity.get(key, ZERO)
            if asked[key] + used[key] > total.nano:
                what, where = f"capacity {key}", f"device {device}"
                return _overdraft(what, where, total, asked[key], {device: used[key]}, who[:1])
    return None


def _amounts(shares: Iterable[Held]) -> dict[str, int]:
    amounts: dict[str, int] = defaultdict(int)
    for one in shares:
        for key, amount in (one.consumed_capacity or {}).items():
            amounts[key] += Quantity.from_json(amount).nano
    return amounts


def _overdraft(
    what: str, where: str, total: Quantity, asked: int, users: Mapping[str, int], wanted: tuple[Held, ...]
) -> Overdraft:
    """Amounts are written as the total is."""
    left = max(total.nano - sum(users.values()), 0)
    having = tuple(sorted(name for name, amount in users.items() if amount > 0))
    return Overdraft(what, where, total, _like(total, asked), _like(total, left), wanted, having)


def _like(total: Quantity, nano: int) -> Quantity:
    return (_NANO * nano).with_format(total.form)
