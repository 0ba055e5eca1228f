"""What pods take, in integers."""

from __future__ import annotations

from typing import Any

import pytest

from dray.scheduler.requests import ScoredUse, amounts, is_scalar, scored_use, scored_wish, taken, wanted
from tests.scheduler.objects import make_node, make_pod


def container(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}


def test_init_containers_run_one_by_one_and_sidecars_stay() -> None:
    pod = make_pod(
        containers=[container("a", "1"), container("b", "500m")],
        initContainers=[
            container("i", "1"),
            container("s", "250m", restartPolicy="Always"),
            container("j", "3"),
        ],
    )
    assert wanted(pod) == {"cpu": 3250}
    assert wanted(make_pod(containers=[container("a", "4")], initContainers=[container("i", "1")])) == {
        "cpu": 4000
    }


def test_overhead_and_pod_level_resources() -> None:
    level = {"requests": {"cpu": "2", "memory": "1Gi"}}
    pod = make_pod(requests={"cpu": "1", "example.com/gpu": "1"}, resources=level, overhead={"cpu": "100m"})
    assert wanted(pod) == {"cpu": 2100, "memory": 1 << 30, "example.com/gpu": 1}


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("example.com/gpu", True),
        ("hugepages-2Mi", True),
        ("attachable-volumes-x", True),
        ("deviceclass.resource.kubernetes.io/gpu", True),
        ("plain", False),
        ("requests.example.com/gpu", False),
    ],
)
def test_which_names_nodes_are_asked_for(name: str, counts: bool) -> None:
    assert is_scalar(name) is counts
    assert (name in wanted(make_pod(requests={name: "1"}))) is counts


def test_amounts_round_up_and_pods_are_a_node_s_own() -> None:
    assert amounts(make_node(cpu="0.0001", memory="1500m", pods="3").status.allocatable) == {
        "cpu": 1,
        "memory": 2,
        "pods": 3,
    }
    assert wanted(make_pod(requests={"pods": "7"})) == {}


def resized(condition: str = "") -> dict[str, Any]:
    has = {"name": "c", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}
    conditions = [{"type": "PodResizePending", "reason": condition}] if condition else []
    return {"containerStatuses": [has], "conditions": conditions}


def test_a_pod_that_is_resized_takes_the_most_of_all() -> None:
    small, large = {"cpu": "1"}, {"cpu": "5"}
    assert taken(make_pod(requests=small, status=resized())) == {"cpu": 3000}
    assert taken(make_pod(requests=large, status=resized("Deferred"))) == {"cpu": 5000}
    assert taken(make_pod(requests=large, status=resized("Infeasible"))) == {"cpu": 3000}
    assert wanted(make_pod(requests=small, status=resized())) == {"cpu": 1000}


def test_scores_take_something_for_containers_that_ask_for_nothing() -> None:
    assert scored_use(make_pod()) == ScoredUse(100, 200 << 20)
    assert scored_use(make_pod(requests={"cpu": "0"})) == ScoredUse(0, 200 << 20)
    level = make_pod(resources={"requests": {"cpu": "1"}})
    assert scored_use(level) == ScoredUse(1000, 200 << 20)
    assert scored_wish(level) == ScoredUse(100, 200 << 20)
