"""Which amounts a device is short of for a request: capacity of its own, or counters it shares with others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dray.allocation.candidates import Candidate
from dray.allocation.capacity import CapacityCheck
from dray.allocation.counters import counters_left
from dray.allocation.faults import AllocationError
from dray.allocation.requests import Request
from dray.allocation.state import Rules
from dray.api.quantity import Format, Quantity


@dataclass(frozen=True, slots=True)
class Lack:
    """`needed` is None where the device does not offer the amount at all, or not such an amount."""

    name: str
    left: Quantity | None
    needed: Quantity | None
    why: str = ""

    def __str__(self) -> str:
        if self.needed is None:
            return f"{self.name}: {self.why or 'not in the amount asked for'}"
        return f"{self.name}: {self.left} left, {self.needed} needed"


def lacks(rules: Rules, request: Request, candidate: Candidate) -> Iterator[Lack]:
    """Capacity first, then counters; as things are before the claims in question get anything."""
    if rules.has_capacity:
        yield from _capacity(rules, request, candidate)
    if candidate.consumes and rules.features.partitionable_devices and not rules.is_shared(candidate.id):
        yield from _counters(rules, candidate)


def _capacity(rules: Rules, request: Request, candidate: Candidate) -> Iterator[Lack]:
    wanted, device = request.wish.capacity, candidate.device
    check = CapacityCheck(rules.profile)
    try:
        amounts = check.amounts(wanted, candidate.id.driver, device)
        if amounts is None:
            for name, why in check.not_had(wanted, candidate.id.driver, device):
                yield Lack(name, None, None, why)
            return
    except AllocationError as error:
        yield from (
            Lack(name, None, None, str(error))
            for name in sorted(wanted.requests if wanted is not None else ())
        )
        return
    used = rules.allocated.capacity.get(candidate.id, {})
    for name, needed in sorted(amounts.items()):
        left = device.capacity[name].value
        if name in used:
            left = left - used[name]
        if left < needed:
            yield Lack(name, left, needed)


def _counters(rules: Rules, candidate: Candidate) -> Iterator[Lack]:
    left = counters_left(candidate.pool, rules)
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
