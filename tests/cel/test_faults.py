"""Faults as text."""

from __future__ import annotations

import pytest

from dray.cel.faults import CelError, Fault, line_and_column, render


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("a + b", 4, "ERROR: <input>:1:5: m\n | a + b\n | ....^"),
        ("a +\n  b", 6, "ERROR: <input>:2:3: m\n |   b\n | ..^"),
        ("a\t+ b", 4, "ERROR: <input>:1:5: m\n | a + b\n | ....^"),
        ("'é' + é", 6, "ERROR: <input>:1:7: m\n | 'é' + é\n | .\uff0e....\uff3e"),
        ("a", 1, "ERROR: <input>:1:2: m\n | a\n | .^"),
        ("", 0, "ERROR: <input>:1:1: m\n | \n | ^"),
        ("a", -1, "ERROR: <input>:-1:0: m"),
        ("a" * 20_000, 3, "ERROR: <input>:1:4: m"),
    ],
)
def test_a_fault_is_shown_below_its_line(text: str, position: int, expected: str) -> None:
    assert render(CelError("m", position=position), text) == expected


def test_many_faults_are_cut() -> None:
    error = CelError.of([Fault(f"m{number}", 200 - number) for number in range(103)])
    assert len(error.faults) == 100
    assert error.position == 101
    assert render(error, "a" * 300).endswith("\n3 more errors were truncated")


def test_faults_of_a_long_line_are_cut() -> None:
    """Each would show all of it."""
    error = CelError.of([Fault("m", number) for number in range(100)])
    shown = render(error, "a" * 10_000)
    assert len(shown) < 100_000
    assert shown.startswith("ERROR: <input>:1:1: m\n") and shown.endswith("\n93 more errors were truncated")


def test_lines_and_columns_count_from_one() -> None:
    text = "ab\nc\n\nd"
    assert [line_and_column(text, at) for at in (0, 2, 3, 5, 6, 7)] == [
        (1, 1),
        (1, 3),
        (2, 1),
        (3, 1),
        (4, 1),
        (4, 2),
    ]
