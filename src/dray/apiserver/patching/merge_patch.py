"""JSON merge patch (RFC 7386), with what the API server adds: nulls inside a list's objects are dropped as well."""

from __future__ import annotations

from typing import Any

from dray.apiserver.patching.documents import copied


def merge_patched(document: Any, patch: Any) -> Any:
    """The document with the patch merged in: a null removes, an object merges, all else replaces."""
    if not isinstance(patch, dict):
        return copied(patch)
    return _merged(document, patch) if isinstance(document, dict) else _without_nulls(patch)


def _merged(document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    result = {key: copied(value) for key, value in document.items() if key not in patch}
    for key, change in patch.items():
        if change is not None:
            result[key] = _merged_value(document.get(key), change)
    return {key: result[key] for key in _in_order(document, patch) if key in result}


def _merged_value(value: Any, change: Any) -> Any:
    if not isinstance(value, dict):
        return _without_nulls(change)
    # An object replaced by a list keeps the list as it is written, nulls and all: so does the API server.
    return _merged(value, change) if isinstance(change, dict) else copied(change)


def _in_order(document: dict[str, Any], patch: dict[str, Any]) -> list[str]:
    return [*document, *(key for key in patch if key not in document)]


def _without_nulls(value: Any) -> Any:
    """A copy without the null fields of its objects, also of those in lists; null elements of lists stay."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value
