"""Equality, order, and what is found in lists and maps."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dray.cel import types as t
from dray.cel.equality import compare, contains, equal, find, index
from dray.cel.faults import EvaluationError
from dray.cel.values import (
    LIST_LIMIT,
    MISSING,
    NONE,
    DefaultMap,
    Duration,
    EvaluationCancelledError,
    JoinedList,
    MixedMap,
    Opaque,
    Optional,
    Timestamp,
    Uint,
    join_lists,
    make_map,
    text_of,
    type_name,
)
from tests.cel.evaluating import evaluate


class Fruit(Opaque):
    """A library's own value."""

    cel_type = t.opaque("test.Fruit")

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fruit) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


EQUAL: list[tuple[Any, Any]] = [
    (1, 1.0),
    (Uint(1), 1),
    (Uint(1), 1.0),
    (2**53 + 1, float(2**53)),
    ((1, "a"), [1.0, "a"]),
    (JoinedList((1,), (2,)), (1, 2)),
    ({"a": 1}, {"a": Uint(1)}),
    (make_map([(Uint(1), "a")]), {1: "a"}),
    (NONE, Optional()),
    (Optional((1,)), Optional([1.0])),
    (Timestamp(5, 3600), Timestamp(5)),
    (t.list_of(t.INT), t.list_of(t.DYN)),
    (Fruit("fig"), Fruit("fig")),
    (None, None),
]
UNEQUAL: list[tuple[Any, Any]] = [
    (True, 1),
    (0, False),
    (True, 1.0),
    (math.nan, math.nan),
    (1, "1"),
    (b"a", "a"),
    (None, False),
    ((), {}),
    ((True,), (1,)),
    ({1: "a"}, make_map([(True, "a")])),
    ({"a": 1}, {"a": 1, "b": 2}),
    (Optional(1), NONE),
    (Optional(1), 1),
    (Duration(1), Timestamp(1)),
    (t.INT, t.UINT),
    (Fruit("fig"), "fig"),
    (Uint(2**64 - 1), -1),
]


@pytest.mark.parametrize(("left", "right"), EQUAL)
def test_equal_values_are_equal_both_ways(left: Any, right: Any) -> None:
    assert equal(left, right)
    assert equal(right, left)


@pytest.mark.parametrize(("left", "right"), UNEQUAL)
def test_different_values_are_not(left: Any, right: Any) -> None:
    assert not equal(left, right)
    assert not equal(right, left)


def test_an_opaque_value_refuses_others_on_its_right() -> None:
    fig = Fruit("fig")
    assert evaluate("x == y", x=fig, y=Fruit("fig")) is True
    assert evaluate("x == 'fig'", x=fig) == "error: no such overload"
    assert evaluate("x == 1", x=fig) == "error: no such overload"
    assert evaluate("x == true || true", x=fig) is True
    assert evaluate("'fig' == x", x=fig) is False
    assert evaluate("x != 'fig'", x=fig) is True
    assert evaluate("x == null", x=fig) is False
    assert evaluate("x in ['fig']", x=fig) is False
    assert evaluate("[x] == [dyn('fig')]", x=fig) is True


def test_a_refused_value_differs_even_from_its_like() -> None:
    refused = Fruit("fig")
    refused.is_refused = True
    assert evaluate("x == y", x=Fruit("fig"), y=refused) == "error: no such overload"
    assert evaluate("x != y", x=Fruit("fig"), y=refused) is True
    assert evaluate("y == x", x=Fruit("fig"), y=refused) is True


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [
        (1, 2.5, -1),
        (Uint(2**64 - 1), 5, 1),
        (-1, Uint(0), -1),
        (2**63 - 1, 2.0**63, 0),
        (1.0, 1, 0),
        (False, True, -1),
        ("a", "b", -1),
        ("\U0001f600", "\uffff", 1),
        (b"a", b"", 1),
        (Duration(1), Duration(2), -1),
        (Timestamp(3, 60), Timestamp(2), 1),
    ],
)
def test_order(left: Any, right: Any, order: int) -> None:
    assert compare(left, right) == order
    assert compare(right, left) == -order


@pytest.mark.parametrize(("left", "right"), [(True, 1), (1, "1"), (None, None), ((1,), (2,)), ("a", b"a")])
def test_no_order_between_kinds(left: Any, right: Any) -> None:
    with pytest.raises(EvaluationError, match=r"^no such overload$"):
        compare(left, right)


def test_nan_has_no_order() -> None:
    with pytest.raises(EvaluationError, match="NaN values cannot be ordered"):
        compare(math.nan, 1)


def test_map_keys_are_found_across_numbers_but_not_as_bools() -> None:
    plain, mixed = {1: "int"}, make_map([(True, "bool"), (1, "int"), (Uint(2), "uint"), (2.5, "double")])
    assert isinstance(mixed, MixedMap)
    assert len(mixed) == 4
    for container in (plain, mixed):
        assert [find(container, key) for key in (1, Uint(1), 1.0)] == ["int"] * 3
    assert find(plain, True) is MISSING
    assert find(mixed, True) == "bool"
    assert [find(mixed, key) for key in (2, Uint(2), 2.0)] == ["uint"] * 3
    assert find(mixed, 2.5) == "double"
    assert find(mixed, False) is MISSING
    assert {key: mixed[key] for key in mixed if key == 2.5} == {2.5: "double"}


def test_a_default_map_finds_everything_but_holds_only_what_it_has() -> None:
    domains = DefaultMap({"a": {"x": 1}}, {})
    assert find(domains, "nope") == {}
    assert domains["nope"] == {}
    assert contains("a", domains)
    assert not contains("nope", domains)
    assert len(domains) == 1
    assert evaluate("has(m.nope) && !('nope' in m) && m.nope == {} && m.size() == 1", m=domains) is True


@pytest.mark.parametrize(
    ("container", "key", "error"),
    [
        ({"a": 1}, "b", "no such key: b"),
        ({1: 1}, True, "no such key: true"),
        ((1, 2), 2, "index out of bounds: 2"),
        ((1, 2), -1, "index out of bounds: -1"),
        ((1, 2), "0", "unsupported index type 'string' in list"),
        ((1, 2), 0.5, "unsupported index value 0.5 in list"),
        ("text", "x", "no such key: x"),
        ({}, (1,), "invalid qualifier type: list"),
    ],
)
def test_what_cannot_be_looked_up(container: Any, key: Any, error: str) -> None:
    with pytest.raises(EvaluationError, match=f"^{error}$"):
        index(container, key)


def test_lists_are_indexed_by_any_whole_number() -> None:
    assert [index((7, 8), key) for key in (1, Uint(1), 1.0)] == [8, 8, 8]


def test_contains_compares_as_equality_does() -> None:
    assert contains(1, [1.0])
    assert not contains(True, [1])
    with pytest.raises(EvaluationError, match="no such overload"):
        contains("a", "abc")


def test_joined_lists_are_one_list() -> None:
    joined = join_lists(tuple(range(20)), [20])
    assert isinstance(joined, JoinedList)
    assert (len(joined), list(joined), joined[0], joined[20], joined[18:]) == (
        21,
        list(range(21)),
        0,
        20,
        (18, 19, 20),
    )
    assert join_lists((), joined) is joined


def test_a_list_does_not_grow_without_end() -> None:
    items: Any = (0,) * 1000
    with pytest.raises(EvaluationCancelledError, match="list of"):
        for _ in range(40):
            items = join_lists(items, items)
    assert len(items) <= LIST_LIMIT


def test_comparing_what_is_exponentially_large_is_cut_off() -> None:
    left: Any = (1,)
    right: Any = (1,)
    for _ in range(60):
        left, right = (left, left), (right, right)
    with pytest.raises(EvaluationCancelledError, match="too many nested values"):
        equal(left, right)


def test_names_of_types() -> None:
    values = [
        True,
        1,
        Uint(1),
        1.0,
        "",
        b"",
        None,
        (),
        [],
        {},
        Duration(0),
        Timestamp(0),
        NONE,
        t.INT,
        Fruit("fig"),
    ]
    assert [type_name(value) for value in values] == [
        *("bool", "int", "uint", "double", "string", "bytes", "null_type", "list", "list", "map"),
        *("google.protobuf.Duration", "google.protobuf.Timestamp", "optional_type", "type", "test.Fruit"),
    ]
    with pytest.raises(EvaluationError, match="unsupported conversion"):
        type_name(object())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x" * 4096, "x" * 4096),
        ("x" * 4097, f"{'x' * 4096}…"),
        (b"x" * 5000, f"b'{'x' * 4096}'"),
        (["x" * 5000], f"['{'x' * 100}']"),
    ],
)
def test_errors_show_the_beginning_of_what_is_long(value: Any, text: str) -> None:
    assert text_of(value) == text
