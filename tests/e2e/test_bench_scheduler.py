"""`dray bench scheduler` in small: every contender binds every pod, and what they bound is in order."""

from __future__ import annotations

from dray.bench.measure import Figure
from dray.bench.scheduler import PEER, Sizes, figures
from dray.testing.kubernetes.tools import Tools

SMALL = Sizes(
    nodes=4,
    devices=3,
    pods=10,
    partitioned_nodes=3,
    partitioned_pods=8,
    large_nodes=6,
    large_pods=6,
    large_fair=3,
)


def test_every_figure_is_taken(tools: Tools) -> None:
    said: list[str] = []
    taken = list(figures(sizes=SMALL, say=said.append))
    assert len(said) == 7
    compared = [one for one in taken if isinstance(one, Figure) and one.peer_name == PEER]
    assert [one.unit for one in compared] == ["pods/s", "ms/pod", "ms/pod", "pods/s", "pods/s"]
    assert all(one.dray > 0 and one.peer for one in compared)
    assert len(taken) == len(compared) + 1
