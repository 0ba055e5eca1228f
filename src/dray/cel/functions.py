"""What a library of functions is made of. Names and ids are cel-go's, because costs and error texts go by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dray.cel.types import Type
from dray.cel.values import Value

if TYPE_CHECKING:
    from dray.cel.check.checker import Checked
    from dray.cel.costs.cost import EstimateCall
    from dray.cel.faults import Fault
    from dray.cel.syntax.macros import Macro

Implementation = Callable[..., Value]
"""Gets the values (target first), returns a value or raises `EvaluationError`. Pure."""

ActualCost = Callable[[Sequence[Value], Value], int]
"""Arguments (target first) and result of a call that was made, to what it cost. As cel-go's runtime cost: without those of
the arguments themselves."""

Validator = Callable[["Checked"], Iterable["Fault"]]
"""Looks at an expression that passed the checker, for what only this library knows to be wrong."""


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function. `parameters` begin with the target's type where `is_member`.

    `estimate` and `cost` are None where a call costs 1, which is cel-go's default.
    """

    id: str
    function: str
    parameters: tuple[Type, ...]
    result: Type
    implementation: Implementation
    is_member: bool = False
    estimate: EstimateCall | None = None
    cost: ActualCost | None = None


@dataclass(frozen=True, slots=True)
class Library:
    """Functions, macros and constants (types by name) that belong together.

    `mixed_literals_in` names the functions below which a list may hold values of several types.
    """

    name: str
    overloads: tuple[Overload, ...] = ()
    macros: tuple[Macro, ...] = ()
    types: tuple[Type, ...] = ()
    validators: tuple[Validator, ...] = ()
    mixed_literals_in: tuple[str, ...] = ()
