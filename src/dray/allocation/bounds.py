"""What the search may leave out without changing its answer.

Where the open requests together cannot be served whatever is chosen, nothing more is tried (`shortage.py`). A request
that needs n more devices fails at once where fewer than n are left that its selectors and the constraints, as they
stand, could accept. Of devices that no request still to be served can tell apart only the first is tried: had another
led to a fit, so would that one. And a request that led nowhere is not begun again in a state that is the same but for
which of such devices are taken.

They look at selectors the search may not have reached; a device on which one fails counts as acceptable and as unlike
any other, so that the error comes up when, and only when, Kubernetes would meet it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property

from dray.allocation.budget import Spending
from dray.allocation.candidates import Candidate, Candidates
from dray.allocation.constraints import Constraint
from dray.allocation.faults import AllocationError
from dray.allocation.ledger import Ledger
from dray.allocation.requests import PlannedClaim, Request
from dray.allocation.shortage import Shortage
from dray.allocation.state import Rules


class Bounds:
    """For one search. Nothing is computed before the first question."""

    def __init__(
        self,
        plan: Sequence[PlannedClaim],
        candidates: Candidates,
        ledger: Ledger,
        constraints: Sequence[tuple[Constraint, ...]],
        rules: Rules,
        budget: Spending,
    ) -> None:
        self.budget = budget
        self._plan = plan
        self._candidates = candidates
        self._ledger = ledger
        self._constraints = constraints
        self._rules = rules
        self._kinds: dict[tuple[int, int], list[int]] = {}
        self._is_allowed: dict[int, bool] = {}
        self.failed: set[Hashable] = set()

    @cached_property
    def _requests(self) -> list[Request]:
        return [one for claim in self._plan for requests in claim.requests for one in requests]

    @cached_property
    def _shortage(self) -> Shortage:
        return Shortage(self._plan, self._candidates, self._ledger, self._constraints, self.budget)

    def is_allowed(self, claim: int) -> bool:
        """Whether steps of this claim and those after it may be left out.

        Constraints that remember what was undone make every step count, also those that lead nowhere; not so in claims
        that have no chance anyway.
        """
        asked = []
        while (allowed := self._is_allowed.get(claim)) is None:
            asked.append(claim)
            if claim >= len(self._plan) or self.is_hopeless_from(claim):
                allowed = True
                break
            if not self._is_clean(claim):
                allowed = False
                break
            claim += 1
        self._is_allowed.update(dict.fromkeys(asked, allowed))
        return allowed

    def _is_clean(self, claim: int) -> bool:
        constraints = self._constraints[claim]
        if not constraints:
            return True
        requests = [one for alternatives in self._plan[claim].requests for one in alternatives]
        self.budget.charge(len(constraints) * (len(self._candidates.devices) + len(requests)))
        return all(one.is_clean(requests, self._candidates.devices) for one in constraints)

    @property
    def is_hopeless(self) -> bool:
        """Whether no full solution exists and no error is on the way to finding that out."""
        return self.is_hopeless_from(0)

    def is_hopeless_from(self, claim: int) -> bool:
        """The same for a claim and those after it, whatever is chosen before."""
        return self._shortage.is_certain_from(claim)

    def is_short(self, request: Request, number: int, start: int) -> bool:
        """Whether the request's `number`th device and all that is open after it cannot be had, and no error is on the way."""
        return self._shortage.is_short(request, number, start)

    def is_over(self, request: Request) -> bool:
        """Whether beginning with the request leads to more devices than a result may hold, with no error on the way."""
        return self._shortage.is_over(request)

    def mark(self, claim: int, index: int) -> Hashable:
        """The state in which a request is begun; `failed` holds those that lead nowhere."""
        self.budget.charge(self._ledger.taken.bit_count())
        return claim, index, self._ledger.state(claim, self.kinds(claim, index))

    def may_fit(self, request: Request, number: int, start: int) -> bool:
        """Whether enough devices from `start` on could be the request's `number`th and all after it.

        Where a selector or a capacity has no answer it says yes: that error is still to come.
        """
        try:
            return self._count(request, number, start)
        except AllocationError:
            return True

    def _count(self, request: Request, number: int, start: int) -> bool:
        needed = request.count - number
        blocked = self._ledger.blocked(request)
        devices = self._candidates.devices
        for slot in range(start, len(devices)):
            self.budget.charge()
            if blocked >> slot & 1:
                continue
            accepted = self._candidates.peek(request, slot)
            if accepted is None:
                return True
            if accepted and self._could_have(request, devices[slot]):
                needed -= 1
                if not needed:
                    return True
        return False

    def _could_have(self, request: Request, candidate: Candidate) -> bool:
        # Amounts first, as in the search: where they make no sense, that is the answer.
        ledger = self._ledger
        return (
            ledger.fits_capacity(request, candidate)
            and ledger.allows(request, candidate)
            and not ledger.is_tainted(request, candidate)
        )

    def is_like(self, request: Request, slot: int, tried: set[int]) -> bool:
        """Whether a device of the same kind was tried at this place, and neither is part of the picks so far."""
        if not tried or self._ledger.is_touched(slot):
            return False
        return self.kinds(request.claim, request.index)[slot] in tried

    def kinds(self, claim: int, index: int) -> Sequence[int]:
        """For each device a number that those share which no request from this one on can tell apart.

        It is -1 for devices that none of these requests can have.
        """
        known = self._kinds.setdefault((claim, index), [])
        if not known:
            self.budget.charge(len(self._requests))
            requests = [one for one in self._requests if (one.claim, one.index) >= (claim, index)]
            constraints = [one for of_claim in self._constraints[claim:] for one in of_claim]
            ordered = [one for one in requests if self._is_ordered(one)]
            numbers: dict[Hashable, int] = {None: -1}
            for candidate in self._candidates.devices:
                self.budget.charge(1 + len(requests) + len(constraints))
                is_single = any(self._candidates.peek(one, candidate.slot) for one in ordered)
                look = candidate.slot if is_single else self._look(candidate, requests, constraints)
                known.append(numbers.setdefault(look, len(numbers)))
        return known

    def _is_ordered(self, request: Request) -> bool:
        """Whether the order of the request's devices decides between not fitting and an error."""
        if request.every is None or not self._ledger.has_fatal_constraints:
            return False
        return any(one.applies(request) for one in self._constraints[request.claim])

    def _look(
        self, candidate: Candidate, requests: Sequence[Request], constraints: Sequence[Constraint]
    ) -> Hashable:
        accepted = tuple(self._candidates.peek(one, candidate.slot) for one in requests)
        if None in accepted:
            return candidate.slot
        if True not in accepted:
            return None
        device = candidate.device
        used = self._rules.allocated.capacity.get(candidate.id)
        return (
            accepted,
            tuple(one.value(candidate) for one in constraints),
            tuple((taint.key, taint.value, taint.effect) for taint in device.taints),
            candidate.consumes,
            candidate.pool.id if device.consumes_counters else None,
            tuple(sorted(device.capacity.items(), key=lambda item: item[0])),
            candidate.id.driver if device.capacity else None,
            candidate.is_shareable,
            candidate.id in self._rules.allocated.devices,
            candidate.id in self._rules.shared,
            None if used is None else tuple(sorted(used.items())),
        )
