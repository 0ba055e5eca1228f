"""Rows of lists: states, words that are found, and times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dray.api.codec import view
from dray.api.core import Event
from dray.api.kinds import PODS, RESOURCE_CLAIMS
from dray.dashboard.fleet.changes import ChangeLog
from dray.dashboard.fleet.picture import Picture
from dray.dashboard.telling.rows import Filter, claim_rows, event_row, pod_rows
from dray.errors import InvalidError
from tests.dashboard import small_fleet as objects

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)


def _picture(*pods: dict[str, Any], claims: tuple[dict[str, Any], ...] = ()) -> Picture:
    picture = Picture(ChangeLog("t"))
    for resource, documents in ((PODS, pods), (RESOURCE_CLAIMS, claims)):
        for one in documents:
            one["metadata"].setdefault("creationTimestamp", "2026-03-01T12:00:00Z")
            picture.take(resource, (objects.NS, one["metadata"]["name"]), view(one, resource.type))
    return picture


@pytest.mark.parametrize(
    ("spec", "status", "meta", "state"),
    [
        ({}, {}, {}, "pending"),
        ({"nodeName": "n"}, {"phase": "Pending"}, {}, "scheduled"),
        ({"nodeName": "n"}, {"phase": "Running"}, {}, "running"),
        ({"nodeName": "n"}, {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}, {}, "crashing"),
        ({"nodeName": "n"}, {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no device"}, {}, "failed"),
        ({"nodeName": "n"}, {"phase": "Succeeded"}, {"deletionTimestamp": "2026-03-01T12:00:00Z"}, "succeeded"),
        ({"nodeName": "n"}, {"phase": "Running"}, {"deletionTimestamp": "2026-03-01T12:00:00Z"}, "deleting"),
    ],
)  # fmt: skip
def test_how_a_pod_is(spec: Any, status: Any, meta: Any, state: str) -> None:
    pod = objects.pod("p", claims={"c": "c"})
    pod["spec"] |= spec
    pod["metadata"] |= meta
    (row,) = pod_rows(_picture(pod | {"status": status}), Filter(), NOW).rows
    assert (row.state, row.age, row.claims) == (state, 30, ("team-a/c",))
    assert row.reason == ("UnexpectedAdmissionError: no device" if state == "failed" else "")


def test_claims_of_templates_and_of_resources_are_a_pods_too() -> None:
    pod = objects.pod("p", templates={"gpu": "t"})
    statuses = [{"name": "gpu", "resourceClaimName": "p-gpu-x"}]
    pod["status"] = {"resourceClaimStatuses": statuses, "extendedResourceClaimStatus": {"resourceClaimName": "p-ext"}}  # fmt: skip
    (row,) = pod_rows(_picture(pod), Filter(), NOW).rows
    assert row.claims == ("team-a/p-gpu-x", "team-a/p-ext")


def test_alternatives_name_their_classes_once() -> None:
    several = [{"name": "a", "deviceClassName": "x"}, {"name": "b", "deviceClassName": "y"}]
    spec = {"devices": {"requests": [{"name": "r", "firstAvailable": several}, {"name": "s", "exactly": {"deviceClassName": "x"}}]}}  # fmt: skip
    (row,) = claim_rows(_picture(claims=(objects.claim("c", spec),)), Filter(), NOW).rows
    assert (row.device_class, row.requests) == ("x, y", 2)


def test_those_who_wait_come_first_then_the_newest() -> None:
    made = []
    for name, created, phase in (("old", 1, "Running"), ("new", 2, "Running"), ("waits", 0, "Pending")):
        pod = objects.pod(name, claims={"c": "c"})
        pod["metadata"]["creationTimestamp"] = f"2026-03-01T12:00:0{created}Z"
        pod["spec"] |= {"nodeName": "n"} if phase == "Running" else {}
        made.append(pod | {"status": {"phase": phase}})
    found = pod_rows(_picture(*made), Filter(states=frozenset({"running", "pending"})), NOW)
    assert [one.name for one in found.rows] == ["waits", "new", "old"]
    some = pod_rows(_picture(*made), Filter.of({"search": " TEAM-A/N ", "state": "pending"}), NOW)
    assert (some.total, some.states) == (0, {"running": 1})


def test_questions_that_cannot_be_answered() -> None:
    for limit in ("0", "-1", "x", "", "5001", "١"):
        with pytest.raises(InvalidError, match="limit"):
            Filter.of({"limit": limit})


def test_a_series_of_events_is_told_by_its_last() -> None:
    event = {
        "metadata": {"name": "e", "namespace": "a"},
        "involvedObject": {"kind": "Node", "name": "n"},
        "eventTime": "2026-03-01T12:00:00.000001Z",
        "series": {"count": 7, "lastObservedTime": "2026-03-01T12:00:05.000000Z"},
        "reportingComponent": "kubelet",
    }
    row = event_row(view(event, Event))
    assert (row.object, row.by, row.count) == ("Node n", "kubelet", 7)
    assert row.time == NOW.replace(second=5)
    del event["eventTime"], event["series"]
    assert event_row(view(event, Event)).time is None
