"""Plain documents: copies, and equality as JSON has it."""

from __future__ import annotations

from typing import Any


def copied(value: Any) -> Any:
    """A copy that shares no container with `value`."""
    if isinstance(value, dict):
        return {key: copied(one) if isinstance(one, dict | list) else one for key, one in value.items()}
    if isinstance(value, list):
        return [copied(one) if isinstance(one, dict | list) else one for one in value]
    return value


def is_same(left: Any, right: Any) -> bool:
    """Whether two documents are equal; in Python 1, 1.0 and True are too, in JSON they are not."""
    if left.__class__ is not right.__class__:
        return False
    if isinstance(left, dict):
        return len(left) == len(right) and all(
            key in right and is_same(one, right[key]) for key, one in left.items()
        )
    if isinstance(left, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    return bool(left == right)


def is_deeper(value: Any, limit: int) -> bool:
    """Whether containers are nested deeper than `limit`; looks level by level, so that depth costs no stack."""
    level = [value]
    for _ in range(limit):
        level = [
            one
            for outer in level
            for one in (
                outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ()
            )
        ]
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)
