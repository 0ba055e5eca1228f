"""Whole documents, and the index of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

from dray.apiserver.http.discovery import discover
from dray.apiserver.http.openapi.operations import (
    DELETE_OPTIONS,
    LIST_META,
    OBJECT_META,
    PATCH,
    STATUS,
    Door,
    paths_of,
)
from dray.apiserver.http.openapi.schemas import (
    Kind,
    custom_schema,
    kind_mark,
    list_schema,
    reachable,
    schema,
)
from dray.apiserver.http.paths import Group
from dray.apiserver.patching.shape_table import long_name, shape_table
from dray.apiserver.served import Serving

Document = dict[str, Any]
ROOT: Final = "/openapi/v3"
_KEPT: Final = 4
"""Documents kept in memory. Clients keep them too, so each is asked for rarely."""


@lru_cache(maxsize=4)
def openapi_index(serving: Serving) -> Document:
    """Which documents there are. The hash in an address changes with what it leads to, so clients may keep it."""
    found = {}
    for group, version in sorted(
        {(one.resource.group, each) for one in serving.all for each in one.versions}
    ):
        name = f"apis/{group}/{version}" if group else f"api/{version}"
        digest = hashlib.sha256(_encoded(serving, Group(not group, group, version))).hexdigest()
        found[name] = {"serverRelativeURL": f"{ROOT}/{name}?hash={digest.upper()}"}
    return {"paths": found}


@lru_cache(maxsize=_KEPT)
def openapi_document(serving: Serving, wanted: Group) -> bytes:
    """The document of one version of a group."""
    return _encoded(serving, wanted)


def _encoded(serving: Serving, wanted: Group) -> bytes:
    doors = _doors(serving, wanted)
    paths: Document = {}
    for door in doors:
        paths |= paths_of(door)
    document = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes, served by Dray", "version": "v1.36"},
        "paths": paths,
        "components": {"schemas": _schemas(serving, doors, wanted)},
    }
    return msgspec.json.encode(document, order="sorted")


def _doors(serving: Serving, wanted: Group) -> list[Door]:
    """Resources and subresources, as discovery tells them."""
    made = []
    root = f"/apis/{wanted.group}/{wanted.version}" if wanted.group else f"/api/{wanted.version}"
    for told in discover(serving, wanted)["resources"]:
        group, version = told.get("group", wanted.group), told.get("version", wanted.version)
        plural, _, part = told["name"].partition("/")
        kind = {"group": group, "version": version, "kind": told["kind"]}
        shape = shape_table().kinds.get("/".join(filter(None, kind.values())), "")
        name = long_name(shape) if shape else ".".join((*reversed(group.split(".")), version, told["kind"]))
        made.append(Door(root, plural, part, told["namespaced"], kind, name, shape, tuple(told["verbs"])))
    return made


def _schemas(serving: Serving, doors: list[Door], wanted: Group) -> Document:
    found: Document = {}
    for door in doors:
        if not door.shape:
            served = serving.at(wanted.group, wanted.version, door.plural)
            found[door.schema] = custom_schema(door.kind, dict(served.schemas).get(wanted.version, b""))
        if "list" in door.verbs:
            found[f"{door.schema}List"] = list_schema(door.schema, door.kind)
    marks = {shape: [kind] for kind, shape in _kinds()} | _of_machinery(wanted)
    held = (door.shape for door in doors if door.shape)
    for shape in sorted(reachable((*held, DELETE_OPTIONS, LIST_META, OBJECT_META, PATCH, STATUS))):
        found[long_name(shape)] = schema(shape) | kind_mark(marks.get(shape, ()))
    return found


def _kinds() -> Iterator[tuple[Kind, str]]:
    """All kinds of the table, with their shapes."""
    for path, shape in shape_table().kinds.items():
        api_version, _, kind = path.rpartition("/")
        group, _, version = api_version.rpartition("/")
        yield {"group": group, "version": version, "kind": kind}, shape


def _of_machinery(wanted: Group) -> dict[str, list[Kind]]:
    """DeleteOptions are of every group that takes them, a Status is only of the core."""
    core = {"group": "", "version": "v1"}
    own = {"group": wanted.group, "version": wanted.version}
    kinds = [core] if own == core else [core, own]
    return {
        DELETE_OPTIONS: [{**one, "kind": "DeleteOptions"} for one in kinds],
        STATUS: [{**core, "kind": "Status"}],
    }
