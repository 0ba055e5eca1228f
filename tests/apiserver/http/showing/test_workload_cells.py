from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dray.apiserver.http.showing.tables import table
from dray.apiserver.served import standard

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "x"}, {"name": "d", "image": "y"}]}}
SELECTOR = {"matchLabels": {"a": "b"}}


def cells(group: str, plural: str, document: dict[str, Any], version: str = "v1") -> dict[str, Any]:
    metadata = {"name": "x", "creationTimestamp": "2030-01-01T11:00:00Z"} | document.get("metadata", {})
    found = table(standard().at(group, version, plural), [document | {"metadata": metadata}], {}, "None", NOW)
    names = [one["name"] for one in found["columnDefinitions"]]
    return dict(zip(names, found["rows"][0]["cells"], strict=True))


def test_workloads() -> None:
    spec = {"replicas": 3, "selector": SELECTOR, "template": TEMPLATE}
    found = cells("apps", "deployments", {"spec": spec, "status": {"readyReplicas": 1, "updatedReplicas": 2}})
    assert (found["Ready"], found["Up-to-date"], found["Available"], found["Age"]) == ("1/3", 2, 0, "60m")
    assert (found["Containers"], found["Images"], found["Selector"]) == ("c,d", "x,y", "a=b")
    found = cells("apps", "replicasets", {"spec": spec, "status": {"replicas": 2}})
    assert (found["Desired"], found["Current"], found["Ready"]) == (3, 2, 0)
    assert cells("apps", "statefulsets", {"spec": spec})["Ready"] == "0/3"
    found = cells("apps", "daemonsets", {"spec": spec, "status": {"desiredNumberScheduled": 4}})
    assert (found["Desired"], found["Node Selector"]) == (4, "<none>")


@pytest.mark.parametrize(
    ("status", "word", "took"),
    [
        ({}, "Running", ""),
        ({"startTime": "2030-01-01T11:59:00Z"}, "Running", "60s"),
        (
            {
                "startTime": "2030-01-01T11:00:00Z",
                "completionTime": "2030-01-01T11:00:05Z",
                "conditions": [{"type": "Complete", "status": "True"}],
            },
            "Complete",
            "5s",
        ),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, "Failed", ""),
        ({"conditions": [{"type": "Suspended", "status": "True"}]}, "Suspended", ""),
    ],
)
def test_jobs(status: dict[str, Any], word: str, took: str) -> None:
    found = cells("batch", "jobs", {"spec": {"completions": 2}, "status": {"succeeded": 1, **status}})
    assert (found["Status"], found["Completions"], found["Duration"]) == (word, "1/2", took)
    assert cells("batch", "jobs", {"spec": {"parallelism": 3}})["Completions"] == "0/1 of 3"


def test_services() -> None:
    ports = [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]
    found = cells("", "services", {"spec": {"type": "NodePort", "clusterIP": "10.96.0.2", "ports": ports}})
    assert (found["Cluster-IP"], found["External-IP"]) == ("10.96.0.2", "<none>")
    assert found["Port(s)"] == "80:30080/TCP,53/UDP"
    assert cells("", "services", {"spec": {"type": "LoadBalancer"}})["External-IP"] == "<pending>"
    outside = {"type": "ExternalName", "externalName": "example.com"}
    assert cells("", "services", {"spec": outside})["External-IP"] == "example.com"


def test_the_rest() -> None:
    assert cells("", "secrets", {"type": "Opaque", "data": {"a": "b"}})["Data"] == 1
    assert "Secrets" not in cells("", "serviceaccounts", {})
    assert cells("scheduling.k8s.io", "priorityclasses", {"value": 7})["Value"] == 7
    bound = {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}, 7]}
    found = cells("rbac.authorization.k8s.io", "rolebindings", bound)
    assert (found["Role"], found["Users"], found["Groups"]) == ("Role/r", "u", "")
    found = cells("apiextensions.k8s.io", "customresourcedefinitions", {})
    assert found["Created At"] == "2030-01-01T11:00:00Z"
    event = {"regarding": {"kind": "Pod", "name": "p"}, "note": "text", "deprecatedCount": 2}
    found = cells("events.k8s.io", "events", event)
    assert (found["Object"], found["Message"], found["Count"]) == ("pod/p", "text", 2)


@pytest.mark.parametrize(
    "wrong", [7, "x", [], [7], {"template": 7, "selector": 7, "ports": [7], "parallelism": "x"}]
)
def test_nonsense_breaks_no_table(wrong: Any) -> None:
    kinds = (
        ("apps", "deployments"),
        ("apps", "daemonsets"),
        ("batch", "jobs"),
        ("", "services"),
        ("", "secrets"),
    )
    for group, plural in kinds:
        assert cells(group, plural, {"spec": wrong, "status": wrong, "data": wrong})["Name"] == "x"
