"""The benchmark itself works: every figure is taken. Times are for people, on a machine with nothing else to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.bench.driver import PODS, UNPLUG, Sizes, figures
from dray.bench.driver_side import PEER
from dray.bench.left_out import LeftOut
from dray.bench.measure import Figure
from dray.errors import Error

TINY = Sizes({1: 2, 3: 2}, unplugs=2, starts=1)


def test_a_small_run_without_a_peer_measures_all_of_ours() -> None:
    said: list[str] = []
    taken = list(figures(sizes=TINY, peer=False, say=said.append))
    found = {one.name: one for one in taken if isinstance(one, Figure)}
    for name in (
        "process start to first slice, median",
        "NodePrepareResources, 1 claim, p50",
        "NodePrepareResources, 3 claims, p99",
        "device unplugged to slice, p50",
        "device back to slice, p99",
        "device unhealthy to taint in slice, p99",
        "memory, resident (RSS), 8 GPUs with partitions, 120 devices",
    ):
        assert found[name].dray > 0
    assert not any(one.peer_name for one in found.values())
    left_out = {one.name: one.why for one in taken if isinstance(one, LeftOut)}
    assert "--cluster" in left_out[PODS]
    assert any(PEER in name and "install" in why for name, why in left_out.items())
    assert UNPLUG in left_out
    assert "2 calls each with 3 new claims" in said


def test_a_cluster_that_cannot_be_had_is_said_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    with pytest.raises(Error):  # without root, without Go, or without a checkout: whichever comes first
        list(figures(cluster=True, sizes=TINY, say=said.append))
    assert said == []


def test_a_call_with_more_claims_than_devices_is_our_fault() -> None:
    assert Sizes({1: 1}).devices == 2
    assert Sizes({1: 1, 32: 1}).devices == 32
