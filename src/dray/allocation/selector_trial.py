"""A selector tried on devices, with everything a person wants to know about it. For `dray cel`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dray.allocation.device_values import Place
from dray.allocation.explanation.false_part import FalsePart, find_false_part
from dray.allocation.features import Features
from dray.allocation.selector import COST_LIMIT, CompileError, Selector, compile_selector
from dray.api.limits import MAX_EXPRESSION_LENGTH
from dray.api.resource.slice import Device, ResourceSlice


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


def try_selector(expression: str, slices: Iterable[ResourceSlice], features: Features) -> Trial:
    """Compiled as a text that an API server sees for the first time, then asked about every device, in order."""
    if len(expression.encode()) > MAX_EXPRESSION_LENGTH:
        return Trial(expression, f"Too long: may not be more than {MAX_EXPRESSION_LENGTH} bytes")
    try:
        selector = compile_selector(expression, features, stored=False)
    except CompileError as error:
        return Trial(expression, error.text)
    outcomes = tuple(
        _outcome(selector, features, one, device) for one in slices for device in one.spec.devices or ()
    )
    return Trial(expression, "", selector.estimated_cost, selector.places, outcomes)


def _outcome(selector: Selector, features: Features, one: ResourceSlice, device: Device) -> Outcome:
    prepared = selector.prepare(one.spec.driver, device)
    match, error, cost = selector.accepts_with_cost(prepared)
    part = find_false_part(selector, prepared, features) if match is False else None
    return Outcome(one.spec.driver, one.spec.pool.name, device.name, match, error, cost, part)
