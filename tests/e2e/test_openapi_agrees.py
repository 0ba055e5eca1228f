"""Our OpenAPI documents against those of the real API server: schemas equal but for descriptions, operations a part of theirs."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.apiserver.http.openapi import openapi_document, openapi_index
from dray.apiserver.http.paths import Group
from dray.apiserver.served import standard
from dray.testing.kubernetes.control_plane import ControlPlane
from tests.oracle_patch.table import plain

Document = dict[str, Any]
KIND = "x-kubernetes-group-version-kind"
NOT_THERE = {"apis/kubevirt.io/v1", "apis/scheduling.k8s.io/v1alpha2"}
"""Served by the real one only when it is told to; the generator of the table has asked one that was."""
KNOWN = ["api/v1 delete /api/v1/namespaces"]
"""Ours deletes all namespaces at once, where the real one wants to be asked for each."""


def test_documents_agree(apiserver: ControlPlane) -> None:
    wrong, seen = [], 0
    theirs = apiserver.request("GET", "/openapi/v3")["paths"]
    for name in openapi_index(standard())["paths"]:
        if name in NOT_THERE:
            continue
        real = apiserver.request("GET", theirs[name]["serverRelativeURL"])
        ours = _ours(name)
        seen += len(ours["components"]["schemas"])
        wrong += [f"{name} {one}" for one in (*_schemas(real, ours), *_operations(real, ours))]
    print(seen, "schemas")
    assert seen > 500
    assert wrong == KNOWN


def _ours(name: str) -> Document:
    head, *middle, version = name.split("/")
    group = middle[0] if head == "apis" else ""
    found: Document = msgspec.json.decode(openapi_document(standard(), Group(not group, group, version)))
    return found


def _schemas(real: Document, ours: Document) -> list[str]:
    known = real["components"]["schemas"]
    told = ours["components"]["schemas"]
    return [name for name in told if name not in known or _usual(told[name]) != _usual(known[name])]


def _operations(real: Document, ours: Document) -> list[str]:
    wrong = []
    for path, methods in ours["paths"].items():
        known = real["paths"].get(path, {})
        for method, one in methods.items():
            other = known.get(method)
            if method == "parameters":
                continue
            if other is None or any(one[key] != other[key] for key in (KIND, "x-kubernetes-action")):
                wrong.append(f"{method} {path}")
            elif extra := _asked(methods, one) - _asked(known, other):
                wrong.append(f"{method} {path}: {sorted(extra)}")
    return wrong


def _asked(path: Document, operation: Document) -> set[tuple[str, str, str]]:
    return _names(path.get("parameters", [])) | _names(operation.get("parameters", []))


def _names(parameters: list[Document]) -> set[tuple[str, str, str]]:
    return {(one["name"], one["in"], one["schema"]["type"]) for one in parameters}


def _usual(schema: Any) -> Any:
    """Without descriptions and without the wrapping that a reference has only where a description stands beside it."""
    return _sorted(plain(schema))


def _sorted(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_sorted(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _sorted(value) for key, value in schema.items()}
    if isinstance(made.get("required"), list):
        made["required"].sort()
    wrapped = made.get("allOf")
    return wrapped[0] if isinstance(wrapped, list) and set(made) == {"allOf"} else made
