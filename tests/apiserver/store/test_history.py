"""What is kept, what goes first, and what the log may forget."""

from __future__ import annotations

import pytest

from dray.apiserver.store.contract import Change, ChangeKind, Expired, Stored
from dray.apiserver.store.history import History, _size
from tests.apiserver.store.stores import key


def change(revision: int, old: int = 0, resource: str = "pods", deleted: bool = False) -> Change:
    place = key("a", "ns", resource)
    kind = ChangeKind.DELETED if deleted else ChangeKind.MODIFIED if old else ChangeKind.ADDED
    before = Stored(place, "u", old, b"old") if old else None
    return Change(kind, revision, Stored(place, "u", revision, b"new"), before)


def test_the_oldest_go_first_and_are_told_to_the_log() -> None:
    history = History(1, 3, 1 << 20)
    for item in (change(2), change(3, 2), change(4, 3, deleted=True), change(5), change(6, 5), change(7, 6)):
        history.append(item)
    assert len(history) == 3
    assert history.floor == 4
    assert list(history.unneeded) == [2, 3, 4]
    history.removed(2)
    assert list(history.unneeded) == [4]
    assert [c.revision for c in history.after("pods", 4)] == [5, 6, 7]
    assert [c.revision for c in history.after("pods", 4, 2)] == [5, 6]
    with pytest.raises(Expired):
        history.after("pods", 3)


def test_a_quiet_resource_loses_only_what_it_had() -> None:
    history = History(1, 3, 1 << 20)
    history.append(change(2, resource="nodes"))
    for revision in range(3, 300):
        history.append(change(revision, revision - 1))
    assert history.after("nodes", 2) == []
    with pytest.raises(Expired):
        history.after("nodes", 1)
    assert history.after("leases", 1) == ()
    with pytest.raises(Expired):
        history.after("leases", 0)


def test_long_lives_do_not_grow() -> None:
    history = History(1, 10, 1 << 20)
    for revision in range(2, 5000):
        history.append(change(revision, revision - 1))
        history.removed(len(history.unneeded))
    assert len(history._tracks["pods"]._changes) < 200
    assert len(history.after("pods", 4989)) == 10


def test_states_before_a_revision_are_the_oldest_ones() -> None:
    history = History(1, 10, 1 << 20)
    for item in (change(2), change(3, 2), change(4, 3)):
        history.append(item)
    at_two = history.before("pods", 2)[key("a")]
    assert at_two is not None
    assert at_two.revision == 2
    assert history.before("pods", 1) == {key("a"): None}
    assert history.before("pods", 4) == {}


@pytest.mark.parametrize(("most", "longest"), [(10, 74), (200, 400)])
def test_what_is_gone_is_removed_when_it_is_more_than_64_and_more_than_half(most: int, longest: int) -> None:
    history = History(1, most, 1 << 30)
    lengths = []
    for revision in range(2, 2000):
        history.append(change(revision, revision - 1))
        lengths.append(len(history._tracks["pods"]._changes))
    assert max(lengths) == longest
    assert [c.revision for c in history.after("pods", 1999 - most)] == list(range(2000 - most, 2000))


def test_changes_may_be_as_large_as_the_limit_together() -> None:
    items = [change(revision) for revision in (2, 3, 4)]
    history = History(1, 100, _size(items[0]) + _size(items[1]))
    for item, kept in zip(items, (1, 2, 2), strict=True):
        history.append(item)
        assert len(history) == kept
