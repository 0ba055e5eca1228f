"""Sizes through and through: each list and map is looked at once, whoever holds it."""

from __future__ import annotations

from typing import Any

import pytest

from dray.cel.sizes import LARGEST, Sizes
from dray.cel.values import JoinedList, MixedMap, Optional, text_of


def _measured(value: Any) -> tuple[int, int]:
    """(size, steps of measuring)."""
    spent: list[int] = []
    return Sizes(spent.append).of(value), sum(spent)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (1, 1),
        (None, 1),
        ("x" * 64, 3),
        (b"x" * 31, 1),
        ((), 1),
        ((1, "a"), 3),
        ({"a": (1, 2)}, 5),
        (MixedMap([(True, 1), (1, 2)]), 5),
        (Optional((1,)), 3),
        (Optional(), 2),
        (JoinedList((1, 2), (3,)), 6),
    ],
)
def test_sizes(value: Any, size: int) -> None:
    assert _measured(value)[0] == size


def test_what_is_held_twice_counts_twice_and_is_measured_once() -> None:
    value: Any = ("x",)
    for _ in range(40):
        value = (value, value)
    size, steps = _measured(value)
    assert size > 2**40 and steps < 400
    for _ in range(1000):
        value = (value, {1: value})
    assert _measured(value)[0] == LARGEST


def test_an_error_shows_the_beginning_only() -> None:
    value: Any = ("x" * 1000,)
    for _ in range(60):
        value = (value, value)
    assert len(text_of(value)) < 2000
    assert text_of((1, "a", {"b": 2}, None, Optional(True))) == "[1, 'a', {'b'}, null, optional.of(true)]"
