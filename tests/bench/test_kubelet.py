"""The benchmark itself works: both sides do all of the work, and what differs is noticed. Times are for people."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.bench.kubelet import figures
from dray.bench.kubelet_cases import Load, MergeCase, Sizes, loads, merges
from dray.bench.kubelet_peer import PEER, ask_merge, kubelet_peer
from dray.bench.kubelet_side import OURS, admissions, check_grants
from dray.bench.left_out import LeftOut
from dray.bench.measure import Figure
from dray.errors import InvariantError, NotFoundError, ProtocolError
from dray.kubelet.devices.checkpoint import CheckpointWriter
from dray.kubelet.devices.grants import Grant
from dray.kubelet.topology.policies import NONE, SINGLE_NUMA_NODE

TINY = Sizes(most_nodes=2, peer_nodes=1, rounds=1)
RICH = Load("rich", 40, 4, each=3, nodes=2, policy=SINGLE_NUMA_NODE, has_wishes=True, peer_pods=2)


def test_a_small_run_measures_everything() -> None:
    """With the Go kubelet's managers where they are built already."""
    heard: list[str] = []
    taken = list(figures(sizes=TINY, only=[RICH], build_peer=False, say=heard.append))
    found = [one for one in taken if isinstance(one, Figure)]
    names = [one.name for one in found]
    assert names[:4] == [
        "rich (2 pods in Go)",
        "rich (2 pods in Go), p50",
        "rich (2 pods in Go), p99",
        "most memory in any of these (RSS)",
    ]
    assert names[4:] == [
        *(f"merge, {nodes} NUMA nodes x 5 resources, nothing preferred" for nodes in (1, 2)),
        "merge, 2 NUMA nodes x 5 resources, one node does",
    ]
    assert all(one.dray > 0 for one in found)
    has_peer = [bool(one.peer) for one in found]
    left_out = [one.name for one in taken if isinstance(one, LeftOut)]
    if any(has_peer):
        assert has_peer == [True] * 5 + [False] * 2
        assert left_out == [f"{PEER}: merges for more than 1 NUMA nodes"]
    else:
        assert left_out == [PEER]
    assert "rich" in heard


def test_the_loads_are_those_of_a_large_node_and_a_small_one() -> None:
    small, *large = loads(Sizes())
    assert (small.pods, small.devices) == (100, 100)
    assert {(one.pods, one.devices) for one in large} == {(1000, 10_000)}
    assert {(one.nodes, one.policy) for one in large} == {
        (0, NONE),
        (2, NONE),
        (2, SINGLE_NUMA_NODE),
        (8, SINGLE_NUMA_NODE),
    }
    assert all(one.pods * one.each <= one.devices for one in large)
    assert len({one.name for one in (small, *large)}) == 1 + len(large)


def test_the_largest_merge_has_all_sets_of_nodes() -> None:
    *_, last = merges(Sizes())
    assert last == MergeCase(8, is_agreed=True)
    hints = last.hints()["example.com/0"]
    assert hints is not None
    assert (len(hints), sum(hint.preferred for hint in hints)) == (255, 8)


def test_pods_that_are_not_admitted_end_the_benchmark() -> None:
    with pytest.raises(ProtocolError, match=r"did not admit the pods of 'too many'.*Available: 0"):
        admissions(OURS, Load("too many", devices=2, pods=3))


@pytest.mark.parametrize(
    "given", [[("a", "x")], [("a", "x"), ("b", "x")], [("a", "x"), ("b", "y"), ("c", "z")]]
)
def test_a_checkpoint_without_all_devices_is_noticed(given: list[tuple[str, str]]) -> None:
    load = Load("two", devices=3, pods=2)
    grants = [Grant(pod, "main", "r", {-1: (one,)}, b"") for pod, one in given]
    with pytest.raises(InvariantError, match="not 2 of 2"):
        check_grants(CheckpointWriter().encode(grants, {}), load)


def test_a_peer_that_is_not_here_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFoundError, match="run from a checkout"):
        kubelet_peer(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NotFoundError, match="is not built"):
        kubelet_peer(build=False)


def test_a_peer_that_fails_is_said() -> None:
    with pytest.raises(ProtocolError, match="could not merge"):
        ask_merge(Path("/bin/false"), MergeCase(1).document())
