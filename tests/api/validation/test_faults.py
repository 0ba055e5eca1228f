"""The phrases that users know from the API server."""

from __future__ import annotations

import pytest

from dray.api import names
from dray.api.field_errors import FieldError, Path, to_error
from dray.api.validation import faults

AT = Path("spec").child("x")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (faults.required(AT), "spec.x: Required value"),
        (faults.required(AT, "why"), "spec.x: Required value: why"),
        (faults.invalid(AT, "a\n", "why"), 'spec.x: Invalid value: "a\\n": why'),
        (faults.invalid(AT, -1, "why"), "spec.x: Invalid value: -1: why"),
        (faults.invalid(AT, None, "why"), "spec.x: Invalid value: null: why"),
        (faults.immutable(AT, "b"), 'spec.x: Invalid value: "b": field is immutable'),
        (
            faults.not_supported(AT, "c", ["a", "b"]),
            'spec.x: Unsupported value: "c": supported values: "a", "b"',
        ),
        (faults.too_many(AT, 33, 32), "spec.x: Too many: 33: must have at most 32 items"),
        (faults.too_many(AT, 2, 1), "spec.x: Too many: 2: must have at most 1 item"),
        (faults.too_long(AT, 63), "spec.x: Too long: may not be more than 63 bytes"),
        (faults.duplicate(AT, "a"), 'spec.x: Duplicate value: "a"'),
        (faults.forbidden(AT, "why"), "spec.x: Forbidden: why"),
        (faults.not_found(AT, "a"), 'spec.x: Not found: "a"'),
    ],
)
def test_phrase(error: FieldError, text: str) -> None:
    assert str(error) == text


def test_a_length_is_a_fault_of_its_own() -> None:
    long, wrong = faults.by_rule(names.driver_name, "_" * 64, AT)
    assert (long.reason, wrong.reason) == ("FieldValueTooLong", "FieldValueInvalid")


@pytest.mark.parametrize(
    ("key", "limit", "shown"),
    [
        ("short", 96, "short"),
        ("a" * 96, 96, "a" * 96),
        ("a" * 50 + "b" * 50, 96, "a" * 47 + "..." + "b" * 46),
        ("c" * 17, 5, "c" * 7 + "..." + "c" * 6),
    ],
)
def test_overlong_keys_are_shortened_in_the_middle(key: str, limit: int, shown: str) -> None:
    assert faults.shortened(key, limit) == shown


def test_all_faults_of_an_object_in_one_error() -> None:
    error = to_error("ResourceSlice", "a", [faults.required(AT), faults.forbidden(AT, "why")])
    assert str(error) == 'ResourceSlice "a" is invalid: [spec.x: Required value, spec.x: Forbidden: why]'
