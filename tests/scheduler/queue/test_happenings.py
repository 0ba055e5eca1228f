"""What changes mean."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.core import Node, Pod
from dray.scheduler.queue.happenings import Action, node_happening, pod_happening
from tests.scheduler.objects import make_node, make_pod, with_spec

NODE = make_node("a", cpu="1")


def test_nodes_come_and_go() -> None:
    added, gone = node_happening(None, NODE), node_happening(NODE, None)
    assert added is not None and added.action is Action.ADD and added.new is NODE
    assert gone is not None and gone.action is Action.DELETE and gone.old is NODE
    assert node_happening(NODE, make_node("a", cpu="1")) is None


@pytest.mark.parametrize(
    ("old", "new", "action"),
    [
        (NODE, make_node("a", cpu="2"), Action.NODE_ALLOCATABLE),
        (NODE, make_node("a", cpu="1", labels={"x": "y"}), Action.NODE_LABEL),
        (with_spec(NODE, unschedulable=True), NODE, Action.NODE_TAINT),
        (with_spec(NODE, taints=[{"key": "a", "effect": "NoSchedule"}]), NODE, Action.NODE_TAINT),
        (NODE, make_node("a", cpu="2", labels={"x": "y"}), Action.NODE_LABEL | Action.NODE_ALLOCATABLE),
    ],
)
def test_what_changed_about_a_node(old: Node, new: Node, action: Action) -> None:
    found = node_happening(old, new)
    assert found is not None and found.action == action


def test_closing_a_node_helps_nobody() -> None:
    assert node_happening(NODE, with_spec(NODE, unschedulable=True)) is None


@pytest.mark.parametrize(
    ("old", "new", "action"),
    [
        ({}, {"labels": {"a": "b"}}, Action.POD_LABEL),
        ({}, {"tolerations": [{"operator": "Exists"}]}, Action.POD_TOLERATION),
        ({"schedulingGates": [{"name": "x"}]}, {}, Action.POD_GATES_GONE),
        (
            {"schedulingGates": [{"name": "x"}, {"name": "y"}]},
            {"schedulingGates": [{"name": "x"}]},
            Action.OTHER,
        ),
        ({"requests": {"cpu": "2"}}, {"requests": {"cpu": "1"}}, Action.POD_SCALE_DOWN),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}, Action.OTHER),
        (
            {},
            {"status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "x"}]}},
            Action.POD_CLAIMS,
        ),
    ],
)
def test_what_changed_about_a_pod(old: dict[str, Any], new: dict[str, Any], action: Action) -> None:
    found = pod_happening(make_pod(**old), make_pod(**new))
    assert found is not None and found.action == action


def ended(node: str) -> Pod:
    return make_pod(node=node, status={"phase": "Failed"})


def test_a_pod_that_ends_is_gone_and_one_that_is_bound_is_new() -> None:
    waits, runs = make_pod(), make_pod(node="a")
    gone, bound = pod_happening(runs, ended("a")), pod_happening(waits, runs)
    assert gone is not None and gone.action is Action.DELETE and gone.new is None and gone.old is runs
    assert bound is not None and bound.action is Action.ADD and bound.new is runs
    assert pod_happening(ended("a"), None) is None and pod_happening(None, ended("a")) is None
