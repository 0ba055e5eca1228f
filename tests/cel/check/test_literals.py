"""Literals that are tried before an expression is accepted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dray.cel import types as t
from dray.cel.ast import Literal, walk
from dray.cel.check.checker import Checked, check
from dray.cel.environment import Environment, Options
from dray.cel.faults import CelError, EvaluationError, Fault
from dray.cel.functions import Implementation, Library, Overload
from dray.cel.syntax.parser import parse
from dray.cel.values import Value


def only(good: str) -> Implementation:
    def run(*values: Value) -> Value:
        if values[-1] != good:
            raise EvaluationError(f"not {good}")
        return True

    return run


def _forty_two(checked: Checked) -> Iterator[Fault]:
    for node in walk(checked.expr):
        if isinstance(node, Literal) and node.value == 42:
            yield Fault("42 is not allowed", node.position)


LIBRARY = Library(
    "tried",
    (
        Overload("string_to_duration", "duration", (t.STRING,), t.DURATION, only("1h")),
        Overload("int64_to_timestamp", "timestamp", (t.INT,), t.TIMESTAMP, only("x")),
        Overload("matches_string", "matches", (t.STRING, t.STRING), t.BOOL, only("a+"), is_member=True),
        Overload("matches", "matches", (t.STRING, t.STRING), t.BOOL, only("a+")),
    ),
    validators=(_forty_two,),
)
KNOWN = Environment({"s": t.STRING}, (LIBRARY,))


def faults(text: str, known: Environment = KNOWN) -> list[tuple[str, int]]:
    try:
        check(parse(text, options=known.parse_options), known)
    except CelError as error:
        return [(fault.message, fault.position) for fault in error.faults]
    return []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("duration('1h')", []),
        ("duration('1x')", [("invalid duration argument", 9)]),
        ("timestamp(5)", [("invalid timestamp argument", 10)]),
        ("duration(s)", []),
        ("s.matches('a+')", []),
        ("s.matches('(')", [("invalid matches argument", 10)]),
        ("s.matches(s)", []),
        ("matches('(', 'a+')", [("invalid matches argument", 8)]),
        ("[duration('1h'), duration('2h')]", [("invalid duration argument", 26)]),
        ("[s, 's'].size", [("type 'list(string)' does not support field selection", 8)]),
    ],
)
def test_a_literal_that_could_only_fail_is_a_fault(text: str, expected: list[tuple[str, int]]) -> None:
    assert faults(text) == expected


def test_libraries_have_their_own_validators() -> None:
    assert faults("[1, 42]") == [("42 is not allowed", 4)]


def test_literals_are_left_alone_where_the_environment_says_so() -> None:
    known = KNOWN.extend(options=Options(validates_literals=False))
    assert faults("duration('1x')", known) == []
