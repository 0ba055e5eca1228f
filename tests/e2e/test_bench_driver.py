"""`dray bench driver` in small: both drivers do all of the work, and pods get their devices from both."""

from __future__ import annotations

from dray.bench.driver import Sizes, figures
from dray.bench.driver_pods import time_claim_pods
from dray.bench.driver_side import PEER
from dray.bench.measure import Figure
from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.tools import Tools

SMALL = Sizes({1: 2, 3: 2}, unplugs=2, starts=1)


def test_every_figure_is_taken(tools: Tools) -> None:
    said: list[str] = []
    taken = [one for one in figures(sizes=SMALL, say=said.append) if isinstance(one, Figure)]
    compared = [one for one in taken if one.peer_name == PEER]
    assert len(compared) == 7
    assert all(one.dray > 0 and one.peer for one in compared)
    assert [one.name for one in taken if "slice" in one.name and not one.peer_name] == [
        f"device {what}, {share}"
        for what in ("unplugged to slice", "back to slice", "unhealthy to taint in slice")
        for share in ("p50", "p99")
    ]


def test_pods_run_with_devices_of_both(cluster: Cluster) -> None:
    taken = list(time_claim_pods(cluster, 1, lambda _: None))
    assert [one.name.rpartition(", ")[2] for one in taken] == ["p10", "median", "p90"]
    assert all(one.dray > 0 and one.peer for one in taken)
    items = cluster.request("GET", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims")["items"]
    assert [one["metadata"]["name"] for one in items if "bench" in one["metadata"]["name"]] == []
