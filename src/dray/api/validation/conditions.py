"""Rules for lists of conditions (the common form)."""

from __future__ import annotations

import re
from typing import Final

from dray.api import names
from dray.api.field_errors import FieldError, Path
from dray.api.meta import Condition
from dray.api.validation.faults import (
    by_rule,
    duplicate,
    invalid,
    longer_than,
    not_supported,
    required,
    too_long,
)

_STATUSES: Final = ("False", "True", "Unknown")
_MAX_REASON: Final = 1024
_MAX_MESSAGE: Final = 32 * 1024
_is_reason: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]*[A-Za-z0-9_])?").fullmatch
_REASON_RULE: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'"
)


def check_conditions(conditions: tuple[Condition, ...], path: Path) -> list[FieldError]:
    """Each condition, and that no type is there twice. How many there may be is the caller's rule."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, condition in enumerate(conditions):
        here = path.index(position)
        if condition.type in seen:
            errors.append(duplicate(here.child("type"), condition.type))
        seen.add(condition.type)
        errors += _condition(condition, here)
    return errors


def _condition(condition: Condition, path: Path) -> list[FieldError]:
    errors = by_rule(names.label_key, condition.type, path.child("type"))
    if condition.status not in _STATUSES:
        errors.append(not_supported(path.child("status"), condition.status, _STATUSES))
    if condition.observed_generation < 0:
        text = "must be greater than or equal to zero"
        errors.append(invalid(path.child("observedGeneration"), condition.observed_generation, text))
    if condition.last_transition_time is None:
        errors.append(required(path.child("lastTransitionTime")))
    errors += _reason(condition.reason, path.child("reason"))
    if longer_than(condition.message, _MAX_MESSAGE):
        errors.append(too_long(path.child("message"), _MAX_MESSAGE))
    return errors


def _reason(reason: str, path: Path) -> list[FieldError]:
    if not reason:
        return [required(path)]
    errors = [] if _is_reason(reason) else [invalid(path, reason, _REASON_RULE)]
    return [*errors, too_long(path, _MAX_REASON)] if longer_than(reason, _MAX_REASON) else errors
