"""The benchmark itself works: all of the load is made, and what is not answered is noticed. Times are for people."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.bench.apiserver import figures
from dray.bench.apiserver_loads import CLAIMS, CONFIG_MAPS, STATUSES, Sizes, request_of, write_loads
from dray.bench.apiserver_side import peer_tools
from dray.bench.measure import Figure
from dray.errors import NotFoundError

TINY = Sizes(
    writers=(1, 4),
    alone=5,
    writes=20,
    objects=60,
    page=25,
    list_rounds=1,
    watchers=10,
    single_events=3,
    streamed_events=20,
    rest_seconds=0.0,
)


def test_a_tiny_run_measures_everything() -> None:
    heard: list[str] = []
    taken = list(figures(sizes=TINY, has_peer=False, say=heard.append))
    found = [one for one in taken if isinstance(one, Figure)]
    assert [one.name for one in found if one.unit in ("writes/s", "events/s", "MiB", "MB/s")] == [
        "create ConfigMaps of 1024 bytes, 1 writer",
        "create ConfigMaps of 1024 bytes, 4 writers",
        "create ResourceClaims, 4 writers",
        "patch claims' status (allocation), 4 writers",
        "10 watchers, events delivered",
        "list 60 objects, throughput",
        "list 60 objects in pages of 25, throughput",
        "memory idle (RSS)",
        "memory with 60 objects",
        "memory after lists and watches",
    ]
    assert len(found) == len(taken) == 4 * 3 + 3 + 2 * 3 + 3
    assert all(one.dray > 0 and one.peer is None for one in found)
    assert "Dray: 10 watchers" in heard


def test_the_loads_make_all_objects_once() -> None:
    loads = write_loads(Sizes())
    assert [(one.kind, one.writers) for one in loads] == [
        (CONFIG_MAPS, 1),
        (CONFIG_MAPS, 16),
        (CONFIG_MAPS, 64),
        (CLAIMS, 64),
        (STATUSES, 64),
    ]
    maps = [one for one in loads if one.kind == CONFIG_MAPS]
    numbers = [number for one in maps for number in range(one.first, one.first + one.count)]
    assert numbers == list(range(Sizes().objects))
    bodies = {request_of(maps[-1], number).body for number in numbers[:1000]}
    assert len(bodies) == 1000 and all(1024 < len(body) < 1200 for body in bodies)


def test_a_peer_that_is_not_here_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFoundError, match="run from a checkout"):
        peer_tools(tmp_path / "nothing")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NotFoundError, match="not installed"):
        peer_tools()
