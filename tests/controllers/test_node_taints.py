"""Pods on tainted nodes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dray.api.core import Node, Pod
from dray.api.kinds import EVENTS, NODES, PODS
from dray.api.meta import format_time
from dray.controllers.node_taints import NodeTaintConfig, eviction_time, node_taint_controller
from tests.controllers.objects import Json, pod_document, taint, typed
from tests.controllers.server import ask_a_few, cluster
from tests.waiting import wait_until

START = datetime(2030, 1, 1, tzinfo=UTC)
NOW = datetime(2030, 1, 1, 1, tzinfo=UTC)
SILENT = "node.kubernetes.io/unreachable"


def node(*taints: Json) -> Node:
    return typed(NODES, {"metadata": {"name": "n"}, "spec": {"taints": list(taints)}})


def tolerate(seconds: int | None = None, key: str = "bad", effect: str = "NoExecute") -> Json:
    found: Json = {"key": key, "operator": "Exists", "effect": effect}
    return found | ({} if seconds is None else {"tolerationSeconds": seconds})


def pod(*tolerations: Json, **kwargs: Any) -> Pod:
    document = pod_document(node="n", **kwargs)
    document["spec"]["tolerations"] = list(tolerations)
    return typed(PODS, document)


@pytest.mark.parametrize(
    ("subject", "taints", "expected"),
    [
        (pod(), [], None),
        (pod(), [taint()], 0),
        (pod(), [taint("NoSchedule")], None),
        (pod(tolerate()), [taint()], None),
        (pod(tolerate(60)), [taint()], 60),
        (pod(tolerate(-1)), [taint()], 0),
        (pod(tolerate(60), tolerate(30)), [taint()], 30),
        (pod(tolerate(60), tolerate()), [taint()], 60),
        (pod(tolerate(60, effect="")), [taint()], 60),
        (pod(tolerate(60, key="other")), [taint()], 0),
        (pod(tolerate(60)), [taint(), taint(key="other")], 0),
        (pod(tolerate(2**62)), [taint()], None),
        (pod(), [taint(key=SILENT)], 300),
        (pod(tolerate(10, key=SILENT)), [taint(key=SILENT)], 10),
        (pod(deleted=True), [taint()], None),
        (pod(phase="Failed"), [taint()], None),
    ],
)
def test_eviction_time(subject: Pod, taints: list[Json], expected: float | None) -> None:
    found = eviction_time(subject, node(*taints), NOW, 300)
    assert (None if found is None else (found - START).total_seconds()) == expected


def test_a_taint_without_a_time_counts_from_now() -> None:
    assert eviction_time(pod(), node({"key": "bad", "effect": "NoExecute"}), NOW, 300) == NOW


async def test_pods_are_driven_out_when_their_time_is_up(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (api, client):
        await api.add(NODES, {"metadata": {"name": "n"}, "spec": {}})
        for name, tolerations in (("now", []), ("soon", [tolerate(1)]), ("never", [tolerate()])):
            document = pod_document(name, node="n", phase="Running")
            document["spec"]["tolerations"] = tolerations
            await api.add_pod(document)
        async with node_taint_controller(client, NodeTaintConfig(workers=2)), node_taint_controller(client):
            await ask_a_few(client)
            assert len(api.every(PODS)) == 3
            await api.change(NODES, "n", spec={"taints": [taint(at=format_time(api.clock.now()))]})
            await wait_until(lambda: not api.find(PODS, "now"))
            await wait_until(lambda: [one["metadata"]["name"] for one in api.every(PODS)] == ["never"])
            await wait_until(lambda: len(api.every(EVENTS)) == 2)
        ended = [one.document for one in api.history if one.type == "DELETED" and one.plural == "pods"]
        assert {one["status"]["conditions"][0]["reason"] for one in ended} == {"DeletionByTaintManager"}
