from __future__ import annotations

import pytest

from dray.cel.costs.cost import Range
from dray.cel.faults import CelError, EvaluationError
from dray.cel.library import includes
from dray.cel.program import Program, compile_expression
from tests.cel.library.answers import environment


def _program(text: str) -> Program:
    return compile_expression(text, environment().extend(libraries=(includes.LIBRARY,)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x.includes(1)", True),
        ("x.includes(1.0)", True),
        ("x.includes('1')", False),
        ("[1, 2].includes(2)", True),
        ("[1, 2].includes(3)", False),
        ("[semver('1.0.0')].includes(semver('1.0.0+x'))", True),
        ("[].includes(x)", False),
        ("lists.range(49).includes(47)", True),
    ],
)
def test_a_list_or_one_value(text: str, value: bool) -> None:
    assert _program(text).evaluate({"x": 1}) is value


def test_a_long_list_is_an_error_unless_found_early() -> None:
    with pytest.raises(
        EvaluationError, match="'includes' function cannot be applied to lists longer than 48 values"
    ):
        _program("lists.range(49).includes(48)").evaluate({"x": 1})


def test_the_estimate_is_the_longest_list() -> None:
    program = _program("x.includes(1)")
    assert program.estimated_cost == Range(1, 49)
    assert program.evaluate_with_cost({"x": 1}) == (True, 2)


def test_it_is_not_there_without_the_library() -> None:
    with pytest.raises(CelError, match="undeclared reference to 'includes'"):
        compile_expression("x.includes(1)", environment())
