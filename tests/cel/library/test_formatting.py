from __future__ import annotations

import pytest

from dray.cel.faults import CelError
from dray.cel.library.formatting import format_text
from dray.cel.values import EvaluationCancelledError
from tests.cel.library.answers import complaints, program


def test_format_answers_as_in_kubernetes() -> None:
    assert complaints("formatting") == []


@pytest.mark.parametrize(
    ("template", "value", "text"),
    [
        ("%s%%", "x", "x%"),
        ("%%%s", "x", "%x"),
        ("%%%%s%s%%%%%%", "x", "%%sx%%%"),
        ("%.2f", 1234.567, "1,234.57"),
        ("%.0f", 2.5, "2"),
        ("%e", 1052.032911275, "1.052033×10⁰³"),
        ("%X", "é", "C3A9"),
        ("%b", True, "1"),
        ("%o", -8, "-10"),
        ("%s", ({"b": 1.5, "a": (None, b"x")},), '[{"a":[null, b"x"], "b":1.500000}]'),
        ("%.300f", 1.5, "1.5" + "0" * 43),
    ],
)
def test_clauses(template: str, value: object, text: str) -> None:
    assert format_text(template, (value,)) == text


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("'%s %d'.format([1, 'a'])", "decimal clause can only be used on integers, was given string", 19),
        ("'%s'.format([[1, ip('::1')]])", "was given net.IP", 19),
        ("'%s'.format([1, 2])", "too many arguments supplied to string.format (expected 1, got 2)", 11),
        ("'%y'.format([1])", 'unrecognized formatting clause "y"', 11),
    ],
)
def test_templates_in_the_text_are_tried_before_they_run(text: str, message: str, position: int) -> None:
    with pytest.raises(CelError) as caught:
        program(text)
    assert message in caught.value.faults[0].message
    assert caught.value.position == position


def test_one_long_text_many_times_does_not_fill_the_memory() -> None:
    with pytest.raises(EvaluationCancelledError):
        format_text("%s" * 1000, ("x" * 100_000,) * 1000)


def test_nested_lists_do_not_fill_the_memory() -> None:
    nested: tuple[object, ...] = ("x",)
    for _ in range(60):
        nested = (nested, nested)
    with pytest.raises(EvaluationCancelledError):
        format_text("%s", (nested,))
