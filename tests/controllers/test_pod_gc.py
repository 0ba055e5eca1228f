"""Which pods are collected, and that they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.core import Node, Pod
from dray.api.kinds import NODES, PODS
from dray.client.client import Client
from dray.controllers.pod_gc import OUT_OF_SERVICE, PodGcConfig, missing_since, plan_gc, pod_gc
from dray.errors import ConflictError
from dray.testing.check.api_server import Place
from tests.controllers.objects import Json, pod, pod_document, typed
from tests.controllers.server import Cluster, cluster
from tests.waiting import wait_until

Both = tuple[Cluster, Client]


def node(name: str = "n", ready: str = "True", *taints: str) -> Node:
    return typed(NODES, node_document(name, ready, *taints))


def node_document(name: str = "n", ready: str = "True", *taints: str) -> Json:
    spec = {"taints": [{"key": key, "effect": "NoExecute"} for key in taints]} if taints else {}
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def ended(name: str, minute: int, phase: str = "Succeeded", reason: str = "") -> Pod:
    document = pod_document(name, uid=name, phase=phase, node="n")
    document["metadata"]["creationTimestamp"] = f"2030-01-01T00:{minute:02}:00Z"
    document["status"]["reason"] = reason
    return typed(PODS, document)


def told(
    *pods: Pod, nodes: tuple[Node, ...] = (node(),), gone: tuple[str, ...] = (), threshold: int = 0
) -> Any:
    found = plan_gc(pods, {one.metadata.name: one for one in nodes}, gone, threshold)
    return [(one.pod.metadata.name, one.why) for one in found]


def test_pods_of_nodes_that_are_gone() -> None:
    running = pod(node="x", phase="Running")
    assert told(running) == []
    assert told(running, gone=("x",)) == [("p", "orphaned")]
    assert told(running, nodes=(node("x"),), gone=("x",)) == []  # it came back
    (removal,) = plan_gc([running], {}, ("x",), 0)
    assert (removal.ending.reason, removal.ending.fail, removal.ending.grace_period) == (
        "DeletionByPodGC",
        True,
        0,
    )


def test_pods_deleted_before_a_node_got_them() -> None:
    assert told(pod(deleted=True)) == [("p", "unscheduled")]
    assert told(pod()) == []
    assert told(pod(deleted=True, node="n")) == []


@pytest.mark.parametrize(
    ("ready", "taints", "deleted", "expected"),
    [
        ("Unknown", (OUT_OF_SERVICE,), True, [("p", "out-of-service")]),
        ("True", (OUT_OF_SERVICE,), True, []),
        ("Unknown", (), True, []),
        ("Unknown", (OUT_OF_SERVICE,), False, []),
    ],
)
def test_pods_that_a_node_out_of_service_cannot_end(
    ready: str, taints: tuple[str, ...], deleted: bool, expected: list[Any]
) -> None:
    assert told(pod(node="n", deleted=deleted), nodes=(node("n", ready, *taints),)) == expected


def test_of_the_pods_that_have_ended_the_oldest_go_and_evicted_ones_before() -> None:
    pods = (
        ended("new", 5),
        ended("old", 1),
        ended("evicted", 9, "Failed", "Evicted"),
        ended("middle", 3, "Failed"),
        pod("running", node="n", phase="Running"),
    )
    assert told(*pods, threshold=0) == []
    assert told(*pods, threshold=4) == []
    assert told(*pods, threshold=3) == [("evicted", "terminated")]
    assert told(*pods, threshold=1) == [(one, "terminated") for one in ("evicted", "old", "middle")]


def test_a_node_is_missed_from_the_first_time_on_until_it_is_back() -> None:
    pods = [pod(node="x"), pod("q", node="n"), pod("r")]
    first = missing_since(pods, {"n"}, {}, 10.0)
    assert first == {"x": 10.0}
    assert missing_since(pods, {"n"}, first, 50.0) == {"x": 10.0}
    assert missing_since(pods, {"n", "x"}, first, 50.0) == {}
    assert missing_since([], {"n"}, first, 50.0) == {}


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[Both]:
    async with cluster(tmp_path) as found:
        yield found


async def test_they_are_removed_and_the_others_stay(both: Both) -> None:
    api, client = both
    refused = [1]

    def fail(method: str, place: Place, is_done: bool) -> None:
        if method == "PATCH" and refused[0]:
            refused[0] -= 1
            raise ConflictError("somebody wrote first")

    api.fails = fail
    await api.add(NODES, node_document())
    await api.add_pod(pod_document("orphan", node="gone", phase="Running"))
    await api.add_pod(pod_document("stays", node="n", phase="Running"))
    await api.add_pod(pod_document("unscheduled"))
    await api.mark(PODS, "unscheduled")
    async with pod_gc(client, PodGcConfig(period=0.05, quarantine=0.1)) as collector:
        await wait_until(lambda: len(api.every(PODS)) == 1)
        passes = collector.passes
        await wait_until(lambda: collector.passes > passes + 1)
    assert [one["metadata"]["name"] for one in api.every(PODS)] == ["stays"]
    last = [one.document for one in api.history if one.document["metadata"]["name"] == "orphan"][-1]
    assert last["status"]["phase"] == "Failed"
    assert [one["reason"] for one in last["status"]["conditions"]] == ["DeletionByPodGC"]


async def test_a_node_that_the_picture_lacks_but_the_server_has_is_not_gone(both: Both) -> None:
    api, client = both
    await api.add_pod(pod_document("p", node="late", phase="Running"))
    async with pod_gc(client, PodGcConfig(period=0.02, quarantine=0.2)) as collector:
        document = node_document("late")
        document["metadata"] |= {"uid": "u", "resourceVersion": "1"}
        api.objects["nodes", "", "late"] = document  # no watch tells of it
        await wait_until(lambda: collector.passes > 20)
    assert api.find(PODS, "p")
