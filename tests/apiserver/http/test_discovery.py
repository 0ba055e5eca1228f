from __future__ import annotations

from typing import Any

from dray.apiserver.http.discovery import discover, discover_all
from dray.apiserver.http.paths import Group
from dray.apiserver.served import standard

SERVING = standard()


def test_groups_have_their_newest_stable_version_first() -> None:
    groups = {one["name"]: one for one in discover(SERVING, Group(False))["groups"]}
    dra = groups["resource.k8s.io"]
    assert [one["version"] for one in dra["versions"]] == ["v1", "v1beta2"]
    assert dra["preferredVersion"] == {"groupVersion": "resource.k8s.io/v1", "version": "v1"}
    alone = discover(SERVING, Group(False, "resource.k8s.io"))
    assert alone == {"kind": "APIGroup", "apiVersion": "v1", **dra}
    assert discover(SERVING, Group(True))["versions"] == ["v1"]


def test_resources_of_a_version() -> None:
    told = discover(SERVING, Group(True, "", "v1"))
    assert told["groupVersion"] == "v1"
    found = {one["name"]: one for one in told["resources"]}
    assert found["pods"]["shortNames"] == ["po"] and found["pods"]["namespaced"]
    assert found["pods/binding"]["kind"] == "Binding" and found["pods/binding"]["verbs"] == ["create"]
    assert (found["pods/eviction"]["group"], found["pods/eviction"]["kind"]) == ("policy", "Eviction")
    assert found["nodes"]["singularName"] == "node" and not found["nodes"]["namespaced"]
    assert "shortNames" not in found["nodes/status"]


def test_both_forms_tell_the_same() -> None:
    for core in (True, False):
        for group in discover_all(SERVING, core=core)["items"]:
            name = group["metadata"].get("name", "")
            assert (name == "") == core
            for version in group["versions"]:
                old = discover(SERVING, Group(core, name, version["version"]))["resources"]
                assert _flat(version["resources"]) == {one["name"]: one["verbs"] for one in old}


def _flat(resources: list[dict[str, Any]]) -> dict[str, list[str]]:
    found = {}
    for one in resources:
        found[one["resource"]] = one["verbs"]
        for door in one.get("subresources", ()):
            found[f"{one['resource']}/{door['subresource']}"] = door["verbs"]
    return found
