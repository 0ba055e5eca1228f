from __future__ import annotations

from typing import Any

import pytest

from dray.api.http_status import to_status
from dray.apiserver.patching.refusal import PatchError, shown


@pytest.mark.parametrize(
    ("status", "reason"),
    [(400, "BadRequest"), (413, "RequestEntityTooLarge"), (415, "UnsupportedMediaType"), (422, "Invalid")],
)
def test_a_refusal_knows_what_to_answer(status: int, reason: str) -> None:
    error = PatchError("no", status)
    assert (error.status, error.reason, error.field) == (status, reason, "patch")
    assert to_status(error).code == 422


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (None, "null"),
        (True, "true"),
        ({}, "{}"),
        ([1, 2], "a list of 2"),
        ({"b": 1, "a": {}}, '{"a", "b"}'),
        (dict.fromkeys("gfedcba"), '{"a", "b", "c", "d", "e", …}'),
        ("x" * 999, "x" * 120 + "…"),
    ],
)
def test_values_in_messages_are_short(value: Any, text: str) -> None:
    assert shown(value) == text
