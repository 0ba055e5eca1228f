"""`includes`, which Kubernetes adds for devices (gate DRAListTypeAttributes): an attribute may be one value or a list."""

from __future__ import annotations

from collections.abc import Sequence

from dray.cel import types as t
from dray.cel.costs.cost import CallEstimate, Range, SizedNode, Sizes
from dray.cel.equality import equal
from dray.cel.faults import EvaluationError
from dray.cel.functions import Library, Overload
from dray.cel.values import Value, is_list

_LONGEST = 48


def _includes(held: Value, wanted: Value) -> Value:
    if not is_list(held):
        return equal(held, wanted)
    for position, item in enumerate(held):
        if position >= _LONGEST:
            raise EvaluationError(
                f"'includes' function cannot be applied to lists longer than {_LONGEST} values"
            )
        if equal(item, wanted):
            return True
    return False


def _estimate(_: Sizes, target: SizedNode | None, __: Sequence[SizedNode]) -> CallEstimate | None:
    return None if target is None else CallEstimate(Range(0, _LONGEST))


LIBRARY = Library(
    name="kubernetes.dra.includes",
    overloads=(
        Overload(
            "dra_includes_dyn_dyn",
            "includes",
            (t.DYN, t.DYN),
            t.BOOL,
            _includes,
            is_member=True,
            estimate=_estimate,
        ),
    ),
)
