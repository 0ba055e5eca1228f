"""Macros: what each becomes (node by node it is compared in test_trees.py), and what it refuses."""

from __future__ import annotations

import pytest

from dray.cel.ast import (
    ACCUMULATOR,
    UNUSED,
    Call,
    Comprehension,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    Select,
    walk,
)
from dray.cel.faults import CelError
from dray.cel.syntax import macros
from dray.cel.syntax.builder import COPY_LIMIT, Builder
from dray.cel.syntax.macros import Macro
from dray.cel.syntax.parser import parse
from dray.cel.syntax.reading import ParseOptions
from tests.cel.trees import MACROS


def expanded(text: str, *listed: Macro) -> Expr:
    return parse(text, options=ParseOptions(macros={macro.key: macro for macro in listed or MACROS}))


def fold(text: str) -> Comprehension:
    node = expanded(text)
    assert isinstance(node, Comprehension)
    return node


def functions(node: Expr) -> list[str]:
    return [part.function for part in walk(node) if isinstance(part, Call)]


def test_has_becomes_a_test_of_the_selection() -> None:
    node = expanded("has(a.b.c)")
    assert isinstance(node, Select)
    assert (node.field, node.is_test) == ("c", True)
    assert isinstance(node.operand, Select)
    assert not node.operand.is_test


@pytest.mark.parametrize(
    ("text", "initial", "called"),
    [
        ("a.all(x, p)", True, ["@not_strictly_false", "_&&_"]),
        ("a.exists(x, p)", False, ["@not_strictly_false", "!_", "_||_"]),
        ("a.exists_one(x, p)", 0, ["_?_:_", "_+_", "_==_"]),
        ("a.all(k, v, p)", True, ["@not_strictly_false", "_&&_"]),
        ("a.exists(k, v, p)", False, ["@not_strictly_false", "!_", "_||_"]),
        ("a.existsOne(k, v, p)", 0, ["_?_:_", "_+_", "_==_"]),
        ("a.exists_one(k, v, p)", 0, ["_?_:_", "_+_", "_==_"]),
    ],
)
def test_quantifiers(text: str, initial: object, called: list[str]) -> None:
    node = fold(text)
    assert (node.accumulator, bool(node.variable2)) == (ACCUMULATOR, "k, v" in text)
    assert isinstance(node.initial, Literal)
    assert (node.initial.value, type(node.initial.value)) == (initial, type(initial))
    assert functions(node) == called


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("a.map(x, f)", ["_+_"]),
        ("a.map(x, p, f)", ["_?_:_", "_+_"]),
        ("a.filter(x, p)", ["_?_:_", "_+_"]),
        ("a.transformList(k, v, f)", ["_+_"]),
        ("a.transformList(k, v, p, f)", ["_?_:_", "_+_"]),
        ("a.transformMap(k, v, f)", ["cel.@mapInsert"]),
        ("a.transformMap(k, v, p, f)", ["_?_:_", "cel.@mapInsert"]),
        ("a.transformMapEntry(k, v, f)", ["cel.@mapInsert"]),
        ("a.transformMapEntry(k, v, p, f)", ["_?_:_", "cel.@mapInsert"]),
    ],
)
def test_lists_and_maps_are_built_step_by_step(text: str, called: list[str]) -> None:
    node = fold(text)
    assert isinstance(node.condition, Literal)
    assert node.condition.value is True
    assert functions(node) == called


def test_bind_is_a_fold_over_nothing() -> None:
    node = fold("cel.bind(x, a, x + x)")
    assert (node.variable, node.accumulator) == (UNUSED, "x")
    assert isinstance(node.iterable, ListLiteral)
    assert node.iterable.items == ()
    assert functions(expanded("other.bind(x, a, x)")) == ["bind"]


def test_opt_map_asks_first_and_copies_its_target() -> None:
    node = expanded("a.b.optMap(x, x.c)")
    assert functions(node) == ["_?_:_", "hasValue", "optional.of", "value", "optional.none"]
    assert functions(expanded("a.optFlatMap(x, x.c)")) == ["_?_:_", "hasValue", "value", "optional.none"]
    names = [part for part in walk(node) if isinstance(part, Ident) and part.name == "a"]
    assert len(names) == 2
    assert names[0].id != names[1].id
    assert names[0].position == names[1].position


def test_sort_by_evaluates_its_target_once() -> None:
    node = fold("a.f().sortBy(x, -x)")
    assert functions(node).count("f") == 1
    assert "@sortByAssociatedKeys" in functions(node)


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("has(a)", "invalid argument to has() macro", 4),
        ("has(a[0])", "invalid argument to has() macro", 5),
        ("a.all(b.c, p)", "argument must be a simple name", 7),
        ("a.exists(1, p)", "argument must be a simple name", 9),
        ("a.exists_one(f(), p)", "argument must be a simple name", 14),
        ("a.map(1, p)", "argument is not an identifier", 6),
        ("a.filter(1, p)", "argument is not an identifier", 9),
        ("a.all(__result__, p)", "iteration variable overwrites accumulator variable", 6),
        ("a.map(__result__, p)", "iteration variable overwrites accumulator variable", 6),
        ("a.all(x, x, p)", "duplicate variable name: x", 9),
        ("a.all(x, 1, p)", "argument must be a simple name", 9),
        ("a.transformMap(x, __result__, p)", "iteration variable overwrites accumulator variable", 18),
        ("cel.bind(a.b, 1, 2)", "cel.bind() variable names must be simple identifiers", 10),
        ("a.optMap(1, 2)", "optMap() variable name must be a simple identifier", 9),
        ("a.optFlatMap(1, 2)", "optFlatMap() variable name must be a simple identifier", 13),
        ("'a'.sortBy(x, x)", "sortBy can only be applied to a list", 0),
        ("{}.sortBy(x, x)", "sortBy can only be applied to a list", 0),
    ],
)
def test_arguments_that_do_not_fit(text: str, message: str, position: int) -> None:
    with pytest.raises(CelError) as caught:
        expanded(text)
    assert str(caught.value).startswith(message)
    assert caught.value.position == position


@pytest.mark.parametrize(
    "text", ["a.all(x)", "all(a, x, p)", "a.has(b.c)", "has(a.b, c)", ".has(a.b)", "a.map(x)"]
)
def test_other_forms_are_plain_calls(text: str) -> None:
    assert not any(
        isinstance(part, Comprehension) or (isinstance(part, Select) and part.is_test)
        for part in walk(expanded(text))
    )


def test_only_listed_macros_are_expanded() -> None:
    assert isinstance(expanded("a.all(x, p)", *macros.STANDARD), Comprehension)
    assert isinstance(expanded("a.all(x, p)", *macros.OPTIONAL), Call)
    assert isinstance(expanded("a.existsOne(x, p)"), Call), "Kubernetes has it with two variables only"


def test_a_macro_may_leave_a_call_alone() -> None:
    leave = Macro("f", 1, lambda builder, target, arguments: None, is_member=False)
    assert isinstance(expanded("f(1)", leave), Call)


def test_nodes_of_a_macro_stand_where_its_call_stands() -> None:
    text = "1 + a.all(x, true)"
    made = [part for part in walk(expanded(text)) if isinstance(part, Ident) and part.name == ACCUMULATOR]
    assert {part.position for part in made} == {text.index("(")}


@pytest.mark.parametrize(
    "text",
    ["1", "a.b", "has(a.b)", "[a, ?b]", "{a: b, ?c: d}", "a.b{c: d}", "f(a.g(b))", "a.all(x, y, x < y)"],
)
def test_a_copy_is_the_same_with_other_numbers(text: str) -> None:
    original = expanded(text)
    builder = Builder()
    builder.number = 1000
    copied = builder.copy(original)
    before, after = list(walk(original)), list(walk(copied))
    assert [type(node) for node in after] == [type(node) for node in before]
    assert all(node.id > 1000 for node in after)
    assert len({node.id for node in after}) == len(after)
    assert builder.copy(copied) != copied


def test_copying_ends() -> None:
    builder = Builder()
    with pytest.raises(CelError, match=str(COPY_LIMIT)):
        for _ in range(COPY_LIMIT + 1):
            builder.copy(Literal(1, 0, None))
