"""Paths and what can be done there: query parameters, bodies and answers, each marked with the kind it is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from dray.apiserver.http.discovery import JSON
from dray.apiserver.patching.shape_table import SCHEMAS, long_name

Document = dict[str, Any]
DELETE_OPTIONS: Final = "meta.v1.DeleteOptions"
LIST_META: Final = "meta.v1.ListMeta"
OBJECT_META: Final = "meta.v1.ObjectMeta"
PATCH: Final = "meta.v1.Patch"
STATUS: Final = "meta.v1.Status"
_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
_STRATEGIC: Final = "application/strategic-merge-patch+json"
"""Only for kinds whose merge keys are known."""
_WRITE: Final = {"dryRun": "string", "fieldManager": "string", "fieldValidation": "string"}
_DELETE: Final = {
    "dryRun": "string",
    "gracePeriodSeconds": "integer",
    "orphanDependents": "boolean",
    "propagationPolicy": "string",
}
_SELECT: Final = {
    "continue": "string",
    "fieldSelector": "string",
    "labelSelector": "string",
    "limit": "integer",
    "resourceVersion": "string",
    "resourceVersionMatch": "string",
    "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer",
}
_LIST: Final = {**_SELECT, "allowWatchBookmarks": "boolean", "watch": "boolean"}
_METHODS: Final = {
    "get": ("get", {}),
    "update": ("put", _WRITE),
    "patch": ("patch", {**_WRITE, "force": "boolean"}),
    "delete": ("delete", _DELETE),
    "create": ("post", _WRITE),
}


@dataclass(frozen=True)
class Door:
    """A resource or subresource as discovery tells it."""

    root: str
    """`/apis/GROUP/VERSION`."""
    plural: str
    part: str
    """The name of the subresource; empty for the resource itself."""
    namespaced: bool
    kind: dict[str, str]
    schema: str
    """The name of the schema of the kind."""
    shape: str
    """Of the kind; empty where the table has none."""
    verbs: tuple[str, ...]


def paths_of(door: Door) -> Document:
    """All paths of a door."""
    scope = f"{door.root}/namespaces/{{namespace}}" if door.namespaced else door.root
    collection = f"{scope}/{door.plural}"
    where = ("namespace",) if door.namespaced else ()
    if door.part:
        return {f"{collection}/{{name}}/{door.part}": _one(door, ("name", *where), door.verbs)}
    single = tuple(verb for verb in door.verbs if verb != "create")
    made = {
        collection: _collection(door, where),
        f"{collection}/{{name}}": _one(door, ("name", *where), single),
    }
    if door.namespaced:
        made[f"{door.root}/{door.plural}"] = {**_listing(door), "parameters": _in_path(())}
    return made


def _collection(door: Door, where: tuple[str, ...]) -> Document:
    made = {**_listing(door), "parameters": _in_path(where)}
    made["post"] = _operation(door, "post", _WRITE, {JSON: door.shape}, door.schema)
    if "deletecollection" in door.verbs:
        query, taken = {**_DELETE, **_SELECT}, {JSON: DELETE_OPTIONS}
        made["delete"] = _operation(door, "deletecollection", query, taken, long_name(STATUS))
    return made


def _listing(door: Door) -> Document:
    return {"get": _operation(door, "list", _LIST, {}, f"{door.schema}List")}


def _one(door: Door, where: tuple[str, ...], verbs: tuple[str, ...]) -> Document:
    made: Document = {"parameters": _in_path(where)}
    takes: dict[str, dict[str, str]] = {
        "get": {},
        "patch": dict.fromkeys((*_PATCHES, *([_STRATEGIC] if door.shape else ())), PATCH),
        "delete": {JSON: DELETE_OPTIONS},
    }
    for verb, (method, query) in _METHODS.items():
        if verb in verbs:
            taken = takes.get(verb, {JSON: door.shape})
            made[method] = _operation(door, method, query, taken, door.schema)
    return made


def _operation(door: Door, action: str, query: dict[str, str], takes: dict[str, str], gives: str) -> Document:
    """`takes`: the shape of a body by its content type, the kind's own where that is empty."""
    told: Document = {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": door.kind,
        "parameters": [_parameter(name, "query", kind) for name, kind in query.items()],
        "responses": {"200": {"description": "OK", "content": {JSON: _form(gives)}}},
    }
    if takes:
        content = {kind: _form(long_name(shape) if shape else door.schema) for kind, shape in takes.items()}
        told["requestBody"] = {"content": content, "required": action not in ("delete", "deletecollection")}
    return told


def _in_path(names: tuple[str, ...]) -> list[Document]:
    """The parts of the path, and what every request may ask."""
    told = [{**_parameter(name, "path", "string"), "required": True} for name in names]
    return [*told, _parameter("pretty", "query", "string")]


def _parameter(name: str, place: str, kind: str) -> Document:
    return {"name": name, "in": place, "schema": {"type": kind, "uniqueItems": True}}


def _form(schema: str) -> Document:
    return {"schema": {"$ref": f"{SCHEMAS}{schema}"}}
