from __future__ import annotations

import re
from typing import Any

import pytest

from dray.api.codec import view
from dray.api.core.pod import PodSpec
from dray.apiserver.served import Document
from dray.apiserver.writing.kinds.pods import qos_class, set_condition
from dray.errors import DeniedError
from tests.apiserver.writing.small_store import START, SmallStore, pod


def container(name: str = "a", **resources: Any) -> Document:
    return {"name": name, "image": "busybox:1", "resources": resources}


FULL = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [container()]}, "BestEffort"),
        ({"containers": [container(limits={"example.com/gpu": "1"})]}, "BestEffort"),
        ({"containers": [container(requests={"cpu": "0"})]}, "BestEffort"),
        ({"containers": [container(requests={"cpu": "1"})]}, "Burstable"),
        ({"containers": [container(requests=FULL, limits=FULL)]}, "Guaranteed"),
        ({"containers": [container(requests=FULL, limits={**FULL, "cpu": "1000m"})]}, "Guaranteed"),
        ({"containers": [container(requests=FULL, limits={**FULL, "cpu": "2"})]}, "Burstable"),
        ({"containers": [container(limits={"cpu": "1"}, requests={"cpu": "1"})]}, "Burstable"),
        ({"containers": [container(requests=FULL, limits=FULL), container("b")]}, "Burstable"),
        (
            {"containers": [container(requests=FULL, limits=FULL)], "initContainers": [container("b")]},
            "Burstable",
        ),
        (
            {
                "containers": [
                    container(requests=FULL, limits={**FULL, "cpu": "2"}),
                    container("b", requests=FULL, limits=FULL),
                ]
            },
            "Burstable",
        ),
        ({"containers": [container()], "resources": {"requests": FULL, "limits": FULL}}, "Guaranteed"),
        ({"containers": [container()], "resources": {"requests": FULL}}, "Burstable"),
        ({"containers": [container(requests=FULL)], "resources": {}}, "BestEffort"),
    ],
)
def test_quality_of_service(spec: Document, expected: str) -> None:
    assert qos_class(view(spec, PodSpec)) == expected


def test_limits_stand_in_for_requests() -> None:
    created = SmallStore().create("pods", pod(containers=[container(limits=FULL)]))
    assert created["status"]["qosClass"] == "Guaranteed"


@pytest.mark.parametrize(
    ("classes", "spec", "priority", "name"),
    [
        ([], {}, 0, None),
        ([("low", 5, True)], {}, 5, "low"),
        ([("low", 5, True), ("lower", 3, True)], {}, 3, "lower"),
        ([("high", 900, False)], {"priorityClassName": "high"}, 900, "high"),
        ([("high", 900, False)], {"priorityClassName": "high", "priority": 900}, 900, "high"),
        ([], {"priorityClassName": "system-node-critical"}, 2_000_001_000, "system-node-critical"),
    ],
)
def test_priorities_come_from_classes(
    classes: list[tuple[str, int, bool]], spec: Document, priority: int, name: str | None
) -> None:
    store = SmallStore()
    for one, value, default in classes:
        store.create("priorityclasses", {"metadata": {"name": one}, "value": value, "globalDefault": default})
    created = store.create("pods", pod(**spec))["spec"]
    assert (created["priority"], created.get("priorityClassName")) == (priority, name)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"priorityClassName": "none"}, 'pods "web" is forbidden: no PriorityClass with name none was found'),
        (
            {"priority": 7},
            "the integer value of priority (7) must not be provided in pod spec; priority admission",
        ),
        ({"preemptionPolicy": "Never"}, "the string value of PreemptionPolicy (Never) must not be provided"),
    ],
)
def test_priorities_that_are_made_up(spec: Document, text: str) -> None:
    with pytest.raises(DeniedError, match=re.escape(text)):
        SmallStore().create("pods", pod(**spec))


def test_a_class_that_makes_no_sense_stops_nobody_else() -> None:
    store = SmallStore()
    store.create("priorityclasses", {"metadata": {"name": "odd"}, "value": 1, "globalDefault": True})
    odd = store.stored("priorityclasses", "odd")
    document = {"metadata": {"name": "odd"}, "value": "many", "globalDefault": True}
    store.run(lambda transaction: transaction.put(odd.key, odd.uid, document))
    assert store.create("pods", pod())["spec"]["priority"] == 0
    with pytest.raises(DeniedError, match="no PriorityClass with name odd was found"):
        store.create("pods", pod("other", priorityClassName="odd"))


@pytest.mark.parametrize(
    ("toleration", "added"),
    [
        ({"operator": "Exists"}, 0),
        ({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}, 1),
        ({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}, 2),
    ],
)
def test_tolerations_of_nodes_that_fall_ill(toleration: Document, added: int) -> None:
    created = SmallStore().create("pods", pod(tolerations=[toleration]))
    assert len(created["spec"]["tolerations"]) == 1 + added


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    document: Document = {}
    set_condition(document, {"type": "A", "status": "True"}, START)
    set_condition(document, {"type": "A", "status": "True", "reason": "New"}, START.replace(year=2031))
    assert document["status"]["conditions"] == [
        {"type": "A", "status": "True", "reason": "New", "lastTransitionTime": "2030-01-01T00:00:00Z"}
    ]
    set_condition(document, {"type": "A", "status": "False"}, START.replace(year=2031))
    assert document["status"]["conditions"][0]["lastTransitionTime"] == "2031-01-01T00:00:00Z"
