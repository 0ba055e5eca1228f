"""Which amounts a device is short of for a request: capacity of its own, or counters it shares with others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dray.allocation.candidates import Candidate, CounterKey, counters_of
from dray.allocation.capacity import CapacityCheck
from dray.allocation.faults import AllocationError
from dray.allocation.pools import Pool
from dray.allocation.requests import Request
from dray.allocation.state import DeviceID, Rules
from dray.api.quantity import Format, Quantity


@dataclass(frozen=True, slots=True)
class Lack:
    """`needed` is None where the device does not offer the amount at all, or not such an amount."""

    name: str
    left: Quantity | None
    needed: Quantity | None

    def __str__(self) -> str:
        if self.needed is None:
            return f"{self.name}: not in the amount asked for"
        return f"{self.name}: {self.left} left, {self.needed} needed"


def lacks(rules: Rules, request: Request, candidate: Candidate) -> Iterator[Lack]:
    """Capacity first, then counters; as things are before the claims in question get anything."""
    if rules.has_capacity:
        yield from _capacity(rules, request, candidate)
    if candidate.consumes and rules.features.partitionable_devices and not rules.is_shared(candidate.id):
        yield from _counters(rules, candidate)


def _capacity(rules: Rules, request: Request, candidate: Candidate) -> Iterator[Lack]:
    wanted, device = request.wish.capacity, candidate.device
    try:
        amounts = CapacityCheck(rules.profile).amounts(wanted, candidate.id.driver, device)
    except AllocationError:
        amounts = None
    if amounts is None:
        yield from (Lack(name, None, None) for name in sorted(wanted.requests if wanted is not None else ()))
        return
    used = rules.allocated.capacity.get(candidate.id, {})
    for name, needed in sorted(amounts.items()):
        left = device.capacity[name].value
        if name in used:
            left = left - used[name]
        if left < needed:
            yield Lack(name, left, needed)


def counters_left(rules: Rules, pool: Pool) -> dict[CounterKey, int]:
    """What devices in use leave of a pool's counters, in billionths."""
    left = dict(pool.counters)
    for one in (*pool.slices, *pool.elsewhere):
        for device in one.spec.devices or ():
            identity = DeviceID(pool.id.driver, pool.id.pool, device.name)
            if identity in rules.allocated.devices or identity in rules.shared:
                for key, amount in counters_of(device):
                    left[key] = left.get(key, 0) - amount
    return left


def _counters(rules: Rules, candidate: Candidate) -> Iterator[Lack]:
    left = counters_left(rules, candidate.pool)
    forms = {
        (one.counter_set, name): counter.value.form
        for one in candidate.device.consumes_counters
        for name, counter in one.counters.items()
    }
    for key, amount in candidate.consumes:
        if left.get(key, 0) < amount:
            name = f"{key[1]} of {key[0]}"
            yield Lack(name, _quantity(left.get(key, 0), forms[key]), _quantity(amount, forms[key]))


def _quantity(nano: int, form: Format) -> Quantity:
    """Parts below a thousandth are left out: it is for reading."""
    return Quantity.from_milli(nano // 10**6, form)
