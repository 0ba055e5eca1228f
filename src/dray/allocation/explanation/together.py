"""Where every request finds enough devices alone: what keeps them from going together, as far as counting can prove it.

Each count is a bound that no choice of devices can pass, so what is told is true; what cannot be counted is not told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dray.allocation.allocator import Call
from dray.allocation.candidates import Candidate, CounterKey
from dray.allocation.constraints import UNKNOWN, Constraint, Distinct, Match
from dray.allocation.counters import counters_left
from dray.allocation.features import Tier
from dray.allocation.requests import PlannedClaim, Request, claim_name
from dray.allocation.state import Rules


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One request: the fewest devices that any alternative wants, and all that are left for some alternative."""

    alternatives: tuple[Request, ...]
    needed: int
    left: Mapping[int, Candidate]

    @property
    def name(self) -> str:
        return self.alternatives[0].base_name


def obstacles(call: Call, rules: Rules, left: Mapping[int, Sequence[Candidate]]) -> tuple[str, ...]:
    """`left` are the devices by the request's ordinal. () where a request is short by itself, or nothing is proved."""
    by_claim: list[tuple[PlannedClaim, list[_Wanted]]] = []
    for planned in call.plan:
        found = [_wanted(alternatives, left) for alternatives in planned.requests]
        if any(one is None for one in found):
            return ()
        by_claim.append((planned, [one for one in found if one is not None]))
    every = [one for _, many in by_claim for one in many]
    told = [text for planned, many in by_claim for text in _constraints(planned, many, rules)]
    if not any(request.is_admin for one in every for request in one.alternatives):
        told += [*_same_devices(every), *_counters(every, rules)]
    return tuple(told)


def _wanted(alternatives: tuple[Request, ...], left: Mapping[int, Sequence[Candidate]]) -> _Wanted | None:
    able = [one for one in alternatives if len(left.get(one.ordinal, ())) >= max(one.count, 1)]
    if not able:
        return None
    devices = {candidate.slot: candidate for one in able for candidate in left[one.ordinal]}
    return _Wanted(tuple(able), min(one.count for one in able), devices)


def _all_left(wanted: Iterable[_Wanted]) -> dict[int, Candidate]:
    return {slot: candidate for one in wanted for slot, candidate in one.left.items()}


def _constraints(planned: PlannedClaim, wanted: Sequence[_Wanted], rules: Rules) -> Iterator[str]:
    lists, profile = rules.features.list_type_attributes, rules.profile
    for one in planned.claim.spec.devices.constraints:
        name = claim_name(planned.claim)
        hides = one.match_attribute is not None and profile.match_hides_distinct
        if one.match_attribute is not None:
            match = Match(one.requests, one.match_attribute, lists=lists)
            if text := _match(match, _meant(match, wanted)):
                yield f"matchAttribute {one.match_attribute} of claim {name}: {text}"
        if one.distinct_attribute is None or hides or rules.tier is Tier.STABLE:
            continue
        distinct = Distinct(one.requests, one.distinct_attribute, lists=lists)
        if not profile.distinct_by_request and (text := _distinct(distinct, _meant(distinct, wanted))):
            yield f"distinctAttribute {one.distinct_attribute} of claim {name}: {text}"


def _meant(constraint: Constraint, wanted: Iterable[_Wanted]) -> list[_Wanted]:
    """The requests that the constraint is for, whichever alternative is taken."""
    return [one for one in wanted if all(map(constraint.applies, one.alternatives))]


def _match(constraint: Constraint, wanted: Sequence[_Wanted]) -> str:
    devices, needed = _all_left(wanted), sum(one.needed for one in wanted)
    shareable = {slot for slot, candidate in devices.items() if candidate.is_shareable}
    having: dict[Any, set[int]] = {}
    for slot, candidate in devices.items():
        for value in _values(constraint, candidate):
            having.setdefault(value, set()).add(slot)

    def serves(slots: set[int], number: int) -> bool:
        """A device that can be shared may be given many times."""
        return len(slots) >= number or not slots.isdisjoint(shareable)

    if not wanted or any(
        serves(slots, needed) and all(serves(slots & one.left.keys(), one.needed) for one in wanted)
        for slots in having.values()
    ):
        return ""
    most = max(map(len, having.values()), default=0)
    if most < needed and not shareable:
        return f"no more than {most} of {len(devices)} devices left have the same value, {needed} are wanted"
    return "no value has enough devices for each request"


def _distinct(constraint: Constraint, wanted: Sequence[_Wanted]) -> str:
    devices, needed = _all_left(wanted), sum(one.needed for one in wanted)
    values = {value for candidate in devices.values() for value in _values(constraint, candidate)}
    if len(values) >= needed:
        return ""
    return f"{len(devices)} devices left have {len(values)} values, {needed} devices with values of their own are wanted"


def _values(constraint: Constraint, candidate: Candidate) -> Iterator[Any]:
    """One by one; a value of no known kind is like no other. A device without one was taken out by the constraint before."""
    kind, value = found = constraint.value(candidate)
    if found == UNKNOWN:
        yield kind, candidate.slot
    elif isinstance(value, frozenset):
        yield from ((kind, one) for one in value)
    else:
        yield found


def _same_devices(wanted: Sequence[_Wanted]) -> Iterator[str]:
    """Requests that have too few devices between them."""
    for slots in {frozenset(one.left): None for one in wanted}:
        rivals = [one for one in wanted if slots.issuperset(one.left)]
        needed = sum(one.needed for one in rivals)
        if needed > len(slots) and not any(one.is_shareable for one in _all_left(rivals).values()):
            names = ", ".join(one.name for one in rivals)
            yield f"requests {names}: {needed} devices are wanted, {len(slots)} left for them together"


def _counters(wanted: Sequence[_Wanted], rules: Rules) -> Iterator[str]:
    """The requests one by one; where none of them is too many, all together."""
    told = [text for one in wanted if (text := _too_many([one], rules))]
    if not told and len(wanted) > 1 and (text := _too_many(wanted, rules)):
        told = [text]
    yield from told


def _too_many(wanted: Sequence[_Wanted], rules: Rules) -> str:
    devices, needed = _all_left(wanted), sum(one.needed for one in wanted)
    if any(one.is_shareable for one in devices.values()):
        return ""
    sets: dict[tuple[Any, str], list[Candidate]] = {}
    most, tight = 0, set[str]()
    for candidate in devices.values():
        if candidate.consumes:
            sets.setdefault((candidate.pool.id, candidate.consumes[0][0][0]), []).append(candidate)
        else:
            most += 1
    for (_, name), group in sets.items():
        room = _room(group, name, rules)
        most += room
        if room < len(group):
            tight.add(name)
    if most >= needed or not tight:
        return ""
    return f"counters {', '.join(sorted(tight))}: no more than {most} of {len(devices)} devices left go together, {needed} are wanted"


def _room(group: Sequence[Candidate], name: str, rules: Rules) -> int:
    """How many devices a counter set has room for at most: for each counter, the least hungry ones."""
    left = counters_left(group[0].pool, rules)
    used = [Counter(dict(one.consumes)) for one in group]
    keys: set[CounterKey] = {key for one in used for key in one if key[0] == name}
    room = len(group)
    for key in keys:
        rest, fitting = left[key], 0
        for amount in sorted(one[key] for one in used):
            rest -= amount
            fitting += rest >= 0
        room = min(room, fitting)
    return room
