"""What may stand for what, and what is learnt of type variables on the way."""

from __future__ import annotations

import pytest

from dray.cel import types as t
from dray.cel.check.overloads import Substitutions, most_general, unwrap_optional
from dray.cel.environment import Candidate
from dray.cel.types import Type

STRUCT, OPAQUE = t.struct_of("my.Thing"), t.opaque("net.IP")


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        (t.INT, t.INT, True),
        (t.INT, t.UINT, False),
        (t.INT, t.DYN, True),
        (t.ANY, t.INT, True),
        (t.ERROR, t.INT, True),
        (t.NULL, t.INT, False),
        (t.NULL, t.list_of(t.INT), False),
        (t.NULL, t.NULL, True),
        (t.NULL, t.DURATION, True),
        (t.TIMESTAMP, t.NULL, True),
        (t.NULL, STRUCT, True),
        (OPAQUE, t.NULL, True),
        (t.NULL, t.optional_of(t.INT), True),
        (OPAQUE, STRUCT, False),
        (t.list_of(t.INT), t.list_of(t.DYN), True),
        (t.list_of(t.INT), t.list_of(t.STRING), False),
        (t.list_of(t.INT), t.map_of(t.INT, t.INT), False),
        (t.map_of(t.STRING, t.DYN), t.map_of(t.STRING, t.INT), True),
        (t.type_of(t.INT), t.type_of(t.STRING), True),
        (t.TYPE, t.type_of(t.STRING), True),
        (t.optional_of(t.INT), t.optional_of(t.STRING), False),
    ],
)
def test_what_may_stand_for_what(first: Type, second: Type, *, fits: bool) -> None:
    assert Substitutions().assignable(first, second) == fits


def test_a_variable_stands_for_what_it_met() -> None:
    known = Substitutions()
    variable = known.fresh()
    assert known.assignable(t.list_of(variable), t.list_of(t.INT))
    assert known.applied(t.map_of(t.STRING, variable)) == t.map_of(t.STRING, t.INT)
    assert not known.assignable(variable, t.STRING)
    assert known.assignable(variable, t.DYN)
    assert known.applied(variable) == t.DYN


def test_a_trial_that_fails_leaves_no_trace() -> None:
    known = Substitutions()
    first, second = known.fresh(), known.fresh()
    assert not known.assignable(t.map_of(first, t.INT), t.map_of(t.STRING, t.BOOL))
    assert known.applied(first) == first
    assert known.assignable(first, second)
    assert not known.assignable(t.map_of(first, t.INT), t.map_of(t.STRING, t.BOOL))
    assert known.assignable(second, t.INT)
    assert known.applied(first) == t.INT


def test_a_variable_is_not_part_of_what_it_stands_for() -> None:
    known = Substitutions()
    variable = known.fresh()
    assert not known.assignable(variable, t.list_of(variable))
    assert known.final(variable) == t.DYN


def test_free_variables_end_as_dyn() -> None:
    known = Substitutions()
    assert known.shown(t.list_of(known.fresh())) == t.list_of(t.DYN)
    assert known.final(t.map_of(known.fresh(), t.INT)) == t.map_of(t.DYN, t.INT)


def test_overloads_that_fit_and_what_they_give() -> None:
    candidates = (
        Candidate("ints", (t.INT,), t.INT, ()),
        Candidate("strings", (t.STRING,), t.STRING, ()),
        Candidate("lists", (t.list_of(t.A),), t.A, ("A",)),
    )
    known = Substitutions()
    assert known.resolve(candidates, (t.INT,)) == (("ints",), t.INT)
    assert known.resolve(candidates, (t.DYN,)) == (("ints", "strings", "lists"), t.DYN)
    assert known.resolve(candidates, (t.list_of(t.BOOL),)) == (("lists",), t.BOOL)
    assert known.resolve(candidates, (t.BOOL,)) is None


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (t.INT, t.DYN, t.DYN),
        (t.list_of(t.INT), t.list_of(t.DYN), t.list_of(t.DYN)),
        (t.map_of(t.DYN, t.INT), t.map_of(t.INT, t.INT), t.map_of(t.DYN, t.INT)),
        (t.NULL, OPAQUE, OPAQUE),
        (t.type_of(t.INT), t.TYPE, t.type_of(t.INT)),
    ],
)
def test_the_more_general_of_two(first: Type, second: Type, expected: Type) -> None:
    assert most_general(first, second) == expected


def test_optionals_are_looked_into() -> None:
    assert unwrap_optional(t.optional_of(t.INT)) == (t.INT, True)
    assert unwrap_optional(t.INT) == (t.INT, False)
    assert unwrap_optional(t.opaque("optional_type")) == (t.opaque("optional_type"), False)
