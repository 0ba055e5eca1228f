"""Taints and closed nodes."""

from __future__ import annotations

from typing import Any

import pytest

from dray.scheduler.fit.taints import avoided, closed, refused
from tests.scheduler.objects import make_node, make_pod, with_spec

HARD = [{"key": "a", "value": "5", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "a", "operator": "Exists"}, True),
        ({"key": "a", "value": "5"}, True),
        ({"key": "a", "value": "5", "effect": "NoSchedule"}, True),
        ({"key": "a", "value": "5", "effect": "NoExecute"}, False),
        ({"key": "a", "value": "6"}, False),
        ({"key": "b", "operator": "Exists"}, False),
        ({"key": "a", "operator": "Lt", "value": "6"}, False),
    ],
)
def test_tolerations(toleration: dict[str, Any], fits: bool) -> None:
    node = with_spec(make_node(), taints=HARD)
    assert (refused(make_pod(tolerations=[toleration]).spec.tolerations, node) is None) is fits


def test_numbers_are_compared_behind_their_gate() -> None:
    node = with_spec(make_node(), taints=HARD)
    for operator, value, fits in (
        ("Lt", "6", True),
        ("Lt", "5", False),
        ("Gt", "4", True),
        ("Gt", "x", False),
    ):
        asked = make_pod(tolerations=[{"key": "a", "operator": operator, "value": value}]).spec.tolerations
        assert (refused(asked, node, compare_numbers=True) is None) is fits
        assert refused(asked, node) is not None


def test_soft_and_unknown_effects_keep_nobody_away() -> None:
    soft = [{"key": "a", "effect": effect} for effect in ("PreferNoSchedule", "PreferNoSchedule", "Later")]
    node = with_spec(make_node(), taints=soft)
    assert refused((), node) is None
    assert avoided((), node) == 2
    assert avoided(make_pod(tolerations=[{"operator": "Exists"}]).spec.tolerations, node) == 0


def test_closed_nodes() -> None:
    node = with_spec(make_node(), unschedulable=True)
    found = closed((), node)
    assert found is not None and str(found) == "node(s) were unschedulable"
    key = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    assert closed(make_pod(tolerations=[key]).spec.tolerations, node) is None
    assert closed((), make_node()) is None and refused((), node) is None
