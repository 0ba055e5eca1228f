"""`/scale` of a workload: how many replicas are wanted, in a form that is the same for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dray.api.codec import encode, loads
from dray.api.field_errors import Path
from dray.api.validation.faults import invalid
from dray.apiserver.patching.field_types import wrong_type
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Transaction
from dray.apiserver.writing import metadata
from dray.apiserver.writing.faults import BadRequestError, ObjectInvalidError
from dray.apiserver.writing.request import Write, Written, document_of, existing
from dray.apiserver.writing.update import update

_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(document: Document) -> Document:
    """What a GET answers."""
    spec, status = _object(document.get("spec")), _object(document.get("status"))
    given = {key: value for key, value in document["metadata"].items() if key in _KEPT}
    told: Document = {"replicas": status.get("replicas", 0)}
    if selector := selector_text(spec.get("selector")):
        told["selector"] = selector
    wanted = {"replicas": replicas} if (replicas := spec.get("replicas")) else {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": given,
        "spec": wanted,
        "status": told,
    }


def selector_text(selector: Any) -> str:
    """A label selector as text, the labels first; nothing where it is none."""
    if not isinstance(selector, dict):
        return ""
    labels = selector.get("matchLabels", selector if "matchExpressions" not in selector else {})
    terms = [f"{key}={value}" for key, value in sorted(labels.items())] if isinstance(labels, dict) else []
    expressions = selector.get("matchExpressions")
    for one in map(_object, expressions if isinstance(expressions, list) else ()):
        key, operator, listed = one.get("key"), one.get("operator"), one.get("values")
        values = ",".join(map(str, listed if isinstance(listed, list) else ()))
        found = {"Exists": str(key), "DoesNotExist": f"!{key}"}.get(str(operator))
        terms.append(found or f"{key} {'in' if operator == 'In' else 'notin'} ({values})")
    return ",".join(terms)


def update_scale(transaction: Transaction, write: Write, change: Callable[[Document | None], Any]) -> Written:
    """PUT and PATCH: only `spec.replicas` counts. Answers with the new Scale."""
    stored = existing(transaction, write)
    scale = change(scale_of(document_of(stored)))
    replicas = _replicas(write, scale)
    if fault := wrong_type("autoscaling/v1/Scale", scale):
        raise BadRequestError(f"Scale cannot be handled as a Scale: {fault}", field=fault.field)
    given = dict(_object(scale.get("metadata")))
    metadata.check_uid(write, given, stored.uid)
    metadata.check_version(write, given, stored)

    def scaled(current: Document | None) -> Document:
        assert current is not None, "it was found above"
        return current | {"spec": {**_object(current.get("spec")), "replicas": replicas}}

    written = update(transaction, write, scaled, door="scale")
    return Written(written.outcome, encode(scale_of(loads(written.raw))), written.warnings)


def _object(value: Any) -> Document:
    """Workloads are kept as they came, so anything may be anywhere."""
    return value if isinstance(value, dict) else {}


def _replicas(write: Write, scale: Any) -> int:
    if not isinstance(scale, dict) or scale.get("kind", "Scale") != "Scale":
        raise BadRequestError("the object provided is unrecognized: it must be a Scale of autoscaling/v1")
    spec = scale.get("spec")
    wanted = spec.get("replicas", 0) if isinstance(spec, dict) else 0
    if isinstance(wanted, bool) or not isinstance(wanted, int) or abs(wanted) >= 2**31:
        raise BadRequestError(
            "Scale cannot be handled as a Scale: spec.replicas: must be a 32-bit integer",
            field="spec.replicas",
        )
    if wanted < 0:
        fault = invalid(Path("spec").child("replicas"), wanted, "must be greater than or equal to 0")
        raise ObjectInvalidError("Scale.autoscaling", write.name, [fault])
    return wanted
