"""Environments: what they declare, and that they never change."""

from __future__ import annotations

import pytest

from dray.cel import types as t
from dray.cel.environment import Environment, Options
from dray.cel.functions import Library, Overload
from dray.cel.syntax.macros import STANDARD, Macro
from dray.cel.types import StructType, Type
from dray.errors import InvariantError

THING = t.struct_of("my.Thing")


def overload(id_: str, function: str, *parameters: Type, is_member: bool = False) -> Overload:
    return Overload(id_, function, parameters, t.BOOL, lambda *values: True, is_member)


FIRST = Library(
    "first",
    (overload("f_int", "f", t.INT), overload("f_list", "f", t.list_of(t.A), t.A), overload("f_of", "f", t.INT, is_member=True)),
    STANDARD,
    (t.INT, t.list_of(t.A)),
)  # fmt: skip
SECOND = Library("second", (overload("f_string", "f", t.STRING), overload("a.g", "a.g", t.INT)))


def test_overloads_are_found_by_the_form_of_a_call() -> None:
    known = Environment({}, (FIRST, SECOND))
    assert [c.id for c in known.candidates("f", is_member=False, count=1)] == ["f_int", "f_string"]
    assert [c.variables for c in known.candidates("f", is_member=False, count=2)] == [("A",)]
    assert [c.id for c in known.candidates("f", is_member=True, count=1)] == ["f_of"]
    assert known.candidates("f", is_member=False, count=3) == ()
    assert known.overloads["f_string"].parameters == (t.STRING,)


def test_names_of_types_and_variables() -> None:
    known = Environment({"x": t.INT}, (FIRST,), structs=(StructType(THING, {"size": t.INT}),))
    declared = {name: known.declared(name) for name in ("x", "int", "list", "my.Thing", "nope")}
    assert {name: found and str(found.type) for name, found in declared.items()} == {
        "x": "int",
        "int": "type(int)",
        "list": "type(list(<A>))",
        "my.Thing": "type(my.Thing)",
        "nope": None,
    }
    assert known.field(THING, "size") == t.INT
    assert known.field(THING, "nope") is None
    assert (known.has_fields(THING), known.has_fields(t.INT)) == (True, False)


def test_extending_leaves_the_first_as_it_was() -> None:
    first = Environment({"x": t.INT}, (FIRST,))
    second = first.extend(
        {"x": t.STRING, "y": t.BOOL}, (SECOND,), Options(container="a"), (StructType(THING, {}),)
    )
    assert dict(first.variables) == {"x": t.INT}
    assert dict(second.variables) == {"x": t.STRING, "y": t.BOOL}
    assert (first.options.container, second.options.container) == ("", "a")
    assert "f_string" not in first.overloads
    assert second.extend().options == second.options
    with pytest.raises(TypeError):
        first.variables["z"] = t.INT  # type: ignore[index]


def test_the_container_decides_which_function_a_name_means() -> None:
    plain, within = (
        Environment({}, (FIRST, SECOND)),
        Environment({}, (FIRST, SECOND), Options(container="a.b")),
    )
    assert (plain.function("g"), within.function("g"), within.function("f")) == (None, "a.g", "f")
    assert within.resolve("x.y") == ("a.b.x.y", "a.x.y", "x.y")
    assert within.resolve(".x") == ("x",)


def test_an_overload_may_come_twice_but_not_in_two_ways() -> None:
    same = Library("same", (overload("f_int", "f", t.INT),))
    known = Environment({}, (FIRST, same))
    assert [c.id for c in known.candidates("f", is_member=False, count=1)] == ["f_int"]
    other = Library("other", (overload("f_int", "f", t.STRING),))
    with pytest.raises(InvariantError, match="f_int of other"):
        Environment({}, (FIRST, other))


def test_later_macros_replace_earlier_ones() -> None:
    mine = Macro("all", 2, lambda builder, target, arguments: target)
    known = Environment({}, (FIRST, Library("mine", macros=(mine,))))
    assert known.parse_options.macros["all", 2, True] is mine
    assert known.parse_options.macros["exists", 2, True] in STANDARD


def test_options_reach_the_parser() -> None:
    known = Environment({}, (), Options(optional_syntax=False, escaped_names=True))
    assert (known.parse_options.optional_syntax, known.parse_options.escaped_names) == (False, True)
