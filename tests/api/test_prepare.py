from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dray.api.kinds import (
    CONFIG_MAPS,
    DEVICE_TAINT_RULES,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from dray.api.prepare import prepare_create, prepare_status, prepare_update

NOW = datetime(2026, 11, 15, 4, 30, tzinfo=UTC)
WHEN = "2026-11-15T04:30:00Z"
RESULT = {"driver": "d", "pool": "p", "device": "x"}
ALLOCATION: dict[str, Any] = {"devices": {"results": [RESULT]}}


def stored(**more: Any) -> dict[str, Any]:
    metadata = {"name": "a", "uid": "u", "resourceVersion": "7", "generation": 4, "creationTimestamp": WHEN}
    return {"metadata": metadata, **more}


def test_create_sets_what_is_the_server_s() -> None:
    document: dict[str, Any] = {
        "metadata": {"name": "a", "uid": "x", "generation": 9, "deletionTimestamp": WHEN}
    }
    prepare_create(RESOURCE_SLICES, document, uid="u", now=NOW)
    assert document["metadata"] == {"name": "a", "uid": "u", "generation": 1, "creationTimestamp": WHEN}


def test_create_drops_the_status_but_a_node_s() -> None:
    for resource, kept in ((RESOURCE_CLAIMS, None), (DEVICE_TAINT_RULES, None), (NODES, {"a": 1})):
        document: dict[str, Any] = {"status": {"a": 1}}
        prepare_create(resource, document, uid="u", now=NOW)
        assert document.get("status") == kept
    pod: dict[str, Any] = {"status": {"phase": "Running"}}
    prepare_create(PODS, pod, uid="u", now=NOW)
    assert pod["status"] == {"phase": "Pending"}


def test_create_keeps_a_namespace_alive() -> None:
    document: dict[str, Any] = {"metadata": {"name": "a"}}
    prepare_create(NAMESPACES, document, uid="u", now=NOW)
    assert document["spec"] == {"finalizers": ["kubernetes"]}
    assert document["status"] == {"phase": "Active"}


def test_update_keeps_what_is_not_the_client_s() -> None:
    new: dict[str, Any] = {"metadata": {"name": "a", "generation": 77}, "spec": {"a": 1}, "status": {"a": 1}}
    prepare_update(RESOURCE_CLAIMS, new, stored(spec={"a": 1}, status={"b": 2}), now=NOW)
    assert new == stored(spec={"a": 1}, status={"b": 2})


def test_update_counts_changes_of_the_spec() -> None:
    for resource, generation in ((RESOURCE_SLICES, 5), (RESOURCE_CLAIMS, 4), (CONFIG_MAPS, 4)):
        new: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {"a": 2}}
        prepare_update(resource, new, stored(spec={"a": 1}), now=NOW)
        assert new["metadata"]["generation"] == generation


def test_a_lease_must_say_what_it_was_made_from() -> None:
    new: dict[str, Any] = {"metadata": {"name": "a"}}
    prepare_update(LEASES, new, stored(), now=NOW)
    assert "resourceVersion" not in new["metadata"]


def test_a_taint_rule_s_new_effect_is_dated_anew() -> None:
    old = stored(spec={"taint": {"effect": "None", "timeAdded": "2020-01-01T00:00:00Z"}})
    for effect, given, dated in (
        ("NoExecute", "2020-01-01T00:00:00Z", WHEN),
        ("None", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("NoExecute", "2021-01-01T00:00:00Z", "2021-01-01T00:00:00Z"),
    ):
        new: dict[str, Any] = {"metadata": {}, "spec": {"taint": {"effect": effect, "timeAdded": given}}}
        prepare_update(DEVICE_TAINT_RULES, new, old, now=NOW)
        assert new["spec"]["taint"]["timeAdded"] == dated


def test_status_keeps_everything_else() -> None:
    new: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {"a": 2}, "status": {"c": 3}, "odd": 1}
    prepare_status(RESOURCE_CLAIMS, new, stored(spec={"a": 1}, status={"b": 2}))
    assert new == stored(spec={"a": 1}, status={"c": 3})


def test_reports_go_with_their_devices() -> None:
    other = {**RESULT, "device": "y"}
    old = stored(status={"allocation": ALLOCATION, "devices": [RESULT]})
    new: dict[str, Any] = {"metadata": {}, "status": {"devices": [RESULT, other]}}
    prepare_status(RESOURCE_CLAIMS, new, old)
    assert new["status"] == {"devices": [other]}
    new = {"metadata": {}, "status": {"devices": [RESULT]}}
    prepare_status(RESOURCE_CLAIMS, new, old)
    assert new["status"] == {}
    new = {"metadata": {}, "status": {"allocation": ALLOCATION, "devices": [RESULT]}}
    prepare_status(RESOURCE_CLAIMS, new, old)
    assert new["status"]["devices"] == [RESULT]


def test_an_owner_is_named_once() -> None:
    owner = {"uid": "o", "controller": True}
    document: dict[str, Any] = {"metadata": {"ownerReferences": [owner, dict(owner), {"uid": "o"}]}}
    prepare_create(PODS, document, uid="u", now=NOW)
    assert document["metadata"]["ownerReferences"] == [owner, {"uid": "o"}]
