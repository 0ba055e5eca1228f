from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dray.apiserver.custom.definition import check, complete, served_by
from dray.apiserver.served import Column
from dray.errors import InvalidError
from tests.apiserver.custom.definitions import definition

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NONE = frozenset[str]()


def test_what_the_server_adds() -> None:
    document = definition()
    complete(document, NOW)
    status = document["status"]
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert status["storedVersions"] == ["v1"] and status["acceptedNames"] == document["spec"]["names"]
    before = dict(status)
    complete(document, datetime(2031, 1, 1, tzinfo=UTC))
    assert document["status"] == before


def test_a_new_storage_version_is_added_to_those_stored() -> None:
    document = definition()
    complete(document, NOW)
    first, second = document["spec"]["versions"]
    first["storage"], second["storage"] = False, True
    complete(document, NOW)
    assert document["status"]["storedVersions"] == ["v1", "v1beta1"]


def test_what_is_served() -> None:
    document = definition()
    complete(document, NOW)
    found = served_by(document)
    assert found is not None and found.is_custom
    assert (str(found.resource), found.resource.api_version) == ("widgets.example.com", "example.com/v1")
    assert (found.versions, found.subresources) == (("v1", "v1beta1"), ("scale", "status"))
    assert (found.singular, found.short_names, found.categories) == ("widget", ("wd",), ("all",))
    assert found.columns[0] == Column("Phase", ".status.phase")
    assert [one.label for one in found.fields] == ["spec.color"]
    assert [name for name, _ in found.schemas] == ["v1", "v1beta1"]


def test_scale_at_another_place_is_not_served() -> None:
    document = definition()
    document["spec"]["versions"][0]["subresources"]["scale"]["specReplicasPath"] = ".spec.count"
    found = served_by(document)
    assert found is not None and found.subresources == ("status",)


def test_nothing_is_served_without_a_version() -> None:
    assert served_by(definition(versions=[])) is None


def test_a_good_one_has_no_faults() -> None:
    assert check(definition(), NONE) == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"group": ""}, "spec.group: Required value"),
        ({"group": "apps"}, "spec.group: Forbidden"),
        ({"scope": "Galaxy"}, 'spec.scope: Unsupported value: "Galaxy"'),
        ({"names": {"plural": "widgets"}}, "spec.names.kind: Required value"),
        ({"names": {"plural": "gadgets", "kind": "G"}}, 'must be spec.names.plural+"."+spec.group'),
        ({"conversion": {"strategy": "Webhook"}}, 'spec.conversion.strategy: Unsupported value: "Webhook"'),
        ({"versions": []}, "must have exactly one version marked as storage version"),
        ({"versions": [{"name": "v1", "storage": True}]}, "openAPIV3Schema: Required value"),
        (
            {"versions": [{"name": "v1", "storage": True}, {"name": "v1"}]},
            "must contain unique version names",
        ),
    ],
)
def test_faults(changes: dict[str, Any], text: str) -> None:
    assert any(text in str(fault) for fault in check(definition(**changes), frozenset({"apps"})))


def test_what_cannot_be_read() -> None:
    with pytest.raises(InvalidError, match=r"spec\.versions"):
        complete(definition(versions=7), NOW)


@pytest.mark.parametrize(
    "status", [[], 7, {"storedVersions": 7}, {"conditions": [7]}, {"storedVersions": [{}]}]
)
def test_a_status_that_is_none(status: Any) -> None:
    for act in (lambda document: complete(document, NOW), lambda document: check(document, NONE)):
        with pytest.raises(InvalidError, match="status"):
            act(definition() | {"status": status})


def test_a_schema_that_is_none_is_told_by_its_place() -> None:
    document = definition()
    document["spec"]["versions"][1]["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "properties": {"a": {"type": "x"}},
    }
    assert [one.field for one in check(document, NONE)] == [
        "spec.versions[1].schema.openAPIV3Schema.properties[a].type"
    ]
