"""The table of shapes out of a real API server's OpenAPI documents: names, types and marks, none of their sentences.

`dray.apiserver.patching.shape_table` describes the form and reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dray.apiserver.patching.shape_table import SCHEMAS, long_name, short_name
from dray.testing.kubernetes import commands
from dray.testing.kubernetes.control_plane import ControlPlane
from dray.testing.kubernetes.tools import locate

Document = dict[str, Any]
TOOLS = Path(__file__).parents[1] / "e2e" / "tools"
WITH_ALPHA = "scheduling.k8s.io/v1alpha2=true"
BESIDES = {
    "apiextensions.k8s.io/v1/CustomResourceDefinition": "apiextensions.v1.CustomResourceDefinition",
    "authentication.k8s.io/v1/TokenRequest": "authentication.v1.TokenRequest",
    "autoscaling/v1/Scale": "autoscaling.v1.Scale",
    "policy/v1/Eviction": "policy.v1.Eviction",
    "v1/Binding": "core.v1.Binding",
}
"""Kinds that the Go program does not know: definitions, and what only subresources take."""
ALSO = tuple(f"meta.v1.{name}" for name in ("DeleteOptions", "ListMeta", "Patch", "Status"))
"""What requests and answers hold besides the kinds."""
_ZERO: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False}
_KIND = "x-kubernetes-group-version-kind"


class _AllVersions(ControlPlane):
    """Serves the alpha version that kube-scheduler asks for, too."""

    def _apiserver_command(self) -> commands.Command:
        return [
            f"{word},{WITH_ALPHA}" if str(word).startswith("--runtime-config=") else word
            for word in super()._apiserver_command()
        ]


def real_documents(kinds: Iterable[str]) -> dict[str, Document]:
    """The documents of these kinds' versions as a real API server gives them, by `api/v1`, `apis/apps/v1`."""
    versions = sorted({kind.rpartition("/")[0] for kind in (*kinds, *BESIDES)})
    names = [f"apis/{version}" if "/" in version else f"api/{version}" for version in versions]
    with _AllVersions(locate(TOOLS), feature_gates={"GenericWorkload": True}) as plane:
        return {name: plane.request("GET", f"/openapi/v3/{name}") for name in names}


def plain(schema: Any) -> Any:
    """A schema without descriptions."""
    if isinstance(schema, list):
        return [plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: plain(one) for name, one in value.items()} if key == "properties" else plain(value)
        for key, value in schema.items()
        if key != "description"
    }


def table(kinds: dict[str, str], documents: dict[str, Document]) -> Document:
    """The shapes of the kinds and of all that they hold. `kinds` has short names as Go's packages give them."""
    known = {
        name: plain(one) for each in documents.values() for name, one in each["components"]["schemas"].items()
    }
    kinds = kinds | BESIDES
    todo = [long_name(name) for name in (*kinds.values(), *ALSO)]
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += _references(known[name])
    names = sorted(found, key=short_name)
    shapes = {short_name(name): _shape(known[name]) for name in names}
    traits = {short_name(name): _traits(known[name]) for name in names}
    return {
        "kinds": kinds,
        "shapes": shapes,
        "traits": {name: held for name, held in traits.items() if held},
    }


def _traits(schema: Document) -> Document:
    """What is told of a shape besides its fields; an empty type where it may be anything."""
    held = {
        key: value
        for key, value in sorted(schema.items())
        if key not in ("properties", "required", _KIND) and (key, value) != ("type", "object")
    }
    return held if "type" in schema or "oneOf" in schema else {**held, "type": ""}


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for one in schema for name in _references(one)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"].removeprefix(SCHEMAS)] if isinstance(schema.get("$ref"), str) else []
    return own + [name for value in schema.values() for name in _references(value)]


def _shape(schema: Document) -> dict[str, str]:
    required = schema.get("required", ())
    return {name: _field(one, name in required) for name, one in sorted(schema.get("properties", {}).items())}


def _field(schema: Document, is_required: bool) -> str:
    left = dict(schema)
    word, zero = _type(left)
    told = word + ("!" if is_required else "")
    if "default" in left:
        default = left.pop("default")
        told += "=" if default == zero and type(default) is type(zero) else f"={json.dumps(default)}"
    marks = [told]
    if strategy := left.pop("x-kubernetes-patch-strategy", ""):
        marks.append(" ".join(("patch", strategy, left.pop("x-kubernetes-patch-merge-key", ""))).rstrip())
    if form := left.pop("x-kubernetes-list-type", ""):
        marks.append(" ".join(("list", form, *left.pop("x-kubernetes-list-map-keys", ()))))
    if form := left.pop("x-kubernetes-map-type", ""):
        marks.append(f"map {form}")
    if values := left.pop("enum", None):
        marks.append("enum " + "|".join(values))
    assert not left, f"the table has no word for {left}"
    return "; ".join(marks)


def _type(left: Document) -> tuple[str, Any]:
    """The type in one word, taken out of the schema, and the value that Go gives it when it is left out."""
    if "allOf" in left:
        [reference] = left.pop("allOf")
        return short_name(reference["$ref"].removeprefix(SCHEMAS)), {}
    if "$ref" in left:
        return short_name(left.pop("$ref").removeprefix(SCHEMAS)), {}
    kind = left.pop("type")
    for key, sign in (("items", "[]"), ("additionalProperties", "{}")):
        if key in left:
            item = dict(left.pop(key))
            word, _ = _type(item)
            item.pop("default", None)
            values = item.pop("enum", ())
            assert not item, f"the table has no word for items that are {item}"
            return sign + word + (f"({'|'.join(values)})" if values else ""), None
    form = left.pop("format", "")
    return kind + (f":{form}" if form else ""), _ZERO.get(kind)
