"""OpenAPI v3, one document for each version of a group: enough for kubectl to check what it sends on the server. Pure.

The forms of objects are open: the server itself checks them, with better words.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import msgspec

from dray.apiserver.http.discovery import JSON
from dray.apiserver.http.paths import Group
from dray.apiserver.served import Served, Serving

Document = dict[str, Any]
ROOT = "/openapi/v3"
_QUERY = ("dryRun", "fieldManager", "fieldValidation", "pretty")
_LIST_QUERY = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)


def openapi_index(serving: Serving) -> Document:
    """Which documents there are. The hash in an address changes with what it leads to, so clients may keep it."""
    found = {}
    for group, version in _versions(serving):
        name = _name(group, version)
        digest = hashlib.sha256(openapi_document(serving, Group(not group, group, version))).hexdigest()
        found[name] = {"serverRelativeURL": f"{ROOT}/{name}?hash={digest[:32].upper()}"}
    return {"paths": found}


@lru_cache(maxsize=64)
def openapi_document(serving: Serving, wanted: Group) -> bytes:
    """The document of one version of a group."""
    paths: Document = {}
    schemas: Document = {}
    for one in serving.all:
        if one.resource.group == wanted.group and wanted.version in one.versions:
            _add(paths, schemas, one, wanted.version)
    document = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes, served by Dray", "version": "v1.36"},
        "paths": paths,
        "components": {"schemas": schemas},
    }
    return msgspec.json.encode(document, order="sorted")


def _versions(serving: Serving) -> list[tuple[str, str]]:
    return sorted({(one.resource.group, version) for one in serving.all for version in one.versions})


def _name(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _add(paths: Document, schemas: Document, served: Served, version: str) -> None:
    kind = {"group": served.resource.group, "version": version, "kind": served.resource.kind}
    name = f"{served.resource.group or 'core'}.{version}.{served.resource.kind}"
    schemas[name] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-group-version-kind": [kind],
    }
    base = f"/{_name(served.resource.group, version)}"
    where = [f"{base}/namespaces/{{namespace}}"] if served.resource.namespaced else []
    collection = f"{(where or [base])[0]}/{served.resource.plural}"
    if where:
        paths[f"{base}/{served.resource.plural}"] = {"get": _operation("list", kind, name, _LIST_QUERY)}
    paths[collection] = {
        "get": _operation("list", kind, name, _LIST_QUERY),
        "post": _operation("post", kind, name, _QUERY, (JSON,)),
        "delete": _operation("deletecollection", kind, name, _LIST_QUERY),
    }
    doors = ("", *(f"/{door}" for door in served.subresources if door in ("status", "finalize")))
    for door in doors:
        paths[f"{collection}/{{name}}{door}"] = {
            "get": _operation("get", kind, name, ()),
            "put": _operation("put", kind, name, _QUERY, (JSON,)),
            "patch": _operation("patch", kind, name, (*_QUERY, "force"), _PATCHES),
            **({} if door else {"delete": _operation("delete", kind, name, ("dryRun", "propagationPolicy"))}),
        }


def _operation(
    action: str, kind: Document, schema: str, query: tuple[str, ...], takes: tuple[str, ...] = ()
) -> Document:
    form = {"schema": {"$ref": f"#/components/schemas/{schema}"}}
    told: Document = {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind,
        "parameters": [{"name": one, "in": "query", "schema": {"type": "string"}} for one in query],
        "responses": {"200": {"description": "OK", "content": {JSON: form}}},
    }
    if takes:
        told["requestBody"] = {"content": dict.fromkeys(takes, form)}
    return told
