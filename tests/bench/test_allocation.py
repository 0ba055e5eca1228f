"""The benchmark itself works: both sides do the work, and what differs is noticed. Times are for people."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dray.bench import allocation_workloads as workloads
from dray.bench.allocation import figures
from dray.bench.allocation_peer import PEER, allocator_peer
from dray.bench.allocation_run import Placement, ask_warm, differences, place, read
from dray.bench.allocation_update import update_seconds
from dray.bench.allocation_workloads import Sizes
from dray.bench.left_out import LeftOut
from dray.bench.measure import Figure
from dray.errors import NotFoundError

TINY = Sizes(
    large_nodes=20,
    large_tried=5,
    large_pods=10,
    small_nodes=3,
    small_pods=25,
    mig_nodes=2,
    mig_tried=2,
    mig_pods=2,
    mig_more_pods=2,
    group=3,
    impossible_devices=12,
    warm_nodes=3,
    near_full_nodes=2,
    update_devices=16,
    indexed_nodes=10,
    rounds=1,
    go_seconds=10,
)


def test_a_small_run_measures_everything() -> None:
    """With the Go allocator's answers compared where it is built already."""
    heard: list[str] = []
    taken = list(figures(sizes=TINY, build_peer=False, say=heard.append))
    found = [one for one in taken if isinstance(one, Figure)]
    names = [one.name for one in found]
    assert names[:3] == [
        f"20 nodes x 8 GPUs, 5 tried: {what}"
        for what in ("first 10 pods, new index", "later pods", "making the index")
    ]
    assert {
        "one node, 8 devices, one claim, index warm",
        "12 devices in groups of 3, claim of 4 with matchAttribute (impossible)",
        "2 claims x 4 requests, constraints, near-full node, index warm",
        "slice update of 16 devices into an index of 80",
        "memory of an index of 80 devices and its slices",
    } <= set(names)
    assert all(one.dray > 0 for one in found if "memory" not in one.name)
    has_peer = any(one.peer_name for one in found)
    assert [one.name for one in taken if isinstance(one, LeftOut)] == ([] if has_peer else [PEER])
    assert any("MIG" in text for text in heard)


def test_pods_move_on_by_the_nodes_tried_and_fill_them() -> None:
    """Six of a node's eight devices have enough memory: two nodes take twelve pods."""
    run = place(read(workloads.whole_gpus("small", 2, 14, 1)))
    assert [one.node for one in run.placements] == ["node-0", "node-1"] * 6 + ["", ""]
    last = run.placements[11].results
    assert last is not None and last[0]["devices"]["results"][0]["device"] == "gpu-7"


def test_partitions_share_their_card() -> None:
    """Of 7g.80gb there is one on each of eight cards, and the other profiles took from the first card."""
    document = workloads.mig("mig", 1, 32, 1)
    assert sum(len(one["spec"].get("devices", ())) for one in document["slices"]) == 200
    run = place(read(document))
    given = [one.results[0]["devices"]["results"][0]["device"] for one in run.placements if one.results]
    whole = [name for name in given if "7g-80gb" in name]
    assert whole[0] == "gpu-1-mig-7g-80gb-0" and 1 <= len(whole) < 8 and len(set(given)) == len(given)


def test_the_near_full_node_fits_after_some_steps_back() -> None:
    run = ask_warm(read(workloads.near_full("near", 1)))
    results = run.placements[0].results
    assert results is not None
    assert [[one["device"] for one in result["devices"]["results"]] for result in results] == [
        ["gpu-4", "gpu-5", "gpu-3", "gpu-6"],
        ["gpu-10", "gpu-11", "gpu-9", "gpu-14"],
    ]


def test_other_answers_are_told_apart() -> None:
    run = place(read(workloads.whole_gpus("small", 2, 1, 2)))
    results = run.placements[0].results
    same = {"feasible": ["node-0", "node-1"], "node": "node-0", "results": results}
    assert differences(run, {"pods": [same]}) == []
    assert differences(run, {"pods": [same | {"feasible": ["node-0"]}]}) == ["pod 0: other nodes fit"]
    assert differences(run, {"pods": [same | {"results": []}]}) == ["pod 0: another allocation"]
    nothing = replace(run, placements=[Placement((), "", None)])
    assert differences(nothing, {"pods": [{"feasible": [], "node": "", "results": None}]}) == []


def test_an_update_is_seen_by_the_next_question() -> None:
    event, question = update_seconds(2, 16)
    assert event > 0 and question > 0


def test_a_peer_that_is_not_here_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="run from a checkout"):
        allocator_peer(tmp_path)
    for name in ("go.mod", "go.sum", "bench.go"):
        (tmp_path / name).write_text("")
    with pytest.raises(NotFoundError, match="is not built"):
        allocator_peer(tmp_path, build=False)
