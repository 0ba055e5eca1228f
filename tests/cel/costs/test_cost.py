"""Estimates and counted costs: the numbers that Kubernetes v1.36.4 gave for the same expressions and device."""

from __future__ import annotations

import contextlib

import pytest

from dray.cel import types as t
from dray.cel.costs.cost import MAXIMUM, Range, fixed
from dray.cel.faults import EvaluationError
from dray.cel.values import EvaluationCancelledError
from tests.cel.evaluating import ATTRIBUTES, device, program, selector

A = ATTRIBUTES

# Expression, estimated maximum, cost on a device with type "gpu", index 3, ok true and an empty s.
KUBERNETES = [
    ("true", 0, 0),
    ('device.driver == ""', 2, 2),
    ('device.driver == "dra.example.com"', 4, 4),
    (f"{A}.ok", 4, 4),
    (f"{A}.index > 0", 5, 5),
    (f'{A}.type == "fish"', 5, 5),
    ('"d.example.com" in device.attributes', 3, 3),
    ("device.allowMultipleAllocations == true", 3, 3),
    (f'has({A}.type) && {A}.type == "gpu"', 8, 8),
    (f'has({A}.nope) || {A}.type.startsWith("g")', 8, 8),
    (f'{A}.type.matches("^g.u$")', 18, 6),
    (f'{A}.type.contains("gp")', 11, 5),
    (f'{A}.nope == "abcdefghijklmnopqrstuvwxyz"', 7, 5),
    (f"{A}.nope == 1 && false", 5, 5),
    (f"cel.bind(x, {A}.index, x > 1 && x < 10)", 18, 8),
    (f"cel.bind(x, {A}.nope, true)", 14, 0),
    ("[1, 2, 3].exists(x, x == 2)", 29, 16),
    (f"[dyn(1), dyn({A}.index)].exists(x, x == 3)", 29, 28),
    ("[1, 2, 3].map(x, x * 2) == [2, 4, 6]", 74, 44),
    ("[1, 2, 3].filter(x, x > 1) == [2, 3]", 77, 34),
    ('device.attributes.exists(d, d == "d.example.com")', 227, 10),
    ('device.attributes.exists_one(d, d == "d.example.com")', 164, 9),
    (f"{A}.index in [1, 2, 3]", 17, 4),
    (f"{A}.index in [dyn(1), dyn({A}.index)]", 22, 21),
    (f'({A}.ok ? {A}.type : {A}.s) == "gpu"', 9, 8),
    (f"{A}.ok ? true : {A}.nope", 8, 4),
    (f'{A}.type + {A}.s == "gpu"', 22, 10),
    ('int("1") == 1', 2, 1),
    ("device.attributes == {}", 32, 2),
    (f'{A}.?type.orValue("x") == "gpu"', 6, 5),
    (f'{A}.?nope.orValue("x") == "x"', 6, 4),
    (f'{A}.?type.optMap(x, x == "gpu").orValue(false)', 24, 13),
    (f"[?{A}.?nope, {A}.index] == [1]", 29, 18),
    ('{"gpu": 1}[' + A + ".type] == 1", 36, 6),
    (f'{A}["ty" + "pe"] == "gpu"', 6, 6),
    ('{"a": 1}.transformMap(k, v, v + 1) == {"a": 2}', 97, 7),
    ("timestamp('2020-01-01T00:00:00Z').getFullYear() == 2020", 3, 2),
    (f"[[1, 2], [3]].all(l, l.all(x, x > {A}.index))", 77, 19),
]


@pytest.mark.parametrize(("text", "estimated", "counted"), KUBERNETES)
def test_costs_are_kubernetes(text: str, estimated: int, counted: int) -> None:
    compiled = selector(text)
    assert compiled.estimated_cost.max == estimated
    run = compiled.start({"device": device(type="gpu", index=3, ok=True, s="")})
    with contextlib.suppress(EvaluationError):
        compiled.finish(run)
    assert run.cost == counted


def test_has_costs_nothing_but_what_it_looks_into() -> None:
    assert selector(f"has({A}.type)").estimated_cost == Range(3, 3)
    assert selector(f"has({A}.type)").evaluate_with_cost({"device": device()}) == (False, 3)


def test_short_circuits_are_the_minimum() -> None:
    assert selector('device.driver == "a" || device.driver == "b"').estimated_cost == Range(3, 6)
    assert selector(
        'device.driver == "x" ? true : device.driver == "yyyyyyyyyyyyyyyyy"'
    ).estimated_cost == Range(3, 7)


def test_unknown_sizes_cost_all_there_is() -> None:
    assert program("x.all(y, y)", x=t.list_of(t.BOOL)).estimated_cost == Range(2, MAXIMUM)
    assert program("x == 'abcdefghijk'", x=t.STRING).estimated_cost == Range(2, 3)


def test_ranges_stay_within_64_bits() -> None:
    most = Range(0, MAXIMUM)
    assert most.plus(most) == most.times(most) == most.scaled(10) == most
    assert most.scaled(0.1).max == 1_844_674_407_370_955_264
    assert fixed(7).scaled(0.1) == fixed(1)
    assert fixed(3).union(fixed(5)) == Range(3, 5)


@pytest.mark.parametrize("limit", [4, 12])
def test_the_limit_cuts_off_when_it_is_passed(limit: int) -> None:
    compiled = program("x.all(y, y > 0)", limit, x=t.list_of(t.INT))
    assert not compiled.is_fast
    assert compiled.evaluate_with_cost({"x": ()}) == (True, 2)
    with pytest.raises(EvaluationCancelledError, match=r"^operation cancelled: actual cost limit exceeded$"):
        compiled.evaluate({"x": (1,) * 10})


def test_the_limit_itself_is_allowed() -> None:
    cost = program("x + 1 == 2", x=t.INT).evaluate_with_cost({"x": 1})[1]
    assert program("x + 1 == 2", cost, x=t.INT).evaluate_exactly({"x": 1}) is True
    with pytest.raises(EvaluationCancelledError):
        program("x + 1 == 2", cost - 1, x=t.INT).evaluate({"x": 1})


def test_being_cut_off_is_not_absorbed() -> None:
    compiled = program("x.all(y, y > 0) || true", 5, x=t.list_of(t.INT))
    with pytest.raises(EvaluationCancelledError):
        compiled.evaluate({"x": (1,) * 10})
