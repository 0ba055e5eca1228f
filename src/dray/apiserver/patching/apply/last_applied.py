"""The annotation of client-side `kubectl apply`: it lets kubectl move to server-side apply without conflicts."""

from __future__ import annotations

import json
from typing import Any, Final

from dray.apiserver.patching.apply.check import faults
from dray.apiserver.patching.apply.compare import compared, field_set
from dray.apiserver.patching.apply.conflicts import ApplyConflictError
from dray.apiserver.patching.apply.fields import PathSet, go_json
from dray.apiserver.patching.apply.ownership import Rules
from dray.apiserver.patching.apply.schema import Document

MANAGER: Final = "kubectl"
"""Only this field manager is treated so; another name opts out."""
ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MOST_BYTES: Final = 256 * 1024
"""What all annotations of an object may take together."""


def _annotations(document: Document) -> Document:
    metadata = document.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def remaining(conflict: ApplyConflictError, live: Document, rules: Rules) -> ApplyConflictError | None:
    """The conflicts that are not about what kubectl itself applied earlier; None where there is none left."""
    allowed = _applied_before(live, rules)
    if allowed is None:
        return conflict
    rest = tuple(one for one in conflict.conflicts if one.path not in allowed)
    return ApplyConflictError(rest) if rest else None


def _applied_before(live: Document, rules: Rules) -> PathSet | None:
    """The fields of the last configuration that still have its values."""
    try:
        before = json.loads(_annotations(live).get(ANNOTATION) or "null")
    except (TypeError, ValueError):
        return None
    if not isinstance(before, dict) or before.get("apiVersion") != rules.api_version:
        return None
    if any(True for one in (live, before) for _ in faults(one, rules.type, is_applied=True)):
        return None
    comparison = compared(before, live, rules.type)
    fields = field_set(before, rules.type)
    return fields.difference(comparison.set).difference(comparison.removed)


def with_last_applied(document: Document, patch: Document) -> Document:
    """The annotation brought up to date, where the object has it; it goes when it would be too large."""
    if not _annotations(document).get(ANNOTATION):
        return document
    annotations = {**_annotations(document), ANNOTATION: _written(patch)}
    if sum(len(name.encode()) + len(str(text).encode()) for name, text in annotations.items()) > _MOST_BYTES:
        del annotations[ANNOTATION]
    metadata: dict[str, Any] = {**document["metadata"], "annotations": annotations}
    if not annotations:
        del metadata["annotations"]
    return {**document, "metadata": metadata}


def _written(patch: Document) -> str:
    """The configuration without the annotation itself, as Go writes it: sorted, in one line, with a line end."""
    metadata = patch.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("annotations"), dict):
        annotations = {name: text for name, text in metadata["annotations"].items() if name != ANNOTATION}
        patch = {**patch, "metadata": {**metadata, "annotations": annotations}}
    return go_json(patch) + "\n"
