"""The devices that come closest to a request that is not served, and what stands in their way, in full.

A device is the closer the fewer obstacles it has: a term of a selector that is false, a taint, being in use.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dray.allocation.allocator import Allocator, Call
from dray.allocation.candidates import Candidate
from dray.allocation.device_values import DeviceValue
from dray.allocation.explanation.false_part import FalsePart, find_false_part
from dray.allocation.explanation.lacks import Lack, lacks
from dray.allocation.explanation.refusal import (
    Check,
    Explainer,
    Holder,
    Refusal,
    kept_away_by,
    state_checks,
    taint_text,
)
from dray.allocation.faults import AllocationError, NodeAllocationError, SelectorError, StepLimitError
from dray.allocation.features import Features
from dray.allocation.requests import Request
from dray.allocation.selector import CompiledSelectors
from dray.api.core.node import Node
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.device_class import DeviceSelector

_MOST_PARTS: Final = 8
"""A selector with more false terms than this is as far off as can be."""
_ERROR: Final = 100
_OF_CLASS: Final = 10
"""A device of another class is no near miss, however short the class's selector."""


@dataclass(frozen=True, slots=True)
class FalseTerm:
    """A term that was false: of selector `number` of the class or of the request."""

    is_of_class: bool
    number: int
    expression: str
    part: FalsePart

    def __str__(self) -> str:
        return f"{'class' if self.is_of_class else 'selector'}: {' '.join(str(self.part).split())}"


@dataclass(frozen=True, slots=True)
class Miss:
    """One device and everything that keeps it from the request when that is asked alone."""

    node: str
    claim: str
    request: str
    candidate: Candidate
    checks: tuple[Check, ...]
    false_terms: tuple[FalseTerm, ...] = ()
    taints: tuple[str, ...] = ()
    held_by: tuple[Holder, ...] = ()
    lacks: tuple[Lack, ...] = ()
    error: str = ""

    @property
    def distance(self) -> tuple[int, int]:
        """Fewer obstacles are closer; among as many, a device that came through more checks."""
        order = list(Check)
        terms = sum(_OF_CLASS if term.is_of_class else 1 for term in self.false_terms)
        others = sum(check not in (Check.CLASS, Check.SELECTOR, Check.TAINT) for check in self.checks)
        obstacles = terms + others + len(self.taints) + (_ERROR if self.error else 0)
        return obstacles, -order.index(self.checks[0])


class NearestMisses:
    """Looks for near misses on one node after another. Terms are evaluated once per distinct reading of a device."""

    def __init__(
        self, allocator: Allocator, selectors: CompiledSelectors, features: Features, explainer: Explainer
    ) -> None:
        self._allocator = allocator
        self._selectors = selectors
        self._features = features
        self._explainer = explainer
        self._parts: dict[tuple[str, Hashable], tuple[FalsePart, ...]] = {}

    def find(self, node: Node, claims: Sequence[ResourceClaim], refusal: Refusal) -> tuple[Miss, ...]:
        """What `_find` does; () where it takes too long, for the closest device may be one of those not looked at."""
        try:
            return self._find(node, claims, refusal)
        except StepLimitError:
            return ()

    def _find(self, node: Node, claims: Sequence[ResourceClaim], refusal: Refusal) -> tuple[Miss, ...]:
        """For each request that is short (for all where none is): the closest device that a selector removes, and the
        closest that something else does; the closest of all first. Where none is short, devices of another class do
        not count: there are enough of the right one."""
        try:
            call = Call(self._allocator, node, claims)
        except StepLimitError:
            raise
        except (AllocationError, NodeAllocationError):
            return ()
        short = {(one.claim, one.request) for one in refusal.requests if one.is_short}
        found: list[Miss] = []
        for planned in call.plan:
            for request in (one for alternatives in planned.requests for one in alternatives):
                if not short or (request.claim_name, request.full_name) in short:
                    found.extend(self._closest(call, node, request))
        if not short:
            found = [miss for miss in found if Check.CLASS not in miss.checks]
        return tuple(sorted(found, key=lambda miss: miss.distance))

    def _closest(self, call: Call, node: Node, request: Request) -> Iterable[Miss]:
        best: dict[bool, Miss] = {}
        for candidate in call.candidates.devices:
            miss = self._miss(call, node, request, candidate)
            if miss is None:
                continue
            is_selected = not miss.false_terms and not miss.error
            if is_selected not in best or miss.distance < best[is_selected].distance:
                best[is_selected] = miss
        return best.values()

    def _miss(self, call: Call, node: Node, request: Request, candidate: Candidate) -> Miss | None:
        checks: list[Check] = []
        try:
            own = call.candidates.rejected_by(request, candidate)
        except AllocationError as error:
            return Miss(
                node.metadata.name,
                request.claim_name,
                request.full_name,
                candidate,
                (Check.ERROR,),
                error=str(error),
            )
        if own:
            checks.append(Check(own))
        terms = self._terms(request, candidate) if own in (Check.CLASS, Check.SELECTOR) else ()
        if any(not term.is_of_class for term in terms) and Check.SELECTOR not in checks:
            checks.append(Check.SELECTOR)
        checks += state_checks(call, request, candidate)
        if not checks:
            return None
        is_held = any(check in (Check.IN_USE, Check.CAPACITY, Check.COUNTERS) for check in checks)
        return Miss(
            node.metadata.name,
            request.claim_name,
            request.full_name,
            candidate,
            tuple(checks),
            terms,
            tuple(map(taint_text, kept_away_by(request, candidate))) if Check.TAINT in checks else (),
            tuple(sorted(set(self._explainer.holders(candidate)))) if is_held else (),
            tuple(lacks(self._allocator.rules, request, candidate)) if is_held else (),
        )

    def _terms(self, request: Request, candidate: Candidate) -> tuple[FalseTerm, ...]:
        found: list[FalseTerm] = []
        for is_class, selectors in (
            (True, request.device_class.spec.selectors),
            (False, request.wish.selectors),
        ):
            for number, selector in enumerate(selectors):
                for part in self._false_parts(selector, candidate):
                    expression = selector.cel.expression if selector.cel is not None else ""
                    found.append(FalseTerm(is_class, number, expression, part))
        return tuple(found)

    def _false_parts(self, selector: DeviceSelector, candidate: Candidate) -> tuple[FalsePart, ...]:
        if selector.cel is None:
            return ()
        text = selector.cel.expression
        try:
            compiled = self._selectors.selector(text)
            value = self._selectors.prepared(candidate.id.driver, candidate.device)
        except SelectorError:
            return ()
        key = (text, compiled.projection(value))
        if key not in self._parts:
            self._parts[key] = tuple(self._each_false(text, value))
        return self._parts[key]

    def _each_false(self, text: str, value: DeviceValue) -> Iterable[FalsePart]:
        """One false term after another: each is taken for true to find the next."""
        for _ in range(_MOST_PARTS):
            try:
                selector = self._selectors.selector(text)
                if selector.accepts(value):
                    return
            except SelectorError:
                return
            part = find_false_part(selector, value, self._features)
            yield part
            text = without_part(text, part)


def without_part(text: str, part: FalsePart) -> str:
    """The selector with the part taken for true. What stands before the part keeps its place, what comes after moves."""
    return f"{text[: part.position]}true{text[part.position + len(part.text) :]}"
