"""First fit, depth first: the first combination of devices that serves all claims, in Kubernetes' order.

Claims, requests and devices are taken in order; inside a request only combinations are tried, each device after the one
before. A step that leads nowhere is undone and the next device tried, across requests and claims. The stack is a list,
so that many claims do not meet Python's recursion limit. Steps that cannot lead anywhere are left out (`bounds.py`),
which never changes the answer.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import Enum, auto
from typing import Final

from dray.allocation.bounds import Bounds
from dray.allocation.budget import LOOK
from dray.allocation.candidates import Candidates
from dray.allocation.faults import AllocationError, StepLimitError
from dray.allocation.ledger import Ledger
from dray.allocation.requests import PlannedClaim, Request
from dray.api.limits import MAX_ALLOCATION_RESULTS

STEP_LIMIT: Final = 200_000
"""Ends a search where there is no clock. Steps cost from 10 microseconds to milliseconds: it bounds no time, a budget does."""

_STEP: Final = 16
_TRIAL: Final = 8
"""What a step and a device tried cost a budget at least; bounds charge what they do themselves."""

_DEAD_ENDS: Final = 8
"""So many dead ends are cheaper to walk into than to compute bounds for."""


class _Move(Enum):
    """What became of a step. EXCEEDED: the claim would get more devices than a result may hold."""

    ON = auto()
    DONE = auto()
    FAILED = auto()
    EXCEEDED = auto()


class _DeviceChoice:
    """Which device is the `number`th of a request. `slot` is the one tried last, -1 before the first.

    `mark` is the state in which the request was begun, on its first frame and where bounds are in use.
    """

    __slots__ = ("claim", "is_held", "mark", "next", "number", "request", "slot", "tried")

    def __init__(self, request: Request, number: int, start: int) -> None:
        self.claim = request.claim
        self.request = request
        self.number = number
        self.next = start
        self.slot = -1
        self.is_held = False
        self.tried: set[int] = set()
        self.mark: Hashable = None


class _AlternativeChoice:
    """Which alternative of a firstAvailable request. `all_exceeded` until one fails for another reason."""

    __slots__ = ("all_exceeded", "alternatives", "chosen", "claim", "mark")

    def __init__(self, alternatives: tuple[Request, ...]) -> None:
        self.claim = alternatives[0].claim
        self.alternatives = alternatives
        self.chosen = -1
        self.all_exceeded = True
        self.mark: Hashable = None


class Search:
    """One run. Afterwards the ledger holds the picks, and `steps` tells how much work it was."""

    def __init__(
        self,
        plan: Sequence[PlannedClaim],
        candidates: Candidates,
        ledger: Ledger,
        bounds: Bounds,
        step_limit: int = STEP_LIMIT,
    ) -> None:
        self._plan = plan
        self._candidates = candidates
        self._ledger = ledger
        self._bounds = bounds
        self._charge = bounds.budget.charge
        self._limit = step_limit
        self._stack: list[_DeviceChoice | _AlternativeChoice] = []
        self._dead_ends = 0
        self._over = 0
        self.steps = 0

    def run(self) -> bool:
        """Whether everything found its devices."""
        move = self._enter(0, 0)
        while move is not _Move.DONE:
            exceeded = move is _Move.EXCEEDED
            if exceeded and not self._drop_claim():
                return False
            if not self._stack or (self._dead_ends > _DEAD_ENDS and self._bounds.is_hopeless):
                return False
            top = self._stack[-1]
            if isinstance(top, _AlternativeChoice):
                move = self._next_alternative(top, move)
            else:
                move = self._next_device(top)
        return True

    def chosen(self) -> dict[tuple[int, int], Request]:
        """The alternative each firstAvailable request got, by claim and request; only after success."""
        found = {}
        for frame in self._stack:
            if isinstance(frame, _AlternativeChoice):
                request = frame.alternatives[frame.chosen]
                found[request.claim, request.index] = request
        return found

    def _enter(self, claim: int, index: int) -> _Move:
        """Begin with a request, or with the next claim after the last one."""
        while claim < len(self._plan):
            requests = self._plan[claim].requests
            if index >= len(requests):
                claim, index = claim + 1, 0
                continue
            if not index and self._dead_ends > _DEAD_ENDS and self._bounds.is_hopeless_from(claim):
                return _Move.FAILED
            alternatives = requests[index]
            mark = self._bounds.mark(claim, index) if self._is_bounded(claim) else None
            if mark is not None and mark in self._bounds.failed:
                return _Move.FAILED
            if alternatives[0].parent:
                self._stack.append(_AlternativeChoice(alternatives))
                self._stack[-1].mark = mark
                return _Move.ON
            move = self._begin(alternatives[0], 0, 0)
            if move is _Move.ON:
                self._stack[-1].mark = mark
            if move is not None:
                return move
            index += 1
        return _Move.DONE

    def _begin(self, request: Request, number: int, start: int) -> _Move | None:
        """Begin with the `number`th device of a request; None where the request has all of its devices."""
        self.steps += 1
        if self.steps > self._limit:
            raise StepLimitError(
                f"gave up after {self._limit} steps of searching: whether the claims fit here is not known",
                steps=self.steps,
            )
        if request.every is not None and not request.every:
            return _Move.FAILED
        if number >= request.count:
            return None
        self._charge(_STEP)
        results = len(self._ledger.picks[request.claim])
        if results + request.count - number > MAX_ALLOCATION_RESULTS:
            return self._exceeded(request)
        if not number and self._is_bounded(request.claim) and self._bounds.is_over(request):
            return self._exceeded(request)
        self._stack.append(_DeviceChoice(request, number, start))
        return _Move.ON

    def _exceeded(self, request: Request) -> _Move:
        self._over = request.claim
        return _Move.EXCEEDED

    def _next_alternative(self, frame: _AlternativeChoice, last: _Move) -> _Move:
        if frame.chosen >= 0 and last is _Move.FAILED:
            frame.all_exceeded = False
        frame.chosen += 1
        if frame.chosen >= len(frame.alternatives):
            self._stack.pop()
            return self._exceeded(frame.alternatives[0]) if frame.all_exceeded else self._fail(frame)
        request = frame.alternatives[frame.chosen]
        move = self._begin(request, 0, 0)
        return self._enter(request.claim, request.index + 1) if move is None else move

    def _next_device(self, frame: _DeviceChoice) -> _Move:
        self._release(frame)
        request = frame.request
        found = self._every_next(frame) if request.every is not None else self._first_next(frame)
        if not found:
            self._stack.pop()
            return self._fail(frame)
        frame.is_held = True
        move = self._begin(request, frame.number + 1, frame.slot + 1)
        return self._enter(request.claim, request.index + 1) if move is None else move

    def _every_next(self, frame: _DeviceChoice) -> bool:
        """The one device that is this one's turn, tried once."""
        every = frame.request.every or ()
        if frame.slot >= 0:
            return False
        if not frame.number and self._is_bounded(frame.claim) and self._bounds.is_short(frame.request, 0, 0):
            return False
        candidate = every[frame.number]
        frame.slot = candidate.slot
        return self._ledger.commit(frame.request, candidate)

    def _first_next(self, frame: _DeviceChoice) -> bool:
        request, ledger, bounds = frame.request, self._ledger, self._bounds
        is_bounded = self._is_bounded(frame.claim)
        devices = self._candidates.devices
        if is_bounded:
            self._note_tried(frame)
            if not bounds.may_fit(request, frame.number, frame.next):
                return False
            if bounds.is_short(request, frame.number, frame.next):
                return False
        blocked = ledger.blocked(request)
        work = 0
        while (slot := self._candidates.next_match(request, frame.next, blocked)) >= 0:
            frame.next = slot + 1
            frame.slot = slot
            if work >= LOOK:
                self._charge(work)
                work = 0
            if is_bounded and bounds.is_like(request, slot, frame.tried):
                work += 1
                continue
            candidate = devices[slot]
            if ledger.fits_capacity(request, candidate) and ledger.commit(request, candidate):
                break
            work += _TRIAL
            if is_bounded:
                self._note_tried(frame)
        if work:
            self._charge(work)
        return slot >= 0

    def _is_bounded(self, claim: int) -> bool:
        return self._dead_ends > _DEAD_ENDS and self._bounds.is_allowed(claim)

    def _note_tried(self, frame: _DeviceChoice) -> None:
        if frame.slot >= 0 and not self._ledger.is_touched(frame.slot):
            frame.tried.add(self._bounds.kinds(frame.claim, frame.request.index)[frame.slot])

    def _release(self, frame: _DeviceChoice) -> None:
        if frame.is_held:
            frame.is_held = False
            self._ledger.rollback(frame.claim)

    def _fail(self, frame: _DeviceChoice | _AlternativeChoice) -> _Move:
        self._dead_ends += 1
        if frame.mark is not None:
            self._bounds.failed.add(frame.mark)
        return _Move.FAILED

    def _drop_claim(self) -> bool:
        """Undo the claim that got too big up to its last choice of an alternative; False where no claim is left.

        Then only another alternative helps, of this claim or by another choice in the claims before. For the first
        claim nothing does, which Kubernetes reports as an error.
        """
        while self._stack and self._stack[-1].claim == self._over:
            top = self._stack[-1]
            if isinstance(top, _AlternativeChoice):
                return True
            self._release(top)
            self._stack.pop()
        if self._over == 0:
            raise AllocationError("allocation max size exceeded")
        return bool(self._stack)
