"""A selector tried on devices, with everything a person wants to know about it. For `dray cel`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from dray.allocation.budget import UNLIMITED, Budget
from dray.allocation.device_values import DeviceValue, Place
from dray.allocation.explanation.false_part import FalsePart, find_false_part
from dray.allocation.faults import TimeLimitError
from dray.allocation.features import Features
from dray.allocation.selector import COST_LIMIT, CompileError, Selector, compile_selector
from dray.api.limits import MAX_EXPRESSION_LENGTH
from dray.api.resource.slice import Device, ResourceSlice
from dray.cel.exact.run import WORK_MESSAGE

_MOST_CUT_OFF: Final = 3
_Answer = tuple[bool | None, str, int | None, FalsePart | None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the selector says to one device: `match`, or an `error`. `false_part` is why it does not match."""

    driver: str
    pool: str
    device: str
    match: bool | None
    error: str
    cost: int | None
    false_part: FalsePart | None


@dataclass(frozen=True, slots=True)
class Trial:
    """With a `compile_error` (several lines, with carets) there is nothing else."""

    expression: str
    compile_error: str = ""
    estimated_cost: int | None = None
    places: tuple[Place, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    cost_limit: int = COST_LIMIT

    @property
    def is_too_complex(self) -> bool:
        """An API server would refuse it for its cost."""
        return self.estimated_cost is not None and self.estimated_cost > self.cost_limit


def try_selector(
    expression: str, slices: Iterable[ResourceSlice], features: Features, budget: Budget = UNLIMITED
) -> Trial:
    """Compiled as a text that an API server sees for the first time, then asked about every device, in order. The budget is
    for all devices together; those that are left when it ends have no answer, and an error that says so."""
    if len(expression.encode()) > MAX_EXPRESSION_LENGTH:
        return Trial(expression, f"Too long: may not be more than {MAX_EXPRESSION_LENGTH} bytes")
    try:
        selector = compile_selector(expression, features, stored=False)
    except CompileError as error:
        return Trial(expression, error.text)
    asked = _Asked(selector, features, budget)
    outcomes = tuple(asked.outcome(one, device) for one in slices for device in one.spec.devices or ())
    return Trial(expression, "", selector.estimated_cost, selector.places, outcomes)


class _Asked:
    """Devices that read the same get the same answer, so a costly text is run once for each distinct reading.

    A text that an API server refuses for its cost, or that does too much, is not run again after it had to be cut off a
    few times.
    """

    def __init__(self, selector: Selector, features: Features, budget: Budget) -> None:
        self._selector = selector
        self._features = features
        self._budget = budget
        self._known: dict[Hashable, _Answer] = {}
        self._cut_off = 0

    def outcome(self, one: ResourceSlice, device: Device) -> Outcome:
        prepared = self._selector.prepare(one.spec.driver, device)
        key = (prepared.fault, None if prepared.fault else self._selector.projection(prepared))
        if key not in self._known:
            self._known[key] = self._ask(prepared)
        return Outcome(one.spec.driver, one.spec.pool.name, device.name, *self._known[key])

    def _ask(self, prepared: DeviceValue) -> _Answer:
        if self._cut_off >= _MOST_CUT_OFF:
            return None, f"not run: it cost too much on {self._cut_off} devices before", None, None
        try:
            self._budget.check()
            match, error, cost = self._selector.accepts_with_cost(prepared, self._budget)
        except TimeLimitError as stopped:
            why = f"stopped after {stopped.seconds:.3g} s: whether the selector matches here is not known"
            return None, why, None, None
        if error and (self._selector.estimated_cost > COST_LIMIT or error == WORK_MESSAGE):
            self._cut_off += 1
        part = find_false_part(self._selector, prepared, self._features) if match is False else None
        return match, error, cost, part
