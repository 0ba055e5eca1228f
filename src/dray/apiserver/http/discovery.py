"""What the server says it serves: Kubernetes' discovery in its old form and in one piece. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dray.apiserver.http.paths import Group
from dray.apiserver.served import Served, Serving

Document = dict[str, Any]
JSON = "application/json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_DOORS: Mapping[str, tuple[str, ...]] = {
    "status": ("get", "patch", "update"),
    "binding": ("create",),
    "eviction": ("create",),
    "finalize": ("update",),
    "scale": ("get", "patch", "update"),
}
_KINDS = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
}
"""Doors that take a kind of their own."""


def discover(serving: Serving, wanted: Group) -> Document:
    """For `/api`, `/apis`, a group, or one version of a group, in the form that every client knows."""
    if wanted.version:
        return _resources(serving, wanted)
    if wanted.core:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    groups = [_group(name, versions) for name, versions in _groups(serving) if name]
    if wanted.group:
        found = next(one for one in groups if one["name"] == wanted.group)
        return {"kind": "APIGroup", "apiVersion": "v1", **found}
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def discover_all(serving: Serving, *, core: bool) -> Document:
    """For `/api` and `/apis` in one piece, as newer clients ask for it."""
    items = []
    for name, versions in _groups(serving):
        if (name == "") != core:
            continue
        told = [_aggregated_version(serving, name, version) for version in versions]
        items.append({"metadata": {"name": name} if name else {}, "versions": told})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _groups(serving: Serving) -> Iterator[tuple[str, list[str]]]:
    """Every group with its versions, the preferred one first."""
    found: dict[str, list[str]] = {}
    for one in serving.all:
        versions = found.setdefault(one.resource.group, [])
        versions += [version for version in one.versions if version not in versions]
    yield from ((name, sorted(versions, key=_rank)) for name, versions in sorted(found.items()))


def _rank(version: str) -> tuple[int, str]:
    """Stable before beta before alpha, and in each the newest first: `v2 v1 v1beta2 v1beta1 v1alpha3`."""
    level = 2 if "alpha" in version else 1 if "beta" in version else 0
    digits = "".join(each if each.isdigit() else " " for each in version).split()
    return level, "".join(f"{99999 - int(one):05}" for one in digits)


def _group(name: str, versions: list[str]) -> Document:
    told = [{"groupVersion": f"{name}/{one}", "version": one} for one in versions]
    return {"name": name, "versions": told, "preferredVersion": told[0]}


def _of(serving: Serving, group: str, version: str) -> list[Served]:
    found = (one for one in serving.all if one.resource.group == group and version in one.versions)
    return sorted(found, key=lambda one: one.resource.plural)


def _resources(serving: Serving, wanted: Group) -> Document:
    listed: list[Document] = []
    for one in _of(serving, wanted.group, wanted.version):
        place = one.resource
        main: Document = {
            "name": place.plural,
            "singularName": one.singular,
            "namespaced": place.namespaced,
            "kind": place.kind,
            "verbs": list(_VERBS),
        }
        if one.short_names:
            main["shortNames"] = list(one.short_names)
        if one.categories:
            main["categories"] = list(one.categories)
        listed.append(main)
        listed += [_door(one, name) for name in sorted(one.subresources)]
    version = f"{wanted.group}/{wanted.version}" if wanted.group else wanted.version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": listed}


def _door(served: Served, name: str) -> Document:
    told: Document = {
        "name": f"{served.resource.plural}/{name}",
        "singularName": "",
        "namespaced": served.resource.namespaced,
        "kind": served.resource.kind,
        "verbs": list(_DOORS[name]),
    }
    if name in _KINDS:
        group, version, kind = _KINDS[name]
        told |= {"kind": kind} | ({"group": group, "version": version} if group else {})
    return told


def _aggregated_version(serving: Serving, group: str, version: str) -> Document:
    listed = []
    for one in _of(serving, group, version):
        place = one.resource
        told: Document = {
            "resource": place.plural,
            "responseKind": {"group": group, "version": version, "kind": place.kind},
            "scope": "Namespaced" if place.namespaced else "Cluster",
            "singularResource": one.singular,
            "verbs": list(_VERBS),
        }
        if one.short_names:
            told["shortNames"] = list(one.short_names)
        if one.categories:
            told["categories"] = list(one.categories)
        if one.subresources:
            told["subresources"] = [_aggregated_door(one, version, name) for name in sorted(one.subresources)]
        listed.append(told)
    return {"version": version, "resources": listed, "freshness": "Current"}


def _aggregated_door(served: Served, version: str, name: str) -> Document:
    own = (served.resource.group, version, served.resource.kind)
    group, spoken, kind = _KINDS.get(name, own)
    return {
        "subresource": name,
        "responseKind": {"group": group, "version": spoken, "kind": kind},
        "verbs": list(_DOORS[name]),
    }
