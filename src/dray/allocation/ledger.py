"""Everything tentative in one search: who takes which device, and how to take it back."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dray.allocation.candidates import Candidate, CounterKey
from dray.allocation.capacity import Amounts, CapacityCheck, fits
from dray.allocation.constraints import Constraint
from dray.allocation.counters import Counters, counters_left
from dray.allocation.faults import AllocationError
from dray.allocation.pools import Pool
from dray.allocation.requests import Request
from dray.allocation.state import Rules
from dray.api.taints import untolerated
from dray.semantics.pools import PoolID


@dataclass(frozen=True, slots=True)
class Pick:
    """One device for one request. `amounts` is None for a device that is given whole."""

    request: Request
    candidate: Candidate
    amounts: Amounts | None
    has_counters: bool


def bits(number: int) -> Iterator[int]:
    """The numbers of the bits that are set, lowest first."""
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


class Ledger:
    """The picks so far of every claim. `commit` and `rollback` come in pairs, last in first out."""

    def __init__(
        self,
        rules: Rules,
        devices: Sequence[Candidate],
        constraints: Sequence[tuple[Constraint, ...]],
    ) -> None:
        self._rules = rules
        self._capacity = CapacityCheck(rules.profile)
        self._known_amounts: dict[tuple[int, int], Amounts | None] = {}
        self._constraints = constraints
        self._counters = Counters(rules)
        self.picks: list[list[Pick]] = [[] for _ in constraints]
        # Bit n stands for slot n. Devices given to a claim stay out of the others' reach, admin access aside.
        held = rules.allocated.devices
        self._in_use = sum(1 << one.slot for one in devices if one.id in held) if held else 0
        self._taken = 0
        self._taken_by: list[int] = [0] * len(constraints)
        self._shares: dict[int, int] = {}
        self._sharing: dict[int, dict[str, int]] = {}

    def blocked(self, request: Request) -> int:
        """The slots the request cannot have because they are in use: a bit set."""
        return self._taken_by[request.claim] if request.is_admin else self._in_use | self._taken

    @property
    def taken(self) -> int:
        """The slots that picks of this search keep from requests without admin access: a bit set."""
        return self._taken

    def is_touched(self, slot: int) -> bool:
        """Whether any pick of this search concerns the device."""
        return bool(self._taken >> slot & 1) or slot in self._shares

    def state(self, claim: int, kinds: Sequence[int]) -> Hashable:
        """All that decides how the search goes on from the next request of a claim, but for which devices they are.

        `kinds` numbers the devices so that those with one number are alike from there on, and gives -1 to those
        that do not matter any more. Equal states end alike.
        """
        touched = []
        for slot in {*bits(self._taken), *self._shares}:
            if kinds[slot] >= 0:
                is_own = self._taken_by[claim] >> slot & 1
                sharing = tuple(sorted(self._sharing.get(slot, {}).items()))
                touched.append((kinds[slot], is_own, self._shares.get(slot, 0), sharing))
        touched.sort()
        constraints = tuple(one.state() for one in self._constraints[claim])
        return len(self.picks[claim]), constraints, self._counters.state(), tuple(touched)

    def fits_capacity(self, request: Request, candidate: Candidate) -> bool:
        """Whether the request's amounts are left on the device. For devices given whole it is a mere filter.

        Where amounts cannot be worked with, this raises in profiles that check them.
        """
        if not self._rules.has_capacity:
            return True
        return self._amounts_that_fit(request, candidate) is not None

    def fits_empty(self, request: Request, candidate: Candidate) -> bool:
        """Whether the device would serve the request if nobody used it."""
        amounts = self._amounts(request, candidate)
        return amounts is not None and fits(amounts, candidate.device, {})

    @property
    def has_fatal_constraints(self) -> bool:
        """Whether a constraint against a device of an `All` request is an error."""
        return self._rules.profile.all_constraint_fatal

    def could_ever_have(self, request: Request, candidate: Candidate) -> bool:
        """Whether the request could have the device if there were no other picks. Raises where amounts make no sense."""
        if not request.is_admin and self._in_use >> candidate.slot & 1:
            return False
        if candidate.device.consumes_counters and not self._rules.features.partitionable_devices:
            return False
        # Amounts come before taints as they do in the search: where they make no sense, that is the answer.
        amounts = self._amounts(request, candidate) if self._rules.has_capacity else {}
        if amounts is None or self.is_tainted(request, candidate):
            return False
        if not self._rules.has_capacity:
            return True
        # Negative amounts make room for others, so only without them what is used now is the least that ever will be.
        if self._rules.profile.capacity_unchecked:
            return True
        return fits(amounts, candidate.device, self._used_before(candidate))

    def commit(self, request: Request, candidate: Candidate) -> bool:
        """Give the device to the request unless a check forbids it. An `All` request may raise where one does."""
        if self.blocked(request) >> candidate.slot & 1:
            return False
        if candidate.device.consumes_counters and not self._rules.features.partitionable_devices:
            return False
        charges = bool(candidate.device.consumes_counters) and not self._is_shared(candidate)
        if charges and not self._counters.take(candidate):
            return False
        if self.is_tainted(request, candidate) or not self._constrain(request, candidate):
            if charges:
                self._counters.give_back(candidate)
            return False
        amounts = self._amounts_at_commit(request, candidate)
        if amounts is None:
            self._relax(request, len(self._constraints[request.claim]))
            if charges:
                self._counters.give_back(candidate)
            return False
        self._record(request, candidate, amounts, charges)
        return True

    def rollback(self, claim: int) -> None:
        """Take back the claim's last pick."""
        pick = self.picks[claim].pop()
        slot = pick.candidate.slot
        if pick.amounts is not None:
            self._unshare(slot, pick.amounts)
        else:
            self._taken_by[claim] &= ~(1 << slot)
            if not any(taken >> slot & 1 for taken in self._taken_by):
                self._taken &= ~(1 << slot)
        self._relax(pick.request, len(self._constraints[claim]))
        if pick.has_counters:
            self._counters.give_back(pick.candidate)

    def allows(self, request: Request, candidate: Candidate) -> bool:
        """Whether the claim's constraints would take the device now."""
        return all(one.allows(request, candidate) for one in self._constraints[request.claim])

    def is_tainted(self, request: Request, candidate: Candidate) -> bool:
        """Whether a taint that the request does not tolerate keeps the device away."""
        taints = candidate.device.taints
        return (
            bool(taints)
            and self._rules.features.device_taints
            and bool(untolerated(taints, request.wish.tolerations))
        )

    def has_counters_left(self, candidate: Candidate) -> bool:
        """Whether the device's counters could be taken now."""
        if not candidate.device.consumes_counters or self._is_shared(candidate):
            return True
        if not self._rules.features.partitionable_devices or not self._counters.take(candidate):
            return False
        self._counters.give_back(candidate)
        return True

    def counters_at_first(self, pool: Pool) -> Mapping[CounterKey, int]:
        """What was left of the pool's counters before the first pick."""
        return counters_left(pool, self._rules)

    def counters_taken(self) -> Mapping[tuple[PoolID, CounterKey], int]:
        """What the picks so far took of the counters."""
        return self._counters.taken()

    def _is_shared(self, candidate: Candidate) -> bool:
        """Whether some share of the device exists, so that its counters are charged already."""
        return candidate.is_shareable and (
            candidate.slot in self._shares or self._rules.is_shared(candidate.id)
        )

    def _constrain(self, request: Request, candidate: Candidate) -> bool:
        for number, one in enumerate(self._constraints[request.claim]):
            if not one.add(request, candidate):
                self._relax(request, number)
                if request.every is not None and self._rules.profile.all_constraint_fatal:
                    raise AllocationError(
                        f"{request.place}: cannot add device {candidate.id} "
                        "because a claim constraint would not be satisfied"
                    )
                return False
        return True

    def _relax(self, request: Request, added: int) -> None:
        for one in reversed(self._constraints[request.claim][:added]):
            one.remove(request)

    def _amounts(self, request: Request, candidate: Candidate) -> Amounts | None:
        """What the request would take of the device, worked out once."""
        key = (request.ordinal, candidate.slot)
        try:
            return self._known_amounts[key]
        except KeyError:
            amounts = self._known_amounts[key] = self._new_amounts(request, candidate)
            return amounts

    def _new_amounts(self, request: Request, candidate: Candidate) -> Amounts | None:
        try:
            return self._capacity.amounts(request.wish.capacity, candidate.id.driver, candidate.device)
        except AllocationError as error:
            raise AllocationError(
                f"{request.place}: checking capacity for device {candidate.id}: {error}"
            ) from None

    def _amounts_that_fit(self, request: Request, candidate: Candidate) -> Amounts | None:
        amounts = self._amounts(request, candidate)
        if amounts is None or not fits(amounts, candidate.device, self._used(candidate)):
            return None
        return amounts

    def _amounts_at_commit(self, request: Request, candidate: Candidate) -> Amounts | None:
        if not self._rules.has_capacity:
            return {}
        return self._amounts_that_fit(request, candidate)

    def _used(self, candidate: Candidate) -> dict[str, int]:
        used = {
            name: amount.nano for name, amount in self._rules.allocated.capacity.get(candidate.id, {}).items()
        }
        for name, amount in self._sharing.get(candidate.slot, {}).items():
            used[name] = used.get(name, 0) + amount
        return used

    def _used_before(self, candidate: Candidate) -> dict[str, int]:
        before = self._rules.allocated.capacity.get(candidate.id, {})
        return {name: amount.nano for name, amount in before.items()}

    def _record(self, request: Request, candidate: Candidate, amounts: Amounts, charges: bool) -> None:
        slot = candidate.slot
        if candidate.is_shareable:
            self._shares[slot] = self._shares.get(slot, 0) + 1
            sharing = self._sharing.setdefault(slot, {})
            for name, amount in amounts.items():
                sharing[name] = sharing.get(name, 0) + amount.nano
        else:
            self._taken |= 1 << slot
            self._taken_by[request.claim] |= 1 << slot
        kept = amounts if candidate.is_shareable else None
        self.picks[request.claim].append(Pick(request, candidate, kept, charges))

    def _unshare(self, slot: int, amounts: Amounts) -> None:
        self._shares[slot] -= 1
        if not self._shares[slot]:
            del self._shares[slot], self._sharing[slot]
            return
        sharing = self._sharing[slot]
        for name, amount in amounts.items():
            sharing[name] -= amount.nano
