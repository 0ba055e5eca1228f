from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dray.apiserver.http.showing.tables import TABLE, table, wants_table
from dray.apiserver.served import Served, standard

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
BORN = "2026-11-15T11:00:00Z"


def served(kind: str) -> Served:
    return next(one for one in standard().all if one.resource.kind == kind)


def rows(kind: str, document: dict[str, Any], include: str = "") -> dict[str, Any]:
    document = {
        "metadata": {"name": "x", "creationTimestamp": BORN, **document.pop("metadata", {})},
        **document,
    }
    return table(served(kind), [document], {"resourceVersion": "7"}, include, NOW)


GOING = {"deletionTimestamp": BORN}
NODE = {
    "metadata": {
        "labels": {"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a", "node-role.kubernetes.io/": ""}
    },
    "spec": {"unschedulable": True},
    "status": {
        "conditions": [{"type": "Ready", "status": "False"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "nodeInfo": {"kubeletVersion": "v1.36.4", "kernelVersion": "6.1", "architecture": "amd64"},
    },
}
EVENT = {
    "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
    "type": "Warning",
    "reason": "Failed",
    "message": " text \n",
    "source": {"component": "kubelet", "host": "n"},
    "firstTimestamp": BORN,
    "lastTimestamp": "2026-11-15T11:59:30Z",
    "count": 3,
}


@pytest.mark.parametrize(
    ("kind", "document", "cells"),
    [
        (
            "Node",
            dict(NODE),
            [
                "x",
                "NotReady,SchedulingDisabled",
                "a,b",
                "60m",
                "v1.36.4",
                "10.0.0.1",
                "<none>",
                "<unknown>",
                "6.1 (amd64)",
                "<unknown>",
            ],
        ),
        (
            "Node",
            {},
            ["x", "Unknown", "<none>", "60m", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"],
        ),
        ("Namespace", {"status": {"phase": "Active"}}, ["x", "Active", "60m"]),
        ("ConfigMap", {"data": {"a": "1"}, "binaryData": {"b": "AA=="}}, ["x", 2, "60m"]),
        ("Lease", {"spec": {"holderIdentity": "me"}}, ["x", "me", "60m"]),
        (
            "ResourceSlice",
            {"spec": {"driver": "d", "nodeName": "n", "pool": {"name": "p"}}},
            ["x", "n", "d", "p", "60m"],
        ),
        ("ResourceClaim", {}, ["x", "pending", "60m"]),
        ("ResourceClaim", {"metadata": GOING}, ["x", "deleted", "60m"]),
        (
            "ResourceClaim",
            {"status": {"allocation": {}, "reservedFor": [{"uid": "u"}]}, "metadata": GOING},
            ["x", "deleted,allocated,reserved", "60m"],
        ),
        (
            "DeviceTaintRule",
            {"spec": {"taint": {"key": "k", "effect": "NoExecute"}}},
            ["x", "k", "", "NoExecute", "", "60m"],
        ),
        (
            "Event",
            dict(EVENT),
            ["30s", "Warning", "Failed", "pod/p", "spec", "kubelet, n", "text", "60m", 3, "x"],
        ),
        (
            "Event",
            {
                "eventTime": "2026-11-15T11:58:00.000000Z",
                "involvedObject": {"kind": "Node"},
                "reportingComponent": "c",
            },
            ["2m", "", "", "node", "", "c", "", "2m", 1, "x"],
        ),
        (
            "Event",
            {
                "eventTime": "2026-11-15T11:58:00.000000Z",
                "series": {"count": 9, "lastObservedTime": "2026-11-15T11:59:59.000000Z"},
            },
            ["1s", "", "", "", "", "", "", "2m", 9, "x"],
        ),
        ("PodTemplate", {"spec": {"whatever": 1}}, ["x", "60m"]),
        ("DeviceClass", {}, ["x", "60m"]),
    ],
)
def test_cells(kind: str, document: dict[str, Any], cells: list[Any]) -> None:
    found = rows(kind, document)
    assert found["rows"][0]["cells"] == cells
    assert len(found["columnDefinitions"]) == len(cells)


def test_what_a_row_carries() -> None:
    for include in ("", "Metadata"):
        told = rows("Node", {"spec": {}}, include)["rows"][0]["object"]
        assert (
            told["kind"] == "PartialObjectMetadata" and told["metadata"]["name"] == "x" and "spec" not in told
        )
    assert rows("Node", {"spec": {"unknown": 1}}, "Object")["rows"][0]["object"]["spec"] == {"unknown": 1}
    assert "object" not in rows("Node", {}, "None")["rows"][0]
    ended = rows("Pod", {"status": {"phase": "Failed"}})["rows"][0]["conditions"]
    assert ended == [
        {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}
    ]
    assert rows("Pod", {})["metadata"] == {"resourceVersion": "7"}


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (TABLE, True),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", True),
        ("application/json, application/json;as=Table;v=v1;g=meta.k8s.io", False),
        ("application/vnd.kubernetes.protobuf, application/json;as=Table;g=meta.k8s.io;v=v1", True),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_who_wants_a_table(accept: str, wanted: bool) -> None:
    assert wants_table(accept) is wanted
