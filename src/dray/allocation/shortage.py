"""Counting what the requests still to be served need, against what is there.

Every count is a relaxation: it leaves out rules, so that a shortage found here is one whatever is chosen. It ends at the
first request that could meet an error, for the search has to get there to report it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Final

from dray.allocation.budget import Spending
from dray.allocation.candidates import Candidate, Candidates
from dray.allocation.constraints import MISSING, Constraint, Distinct, Match, Value
from dray.allocation.counting import CounterRoom, Matching
from dray.allocation.demands import Want, Wants
from dray.allocation.faults import AllocationError
from dray.allocation.ledger import Ledger
from dray.allocation.packing import Packing
from dray.allocation.requests import PlannedClaim, Request
from dray.api.limits import MAX_ALLOCATION_RESULTS

Alternatives = tuple[Request, ...]
Groups = dict[Value, int]

_ALTERNATIVE: Final = 8
"""What it costs a budget to count what an alternative of a request lacks, at least."""
_SPLITS: Final = 64
"""Choices of values for open matchAttribute constraints that are looked at one by one."""


@dataclass(frozen=True, slots=True)
class _Prospect:
    """What a request could have if it were alone: bit sets of devices given whole and of those given in shares."""

    whole: int = 0
    shares: int = 0
    has_chance: bool = True
    is_safe: bool = True


@dataclass(frozen=True, slots=True)
class _Narrowed:
    """A constraint, and the devices it leaves; `values` are those of which matchAttribute may still choose one."""

    constraint: Constraint
    devices: int
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class _Missing:
    """So many devices given whole that a request, or one alternative of it, still needs."""

    request: Request
    devices: int
    number: int


class _Sum:
    """What several requests want, all together. `forced` are devices without which it does not go."""

    def __init__(self, budget: Spending) -> None:
        self._matching = Matching(budget)
        self.missing: list[list[_Missing]] = []
        self.forced = 0
        self.devices = 0
        self.number = 0
        self._results: dict[int, int] = {}

    def grow(self, claim: int, number: int) -> bool:
        """The claim gets so many results more; False where that is more than one may have."""
        self._results[claim] = self._results.get(claim, 0) + number
        return self._results[claim] <= MAX_ALLOCATION_RESULTS

    def add(self, missing: list[_Missing]) -> bool:
        """One of these more; False where there are too few devices."""
        devices = 0
        for one in missing:
            devices |= one.devices
        number = min(one.number for one in missing)
        self.devices |= devices
        self.number += number
        if len(missing) == 1 and missing[0].request.every is not None and devices.bit_count() == number:
            self.forced |= devices
        else:
            self.missing.append(missing)
        return self._matching.add(devices, number)


class Shortage:
    """For one search. Nothing is computed before the first question, and what does not change only once."""

    def __init__(
        self,
        plan: Sequence[PlannedClaim],
        candidates: Candidates,
        ledger: Ledger,
        constraints: Sequence[tuple[Constraint, ...]],
        budget: Spending,
    ) -> None:
        self._budget = budget
        self._open = [alternatives for claim in plan for alternatives in claim.requests]
        self._candidates = candidates
        self._ledger = ledger
        self._constraints = constraints
        self._prospects: dict[int, _Prospect] = {}
        self._meant: dict[int, tuple[Constraint, ...]] = {}
        self._groups: dict[int, Groups] = {}
        self._places = {(one[0].claim, one[0].index): n for n, one in enumerate(self._open)}
        self._certain: dict[int, bool] = {}
        # Less than no devices breaks the planner's count, so that a first claim may get too big, which is an error.
        self._is_off = any(one.count < 0 for alternatives in self._open for one in alternatives)

    def is_certain_from(self, claim: int) -> bool:
        """Whether a claim and those after it lack something even where nothing was chosen yet; picks do not count."""
        if self._is_off:
            return False
        if claim not in self._certain:
            place = bisect_left(self._open, claim, key=lambda one: one[0].claim)
            gone = self._room.gone(at_first=True)
            self._certain[claim] = self._lacks(
                self._wanted(place), _Sum(self._budget), gone, (), at_first=True
            )
        return self._certain[claim]

    def is_short(self, request: Request, number: int, start: int) -> bool:
        """Whether a request, from its `number`th device and the slot `start` on, and those after it want too much."""
        if self._is_off or not self._prospect(request).is_safe:
            return False
        fixed = self._fixed(request.claim)
        total = _Sum(self._budget)
        total.grow(request.claim, len(self._ledger.picks[request.claim]) + request.count - number)
        taken = self._ledger.taken | self._room.gone()
        if not request.is_admin:
            from_start = -1 << start
            shares, whole = self._left(request, taken, fixed)
            missing = request.count - number - (shares & from_start).bit_count()
            if missing > 0 and not total.add([_Missing(request, whole & from_start, missing)]):
                return True
        rest = self._wanted(self._places[request.claim, request.index] + 1)
        return self._lacks(rest, total, taken, fixed)

    def is_over(self, request: Request) -> bool:
        """Whether the claim would get too many devices even with the smallest alternatives from here on."""
        if self._is_off or not self._prospect(request).is_safe:
            return False
        total = len(self._ledger.picks[request.claim]) + request.count
        for alternatives in self._wanted(self._places[request.claim, request.index] + 1):
            if total > MAX_ALLOCATION_RESULTS or alternatives[0].claim != request.claim:
                break
            total += min(one.count for one in alternatives)
        return total > MAX_ALLOCATION_RESULTS

    def _wanted(self, place: int) -> Iterator[Alternatives]:
        """What is to be served from there on, up to where an error could come up."""
        for alternatives in self._open[place:]:
            self._budget.charge(_ALTERNATIVE * len(alternatives))
            if not all(self._prospect(one).is_safe for one in alternatives):
                return
            yield alternatives

    def _lacks(
        self,
        wanted: Iterator[Alternatives],
        total: _Sum,
        taken: int,
        fixed: Sequence[_Narrowed],
        *,
        at_first: bool = False,
    ) -> bool:
        for alternatives in wanted:
            possible = [one for one in alternatives if self._prospect(one).has_chance]
            if not possible:
                return True
            if not total.grow(possible[0].claim, min(one.count for one in possible)):
                return True
            if any(one.is_admin for one in possible):
                continue
            missing = []
            for one in possible:
                shares, whole = self._left(one, taken, fixed)
                missing.append(_Missing(one, whole, one.count - shares.bit_count()))
            if all(one.number > 0 for one in missing) and not total.add(missing):
                return True
        return self._lacks_counters(total, fixed, at_first=at_first)

    def _lacks_counters(self, total: _Sum, fixed: Sequence[_Narrowed], *, at_first: bool) -> bool:
        """Whether the counters have too little for all of it, whichever values open constraints get."""
        if not self._has_counters or not total.devices & (packing := self._packing).counted:
            return False
        if not any(
            packing.is_possible(wanted, total.forced, at_first=at_first)
            for wanted in self._splits(total.missing, fixed)
        ):
            return True
        if not packing.is_loose:
            return False
        return total.number > total.devices.bit_count() - self._room.lost(total.devices, at_first=at_first)

    def _splits(
        self, missing: Sequence[Sequence[_Missing]], fixed: Sequence[_Narrowed]
    ) -> Iterator[list[Wants]]:
        """What is wanted, once for each choice of values for matchAttribute constraints that have none yet."""
        narrowed = {id(one.constraint): one.values for one in fixed}
        meant = {id(one): one for group in missing for want in group for one in self._meant_by(want.request)}
        open_: list[tuple[int, list[int]]] = []
        choices = 1
        for key, one in meant.items():
            if isinstance(one, Match):
                known = self._groups_of(one)
                values = narrowed.get(key, tuple(value for value in known if value != MISSING))
                groups = [known.get(value, 0) for value in values]
                if choices * len(groups) <= _SPLITS:
                    choices *= len(groups)
                    open_.append((key, groups))
        for chosen in product(*(groups for _, groups in open_)):
            self._budget.charge(len(missing))
            left = dict(zip((key for key, _ in open_), chosen, strict=True))
            yield [tuple([self._narrowed(want, left) for want in group]) for group in missing]

    def _narrowed(self, missing: _Missing, left: Mapping[int, int]) -> Want:
        devices, apart = missing.devices, []
        for one in self._meant_by(missing.request):
            devices &= left.get(id(one), -1)
            if id(one) in self._packing.constraints:
                apart.append(id(one))
        return Want(devices, missing.number, frozenset(apart))

    @cached_property
    def _has_counters(self) -> bool:
        return any(one.consumes for one in self._candidates.devices)

    @cached_property
    def _packing(self) -> Packing:
        apart = [one for some in self._constraints for one in some if type(one) is Distinct]
        return Packing(self._candidates.devices, self._ledger, apart, self._budget)

    @cached_property
    def _room(self) -> CounterRoom:
        return CounterRoom(self._candidates.devices, self._ledger, self._budget)

    def _left(self, request: Request, taken: int, fixed: Sequence[_Narrowed]) -> tuple[int, int]:
        """The devices that the request may still have, in shares and whole."""
        prospect = self._prospect(request)
        left = ~taken
        if fixed:
            meant = self._meant_by(request)
            for one in fixed:
                if one.constraint in meant:
                    left &= one.devices
        return prospect.shares & left, prospect.whole & left

    def _fixed(self, claim: int) -> list[_Narrowed]:
        """What the claim's constraints leave, as they stand."""
        found = []
        for one in self._constraints[claim]:
            state, groups = one.state(), self._groups_of(one)
            if isinstance(one, Match) and isinstance(state, tuple):
                values = one.elements(state)
                found.append(_Narrowed(one, _union(groups, values), values))
            elif type(one) is Distinct and isinstance(state, frozenset):
                taken = [value for some in state for value in one.elements(some)]
                found.append(_Narrowed(one, ~_union(groups, taken)))
        return found

    def _groups_of(self, constraint: Constraint) -> Groups:
        """The devices by their values."""
        known = self._groups.get(id(constraint))
        if known is None:
            known = self._groups[id(constraint)] = {}
            self._budget.charge(len(self._candidates.devices))
            for candidate in self._candidates.devices:
                for value in constraint.elements(constraint.value(candidate)):
                    known[value] = known.get(value, 0) | 1 << candidate.slot
        return known

    def _meant_by(self, request: Request) -> tuple[Constraint, ...]:
        known = self._meant.get(request.ordinal)
        if known is None:
            of_claim = self._constraints[request.claim]
            known = self._meant[request.ordinal] = tuple(one for one in of_claim if one.applies(request))
        return known

    def _prospect(self, request: Request) -> _Prospect:
        known = self._prospects.get(request.ordinal)
        if known is None:
            known = self._prospects[request.ordinal] = self._look(request)
        return known

    def _look(self, request: Request) -> _Prospect:
        meant = self._meant_by(request)
        is_fatal = request.every is not None and bool(meant) and self._ledger.has_fatal_constraints
        if is_fatal:
            return _Prospect(is_safe=False)
        try:
            found = [one for one in self._asked_for(request) if self._could_have(request, one, meant)]
        except AllocationError:
            return _Prospect(is_safe=False)
        whole = sum(1 << one.slot for one in found if not one.is_shareable) & ~self._room.gone(at_first=True)
        shares = sum(1 << one.slot for one in found if one.is_shareable)
        is_empty = request.every is not None and not request.every
        most = min(
            self._most_together(whole | shares, meant),
            (whole | shares).bit_count() - self._room.lost(whole, at_first=True),
        )
        has_chance = not is_empty and most >= request.count
        return _Prospect(whole, shares, has_chance)

    def _asked_for(self, request: Request) -> Iterator[Candidate]:
        """The devices that its selectors accept; raises where one has no answer for a device the search may come to."""
        if request.every is not None:
            yield from request.every
            return
        self._budget.charge(len(self._candidates.devices))
        for candidate in self._candidates.devices:
            accepted = self._candidates.peek(request, candidate.slot)
            if accepted is None:
                raise AllocationError(f"{request.place}: a selector fails on {candidate.id}")
            if accepted:
                yield candidate

    def _could_have(self, request: Request, candidate: Candidate, meant: Sequence[Constraint]) -> bool:
        self._budget.charge(1 + len(meant))
        fits = self._ledger.could_ever_have(request, candidate)
        return fits and all(one.value(candidate) != MISSING for one in meant)

    def _most_together(self, devices: int, meant: Sequence[Constraint]) -> int:
        """How many of the devices can be had together, as far as constraints tell."""
        most = devices.bit_count()
        for one in meant:
            sizes = [(group & devices).bit_count() for group in self._groups_of(one).values()]
            self._budget.charge(len(sizes))
            if isinstance(one, Match):
                most = min(most, max(sizes, default=0))
            elif type(one) is Distinct:
                most = min(most, sum(1 for size in sizes if size))
        return most


def _union(groups: Groups, values: Iterable[Value]) -> int:
    found = 0
    for value in values:
        found |= groups.get(value, 0)
    return found
