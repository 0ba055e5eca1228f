"""The benchmark itself works: both sides do all of the work. Times are for people, on a machine with nothing else to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dray.bench.agent import PODS, figures, percentile
from dray.bench.agent_machine import Sizes
from dray.bench.left_out import LeftOut
from dray.bench.measure import Figure
from dray.bench.peers import agent_peer, sample_plugin
from dray.cli.bench import as_json, as_table
from dray.errors import Error, NotFoundError

TINY = Sizes(shares=5, pci=3, usb=2, idle_seconds=0.1, unplugs=3, pause=(0.0, 0.02), calls=16, rounds=2)


def test_a_percentile_is_one_of_the_values() -> None:
    values = [4.0, 1.0, 3.0, 2.0]
    assert [percentile(values, share) for share in (0.25, 0.5, 0.99, 1.0)] == [1.0, 2.0, 4.0, 4.0]
    assert percentile([7.0], 0.5) == 7.0


@pytest.mark.parametrize("peers", ["those installed", "none"])
def test_a_small_run_measures_everything(peers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if peers == "none":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    heard: list[str] = []
    taken = list(figures(sizes=TINY, build_peer=False, say=heard.append))
    found = [one for one in taken if isinstance(one, Figure)]
    names = {one.name for one in found}
    for kind in ("generic", "pci", "usb"):
        assert {f"unplug, {kind} to ListAndWatch, p50", f"unplug, {kind} to ListAndWatch, p99"} <= names
    assert {"memory, resident (RSS)", "CPU while idle", "replug to ListAndWatch, p99"} <= names
    assert {
        "Allocate kvm, 1 at once",
        "Allocate kvm, 8 at once, p99",
        "Allocate gpu, 1 at once, p50",
    } <= names
    assert all(one.dray > 0 for one in found if not one.name.startswith("CPU"))
    assert all(one.peer for one in found if one.peer_name and not one.name.startswith("CPU"))
    left_out = {one.name: one.why for one in taken if isinstance(one, LeftOut)}
    assert "--cluster" in left_out[PODS]
    assert (len(left_out) == 3 and not any(one.peer_name for one in found)) or peers != "none"
    assert "building a machine with 20 devices" in heard


def test_a_peer_that_is_not_here_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="run from a checkout"):
        agent_peer(tmp_path)
    with pytest.raises(NotFoundError, match="is not built"):
        sample_plugin(tmp_path)
    module = tmp_path / "kubernetes"
    (module / "agent-peer").mkdir(parents=True)
    for name in ("go.mod", "go.sum", "agent-peer/main.go"):
        (module / name).write_text("")
    with pytest.raises(NotFoundError, match="is not built"):
        agent_peer(tmp_path, build=False)


def test_what_was_left_out_is_shown() -> None:
    figure, missing = Figure("unplug", "ms", 2.0), LeftOut("pods", "add --cluster")
    assert as_table([figure], [missing]).splitlines()[-1] == "left out: pods: add --cluster"
    assert json.loads(as_json([figure], [missing]))["leftOut"] == [{"name": "pods", "why": "add --cluster"}]


def test_a_cluster_that_cannot_be_had_is_said_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    heard: list[str] = []
    with pytest.raises(Error):  # without root, without Go, or without a checkout: whichever comes first
        list(figures(cluster=True, sizes=TINY, say=heard.append))
    assert heard == []
