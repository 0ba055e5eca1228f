"""The one door to all patches but apply: what a PATCH request makes of an object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dray.api.codec.json_codec import loads
from dray.apiserver.patching.documents import copied, is_deeper
from dray.apiserver.patching.json_patch import json_patched, read_operations
from dray.apiserver.patching.merge_patch import merge_patched
from dray.apiserver.patching.refusal import PatchError
from dray.apiserver.patching.shapes import Shape, shape_of, tidied
from dray.apiserver.patching.strategic import strategic_patched
from dray.errors import InvalidError

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

MAX_PATCH_BYTES: Final = 3 * 1024 * 1024
MAX_DEPTH: Final = 200
"""Of the object, the patch and the result. Kubernetes' deepest kinds have some thirty levels."""

_TOO_DEEP: Final = f"nested too deeply: more than {MAX_DEPTH} levels"


def accepted_types(resource_kind: str) -> tuple[str, ...]:
    """The content types that a PATCH of this kind may have; a kind without Go types has no strategic merge patch."""
    strategic = () if shape_of(resource_kind) is None else (STRATEGIC_MERGE_PATCH,)
    return (JSON_PATCH, MERGE_PATCH, *strategic, APPLY_PATCH)


def patched(resource_kind: str, content_type: str, current: dict[str, Any], patch: bytes) -> dict[str, Any]:
    """The patched object, sharing nothing with `current`; not defaulted, not validated, its metadata as the patch left it.

    `resource_kind` is apiVersion and kind, as in `v1/Pod` or `resource.k8s.io/v1/ResourceClaim`. Called inside a
    transaction, so each time on the newest object. Every fault is a PatchError, with the status to answer.
    """
    shape = shape_of(resource_kind)
    media_type = content_type.partition(";")[0].strip()
    if media_type not in accepted_types(resource_kind) or media_type == APPLY_PATCH:
        raise PatchError(
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(accepted_types(resource_kind)),
            415,
        )
    change = _read(patch)
    if is_deeper(current, MAX_DEPTH):
        raise PatchError(f"the object is {_TOO_DEEP}")
    result = _within_stack(lambda: _changed(media_type, shape, current, change))
    if not isinstance(result, dict):
        raise PatchError("the patch makes the object a list; an object is needed")
    if is_deeper(result, MAX_DEPTH):
        raise PatchError(f"the patched object is {_TOO_DEEP}")
    return result if shape is None else tidied(result, shape)


def _read(patch: bytes) -> Any:
    if len(patch) > MAX_PATCH_BYTES:
        raise PatchError(f"Request entity too large: limit is {MAX_PATCH_BYTES}", 413)
    try:
        change = loads(patch)
    except InvalidError as error:
        raise PatchError(f"error decoding patch: {error}", 400) from None
    if is_deeper(change, MAX_DEPTH):
        raise PatchError(f"error decoding patch: {_TOO_DEEP}", 400)
    return change


def _changed(media_type: str, shape: Shape | None, current: dict[str, Any], change: Any) -> Any:
    if media_type == JSON_PATCH:
        return json_patched(current, read_operations(change))
    if change is None and media_type == STRATEGIC_MERGE_PATCH:
        return copied(current)
    if not isinstance(change, dict):
        raise PatchError("error decoding patch: an object is needed", 400)
    if shape is None or media_type == MERGE_PATCH:
        return merge_patched(current, change)
    return strategic_patched(current, change, shape)


def _within_stack(work: Callable[[], Any]) -> Any:
    """The operations of a JSON patch can nest a document in itself, deeper than any stack."""
    try:
        return work()
    except RecursionError:
        raise PatchError(f"the patched object is {_TOO_DEEP}") from None
    except PatchError:
        raise
    except InvalidError as error:
        raise PatchError(str(error)) from None
