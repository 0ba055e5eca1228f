from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from dray.api.defaults import is_latest, set_defaults
from dray.api.kinds import (
    ALL_RESOURCES,
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)

NOW = datetime(2026, 11, 15, 4, 30, 1, 999, tzinfo=UTC)
WHEN = "2026-11-15T04:30:01Z"


def defaulted(resource: Resource[Any], document: dict[str, Any]) -> dict[str, Any]:
    result = copy.deepcopy(document)
    set_defaults(resource, result, NOW)
    again = copy.deepcopy(result)
    set_defaults(resource, again, NOW.replace(year=2030))
    assert again == result, "doing it again changes nothing"
    return result


@pytest.mark.parametrize(
    ("given", "mode", "count"),
    [
        ({}, "ExactCount", 1),
        ({"count": 3}, "ExactCount", 3),
        ({"count": -3}, "ExactCount", -3),
        ({"allocationMode": "All"}, "All", None),
        ({"allocationMode": "ExactCount", "count": 0}, "ExactCount", 1),
        ({"allocationMode": "Odd"}, "Odd", None),
        ({"allocationMode": None}, "ExactCount", 1),
    ],
)
def test_requests(given: dict[str, Any], mode: str, count: int | None) -> None:
    devices = {"requests": [{"exactly": dict(given)}, {"firstAvailable": [dict(given)]}]}
    claim = defaulted(RESOURCE_CLAIMS, {"spec": {"devices": devices}})["spec"]["devices"]
    template = defaulted(RESOURCE_CLAIM_TEMPLATES, {"spec": {"spec": {"devices": devices}}})["spec"]["spec"][
        "devices"
    ]
    assert claim == template
    for request in (claim["requests"][0]["exactly"], claim["requests"][1]["firstAvailable"][0]):
        assert (request["allocationMode"], request.get("count")) == (mode, count)


def test_tolerations_of_requests_and_results() -> None:
    tolerations = [{"key": "a"}, {"operator": "Exists"}]
    document = {
        "spec": {"devices": {"requests": [{"exactly": {"tolerations": tolerations}}]}},
        "status": {"allocation": {"devices": {"results": [{"tolerations": tolerations}]}}},
    }
    done = defaulted(RESOURCE_CLAIMS, document)
    expected = [{"key": "a", "operator": "Equal"}, {"operator": "Exists"}]
    assert done["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] == expected
    assert done["status"]["allocation"]["devices"]["results"][0]["tolerations"] == expected


def test_slice() -> None:
    device = {
        "taints": [{"key": "a"}, {"key": "b", "timeAdded": "2020-01-01T00:00:00Z"}],
        "nodeAllocatableResourceMappings": {"cpu": {}, "memory": {"allocationMultiplier": "2"}},
    }
    done = defaulted(RESOURCE_SLICES, {"spec": {"devices": [device]}})["spec"]["devices"][0]
    assert [taint["timeAdded"] for taint in done["taints"]] == [WHEN, "2020-01-01T00:00:00Z"]
    mappings = done["nodeAllocatableResourceMappings"]
    assert mappings == {"cpu": {"allocationMultiplier": "1"}, "memory": {"allocationMultiplier": "2"}}


def test_taint_rule() -> None:
    assert (
        defaulted(DEVICE_TAINT_RULES, {"spec": {"taint": {"key": "a"}}})["spec"]["taint"]["timeAdded"] == WHEN
    )


def test_pod() -> None:
    containers = [
        {"image": "a:1", "resources": {"limits": {"cpu": "1", "x.io/y": 2}, "requests": {"cpu": "500m"}}},
        {"image": "b", "ports": [{"containerPort": 80}], "terminationMessagePolicy": "FallbackToLogsOnError"},
    ]
    volumes = [{"name": "a"}, {"name": "b", "configMap": {}}, {"name": "c", "hostPath": {"path": "/"}}]
    document = {"spec": {"containers": containers, "volumes": volumes, "hostNetwork": True}}
    spec = defaulted(PODS, document)["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["securityContext"] == {}
    first, second = spec["containers"]
    assert first["resources"]["requests"] == {"cpu": "500m", "x.io/y": 2}
    assert (first["imagePullPolicy"], second["imagePullPolicy"]) == ("IfNotPresent", "Always")
    assert (first["terminationMessagePolicy"], first["terminationMessagePath"]) == (
        "File",
        "/dev/termination-log",
    )
    assert second["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert second["ports"] == [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]
    assert spec["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "configMap": {"defaultMode": 0o644}},
        {"name": "c", "hostPath": {"path": "/", "type": ""}},
    ]


@pytest.mark.parametrize(
    ("image", "latest"),
    [
        ("a", True),
        ("a:latest", True),
        ("host:5000/a", True),
        ("host:5000/a:1", False),
        ("a:1", False),
        ("a@sha256:00", False),
        ("", False),
        (None, False),
    ],
)
def test_is_latest(image: str | None, latest: bool) -> None:
    assert is_latest(image) is latest


def test_node_and_namespace() -> None:
    assert defaulted(NODES, {"status": {"capacity": {"cpu": 4}}})["status"]["allocatable"] == {"cpu": 4}
    assert (
        defaulted(NODES, {"status": {"capacity": {"cpu": 4}, "allocatable": {}}})["status"]["allocatable"]
        == {}
    )
    labels = defaulted(NAMESPACES, {"metadata": {"name": "a"}})["metadata"]["labels"]
    assert labels == {"kubernetes.io/metadata.name": "a"}


@pytest.mark.parametrize(
    "value", [None, 5, "x", [], [1, "a", None], {"devices": 3, "containers": {"a": 1}, "taint": []}]
)
def test_what_is_wrong_is_left_for_decoding(value: object) -> None:
    for resource in ALL_RESOURCES:
        for key in ("spec", "status", "metadata"):
            defaulted(resource, {key: value})
