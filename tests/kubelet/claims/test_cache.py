from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dray.errors import ConflictError, Error
from dray.kubelet.claims.cache import ClaimCache
from dray.kubelet.claims.claim_info import ClaimDevice, ClaimInfo
from dray.kubelet.claims.state_file import FILE_NAME, StateFile, decode
from dray.runtime.clock import FakeClock

ONE = ClaimInfo("ns", "one", "1", frozenset({"p"}), {"a.io": (ClaimDevice("pool", "dev"),)})
TWO = ClaimInfo("ns", "two", "2", frozenset({"p", "q"}), {"a.io": (), "b.io": ()})


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ClaimCache]:
    cache = ClaimCache(StateFile(tmp_path / FILE_NAME, FakeClock()))
    cache.load()
    yield cache
    cache.close()


def on_disk(tmp_path: Path) -> tuple[ClaimInfo, ...]:
    return decode((tmp_path / FILE_NAME).read_bytes())


def test_a_first_start_makes_the_file(cache: ClaimCache, tmp_path: Path) -> None:
    assert cache.claims() == on_disk(tmp_path) == ()


def test_commit_get_and_remove(cache: ClaimCache, tmp_path: Path) -> None:
    cache.commit(changed=[TWO, ONE])
    assert cache.claims() == on_disk(tmp_path) == (ONE, TWO)
    assert cache.get("ns", "one") == ONE
    assert cache.get("other", "one") is None
    cache.commit(removed=[ONE.key, ("ns", "never there")])
    assert cache.claims() == on_disk(tmp_path) == (TWO,)


def test_pods(cache: ClaimCache) -> None:
    cache.commit(changed=[ONE, TWO])
    assert cache.of_pod("p") == (ONE, TWO)
    assert cache.of_pod("q") == (TWO,)
    assert (cache.has_pod("q"), cache.has_pod("r")) == (True, False)


def test_a_restart_knows_all_but_that_they_are_prepared(cache: ClaimCache, tmp_path: Path) -> None:
    cache.commit(changed=[replace(ONE, is_prepared=True), TWO])
    assert cache.in_use() == {"<any>": 1, "a.io": 1}
    cache.close()
    again = ClaimCache(StateFile(tmp_path / FILE_NAME, FakeClock()))
    again.load()
    assert again.claims() == (ONE, TWO)
    assert again.in_use() == {"<any>": 0}
    again.close()


def test_claims_in_use_by_driver(cache: ClaimCache) -> None:
    cache.commit(changed=[replace(ONE, is_prepared=True), replace(TWO, is_prepared=True)])
    assert cache.in_use() == {"<any>": 2, "a.io": 2, "b.io": 1}


def test_where_the_disk_refuses_nothing_changes(cache: ClaimCache, tmp_path: Path) -> None:
    cache.commit(changed=[ONE])
    (tmp_path / f"{FILE_NAME}.lock").unlink()
    (tmp_path / f"{FILE_NAME}.lock").mkdir()
    with pytest.raises(Error):
        cache.commit(changed=[TWO], removed=[ONE.key])
    assert cache.claims() == on_disk(tmp_path) == (ONE,)
    cache.commit()  # pods without claims do not mind
    (tmp_path / f"{FILE_NAME}.lock").rmdir()
    cache.commit(changed=[TWO])
    assert cache.claims() == on_disk(tmp_path) == (ONE, TWO)


def test_one_owner_at_a_time(cache: ClaimCache, tmp_path: Path) -> None:
    with pytest.raises(ConflictError, match="is locked by this process itself"):
        ClaimCache(StateFile(tmp_path / FILE_NAME, FakeClock())).load()


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Error, match="file"):
        ClaimCache(StateFile(tmp_path / "file" / FILE_NAME, FakeClock())).load()


def test_marks_count_and_go(cache: ClaimCache) -> None:
    key = ONE.key
    with cache.preparing([key]):
        with cache.preparing([key]):
            assert cache.is_preparing(key)
        assert cache.is_preparing(key)
    assert not cache.is_preparing(key)
    with cache.unpreparing([key]):
        assert cache.is_unpreparing(key)
    assert not cache.is_unpreparing(key)
