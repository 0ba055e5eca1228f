from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from dray.api.kinds import ALL_RESOURCES, Resource
from dray.apiserver.http.discovery import JSON
from dray.apiserver.http.openapi import ROOT, openapi_document, openapi_index, openapi_v2
from dray.apiserver.http.paths import Group
from dray.apiserver.served import GenericObject, Served, Serving, standard

Document = dict[str, Any]
KIND = "x-kubernetes-group-version-kind"
STRATEGIC = "application/strategic-merge-patch+json"
WIDGETS = Served(
    Resource("shop.example.com", "v2", "widgets", "Widget", True, GenericObject, has_status=False),
    "widget",
    versions=("v2",),
    schemas=(
        (
            "v2",
            b'{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}',
        ),
    ),
)


def document(group: str, version: str, serving: Serving | None = None) -> Document:
    wanted = Group(not group, group, version)
    found: Document = msgspec.json.decode(openapi_document(serving or standard(), wanted))
    return found


def schema_of(told: Document, kind: str) -> Document:
    """As kubectl finds it: by the mark of its kind."""
    schemas = told["components"]["schemas"].values()
    [found] = [one for one in schemas if kind in [each["kind"] for each in one.get(KIND, ())]]
    schema: Document = found
    return schema


def references(value: Any) -> set[str]:
    if isinstance(value, list):
        return {name for one in value for name in references(one)}
    if not isinstance(value, dict):
        return set()
    own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
    return own | {name for one in value.values() for name in references(one)}


def test_every_version_has_a_document_whose_references_lead_somewhere() -> None:
    paths = openapi_index(standard())["paths"]
    assert {"api/v1", "apis/resource.k8s.io/v1", "apis/apps/v1"} <= paths.keys()
    for name, where in paths.items():
        head, *middle, version = name.split("/")
        told = document(middle[0] if head == "apis" else "", version)
        assert where["serverRelativeURL"].startswith(f"{ROOT}/{name}?hash=")
        known = {f"#/components/schemas/{one}" for one in told["components"]["schemas"]}
        assert references(told) <= known
        assert told["paths"]


def test_the_hash_changes_with_the_document_only() -> None:
    one = openapi_index(standard())["paths"]
    other = openapi_index(Serving(each for each in standard().all if each.resource.plural != "secrets"))[
        "paths"
    ]
    assert one["api/v1"] != other["api/v1"]
    assert one["apis/apps/v1"] == other["apis/apps/v1"]


@pytest.mark.parametrize("resource", ALL_RESOURCES, ids=lambda one: one.kind)
def test_kubectl_finds_what_it_looks_for_of_our_kinds(resource: Resource[Any]) -> None:
    """To patch: the query parameters and merge keys; to explain: the fields."""
    told = document(resource.group, resource.version)
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    path = told["paths"][f"{root}{scope}/{resource.plural}/{{name}}"]
    patch = path["patch"]
    assert patch[KIND] == {"group": resource.group, "version": resource.version, "kind": resource.kind}
    assert {"dryRun", "fieldManager", "fieldValidation", "force"} == {
        one["name"] for one in patch["parameters"]
    }
    assert STRATEGIC in patch["requestBody"]["content"]
    assert {"name", "pretty"} <= {one["name"] for one in path["parameters"]}
    assert (f"{root}{scope}/{resource.plural}/{{name}}/status" in told["paths"]) == resource.has_status
    assert {"apiVersion", "kind", "metadata"} <= schema_of(told, resource.kind)["properties"].keys()


def test_a_field_is_told_in_full() -> None:
    schemas = document("", "v1")["components"]["schemas"]
    spec = schemas["io.k8s.api.core.v1.PodSpec"]
    assert spec["required"] == ["containers"]
    assert spec["properties"]["resourceClaims"] == {
        "type": "array",
        "items": {
            "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodResourceClaim"}],
            "default": {},
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge,retainKeys",
    }
    assert spec["properties"]["restartPolicy"]["enum"] == ["Always", "Never", "OnFailure"]
    assert spec["properties"]["terminationGracePeriodSeconds"] == {"type": "integer", "format": "int64"}
    assert spec["properties"]["nodeSelector"] == {
        "type": "object",
        "additionalProperties": {"type": "string", "default": ""},
        "x-kubernetes-map-type": "atomic",
    }
    assert schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"] == {
        "oneOf": [{"type": "string"}, {"type": "number"}]
    }


def test_descriptions_are_our_own_and_speak_of_the_api() -> None:
    schemas = document("resource.k8s.io", "v1")["components"]["schemas"]
    told = {name: one["description"] for name, one in schemas.items() if "description" in one}
    assert "io.k8s.api.resource.v1.ResourceClaim" in told
    assert not [text for text in told.values() if "None" in text or "_" in text]


def test_subresources_take_kinds_of_their_own() -> None:
    eviction = document("", "v1")["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]
    assert set(eviction) == {"post", "parameters"}
    assert eviction["post"][KIND] == {"group": "policy", "version": "v1", "kind": "Eviction"}


def test_a_custom_kind_is_told_as_its_definition_says() -> None:
    told = document("shop.example.com", "v2", Serving((*standard().all, WIDGETS)))
    schema = told["components"]["schemas"]["com.example.shop.v2.Widget"]
    assert schema["properties"]["spec"]["properties"] == {"size": {"type": "integer"}}
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    path = told["paths"]["/apis/shop.example.com/v2/namespaces/{namespace}/widgets/{name}"]
    assert STRATEGIC not in path["patch"]["requestBody"]["content"]


def test_a_kind_of_which_nothing_is_known_is_open() -> None:
    told = document("shop.example.com", "v2", Serving([replace(WIDGETS, schemas=())]))
    assert schema_of(told, "Widget")["x-kubernetes-preserve-unknown-fields"] is True


def test_version_two_knows_no_kinds() -> None:
    body, kind = openapi_v2("application/json")
    assert kind == JSON
    assert msgspec.json.decode(body)["definitions"] == {}
    body, kind = openapi_v2("application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
    assert kind.endswith("+protobuf")
    assert body.startswith(b"\n\x032.0\x12")
    assert body.endswith(b"B\x00J\x00")
