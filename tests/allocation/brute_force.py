"""The first fit by trying every assignment and checking it as a whole: slow, and with nothing in common with the search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, combinations, product
from math import comb, prod

from dray.allocation.allocator import Call
from dray.allocation.candidates import Candidate
from dray.allocation.capacity import CapacityCheck
from dray.allocation.constraints import attribute_of, scalar, value_set
from dray.allocation.requests import Request
from dray.allocation.state import Rules
from dray.api.resource.claim import DeviceConstraint, ResourceClaim
from dray.api.taints import untolerated

Assignment = list[tuple[Request, Candidate]]


def first_fit(call: Call, rules: Rules, most: int) -> Assignment | None:
    """The first valid assignment in the order of the search. Raises OverflowError where there are too many to try."""
    groups = [alternatives for planned in call.plan for alternatives in planned.requests]
    if prod(sum(_size(call, one) for one in alternatives) for alternatives in groups) > most:
        raise OverflowError
    for chosen in product(*(list(chain(*(_options(call, one) for one in group))) for group in groups)):
        assignment = list(chain(*chosen))
        if is_valid(call, rules, assignment):
            return assignment
    return None


def _matching(call: Call, request: Request) -> list[Candidate]:
    return [one for one in call.candidates.devices if call.candidates.matches(request, one)]


def _size(call: Call, request: Request) -> int:
    return 1 if request.every is not None else comb(len(_matching(call, request)), request.count)


def _options(call: Call, request: Request) -> Iterator[Assignment]:
    if request.every is not None:
        if request.every:
            yield [(request, one) for one in request.every]
        return
    for some in combinations(_matching(call, request), request.count):
        yield [(request, one) for one in some]


def is_valid(call: Call, rules: Rules, assignment: Assignment) -> bool:
    """Whether all promises hold: no device twice, nothing exceeded, every constraint kept."""
    return (
        _are_free(rules, assignment)
        and _are_tolerated(rules, assignment)
        and _counters_suffice(rules, assignment)
        and _capacity_suffices(rules, assignment)
        and all(
            _keeps(constraint, rules, [pick for pick in assignment if pick[0].claim == number])
            for number, planned in enumerate(call.plan)
            for constraint in _constraints(planned.claim)
        )
    )


def _constraints(claim: ResourceClaim) -> Sequence[DeviceConstraint]:
    return claim.spec.devices.constraints


def _are_free(rules: Rules, assignment: Assignment) -> bool:
    """An earlier pick keeps a device from later ones; admin access only minds picks of its own claim."""
    taken: list[tuple[int, int]] = []
    for request, candidate in assignment:
        before = [claim for claim, slot in taken if slot == candidate.slot]
        if request.is_admin:
            if request.claim in before:
                return False
        elif before or candidate.id in rules.allocated.devices:
            return False
        if not candidate.is_shareable:
            taken.append((request.claim, candidate.slot))
    return True


def _are_tolerated(rules: Rules, assignment: Assignment) -> bool:
    if not rules.features.device_taints:
        return True
    return not any(
        untolerated(candidate.device.taints, request.wish.tolerations) for request, candidate in assignment
    )


def _counters_suffice(rules: Rules, assignment: Assignment) -> bool:
    consuming = [candidate for _, candidate in assignment if candidate.consumes]
    if consuming and not rules.features.partitionable_devices:
        return False
    in_use = rules.allocated.devices | rules.allocated.shared_devices() | set(rules.allocated.capacity)
    shared = rules.allocated.shared_devices() | set(rules.allocated.capacity)
    for pool in {id(one.pool): one.pool for one in consuming}.values():
        wanted: Counter[tuple[str, str]] = Counter()
        charged = set()
        for one in consuming:
            if one.pool is pool and not (one.is_shareable and (one.id in shared or one.slot in charged)):
                charged.add(one.slot)
                for key, amount in one.consumes:
                    wanted[key] += amount
        left = Counter(pool.counters)
        for piece in (*pool.slices, *pool.elsewhere):
            for device in piece.spec.devices or ():
                if (pool.id.driver, pool.id.pool, device.name) in in_use:
                    for consumption in device.consumes_counters:
                        for name, counter in consumption.counters.items():
                            left[consumption.counter_set, name] -= counter.value.nano
        if any(amount > left[key] for key, amount in wanted.items()):
            return False
    return True


def _capacity_suffices(rules: Rules, assignment: Assignment) -> bool:
    if not rules.features.consumable_capacity:
        return True
    check = CapacityCheck(rules.profile)
    used: Counter[tuple[int, str]] = Counter()
    for request, candidate in assignment:
        amounts = check.amounts(request.wish.capacity, candidate.id.driver, candidate.device)
        if amounts is None:
            return False
        for name, amount in amounts.items():
            before = rules.allocated.capacity.get(candidate.id, {}).get(name)
            shared = used[candidate.slot, name] + (before.nano if before is not None else 0)
            if shared + amount.nano > candidate.device.capacity[name].value.nano:
                return False
            if candidate.is_shareable:
                used[candidate.slot, name] += amount.nano
    return True


def _keeps(constraint: DeviceConstraint, rules: Rules, picks: Assignment) -> bool:
    names = set(constraint.requests)
    meant = [one for request, one in picks if not names or names & {request.base_name, request.full_name}]
    lists = rules.features.list_type_attributes
    for name, is_match in ((constraint.match_attribute, True), (constraint.distinct_attribute, False)):
        if name is None:
            continue
        read = value_set if lists else scalar
        values = [read(attribute_of(one, name)) for one in meant]
        if any(kind == "missing" for kind, _ in values):
            return False
        # Without the gate a list is no value. Kubernetes (1.37 too) lets the first device of a distinctAttribute have one.
        unread = values if lists or (is_match and len(values) > 1) else values[1:]
        if any(kind == "unknown" for kind, _ in unread):
            return False
        if (
            lists
            and is_match
            and values
            and not _have_one_in_common([set(v) for _, v in values], {k for k, _ in values})
        ):
            return False
        if lists and not is_match and any(a[0] == b[0] and a[1] & b[1] for a, b in combinations(values, 2)):
            return False
        if not lists and any((a == b) is not is_match for a, b in combinations(values, 2)):
            return False
    return True


def _have_one_in_common(values: list[set[object]], kinds: set[str]) -> bool:
    return len(kinds) == 1 and bool(set.intersection(*values))
