"""How many nodes are looked at, and where the look begins."""

from __future__ import annotations

import pytest

from dray.scheduler.fit.rejection import Rejection
from dray.scheduler.nodes import NodeInfo
from dray.scheduler.sampling import enough, look
from tests.scheduler.objects import make_node

NODES = [NodeInfo.of(make_node(f"n{index}")) for index in range(10)]
NO = Rejection(check="NodeName", reasons=("no",))


@pytest.mark.parametrize(
    ("nodes", "percent", "found"),
    [
        (0, 0, 0),
        (99, 0, 99),
        (100, 0, 100),
        (200, 0, 100),
        (1000, 0, 420),
        (5000, 0, 500),
        (6000, 0, 300),
        (20_000, 0, 1000),
        (1000, 40, 400),
        (1000, 100, 1000),
        (1000, 1, 100),
    ],
)
def test_enough(nodes: int, percent: int, found: int) -> None:
    """The figures are those of kube-scheduler's rule: 50 % less one for each 125 nodes, never under 5 % or 100 nodes."""
    assert enough(nodes, percent) == found


def test_looks_take_turns() -> None:
    first = look(NODES, 0, 3, lambda info: NO if info.name == "n1" else None)
    assert [info.name for info in first.feasible] == ["n0", "n2", "n3"]
    assert first.rejected == {"n1": NO} and first.start == 4
    second = look(NODES, first.start, 8, lambda _: None)
    assert [info.name for info in second.feasible] == ["n4", "n5", "n6", "n7", "n8", "n9", "n0", "n1"]
    assert second.start == 2


def test_a_look_ends_after_one_round() -> None:
    found = look(NODES, 7, 100, lambda _: NO)
    assert len(found.rejected) == 10 and found.start == 7
    assert look([], 7, 100, lambda _: None).feasible == []
    assert look(NODES[:2], 7, 1, lambda _: None).start == 0
