"""`dray bench scheduler` in small: every contender binds every pod, and what they bound is in order.

Each contender has an API server of its own: in the campaign all seven, else the two of the first workload.
"""

from __future__ import annotations

from itertools import islice

from dray.bench.measure import Figure
from dray.bench.scheduler import PEER, Sizes, figures
from dray.testing.kubernetes.tools import Tools
from tests.campaign import LONG

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
    taken = list(islice(figures(sizes=SMALL, say=said.append), 100 if LONG else 3))
    assert len(said) == (7 if LONG else 2)
    compared = [one for one in taken if isinstance(one, Figure) and one.peer_name == PEER]
    units = ["pods/s", "ms/pod", "ms/pod", "pods/s", "pods/s"]
    assert [one.unit for one in compared] == units[: 5 if LONG else 3]
    assert all(one.dray > 0 and one.peer for one in compared)
    assert len(taken) == len(compared) + (1 if LONG else 0)
