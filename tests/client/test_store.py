"""The reflector's state against a model server: random histories, drops, compactions and relists."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.client.store import (
    Added,
    Change,
    Deleted,
    Entry,
    Key,
    Modified,
    ReflectorState,
    Snapshot,
    Unreadable,
    WatchEvent,
    diff,
    replay,
)
from dray.errors import ProtocolError
from tests.campaign import campaign


def entry(name: str, version: int, uid: str = "u", value: str = "") -> Entry[str]:
    return Entry(("ns", name), uid, str(version), value or f"{name}@{version}")


def event(kind: str, item: Entry[str] | Unreadable, version: int | None = None) -> WatchEvent[str]:
    return WatchEvent(kind, item, str(version) if version is not None else item.version)  # type: ignore[arg-type]


def bookmark(version: int) -> WatchEvent[str]:
    return WatchEvent("BOOKMARK", None, str(version))


@pytest.fixture
def state() -> ReflectorState[str]:
    made: ReflectorState[str] = ReflectorState()
    made.replace([entry("a", 1), entry("b", 2)], "5")
    return made


def test_first_list_adds_everything_in_key_order() -> None:
    state: ReflectorState[str] = ReflectorState()
    assert state.version == ""
    changes = state.replace([entry("b", 2), entry("a", 1)], "5")
    assert changes == (Added(entry("a", 1)), Added(entry("b", 2)))
    assert (state.version, state.generation) == ("5", 2)


def test_events_make_changes_with_old_and_new(state: ReflectorState[str]) -> None:
    assert state.apply(event("ADDED", entry("c", 6))) == (Added(entry("c", 6)),)
    assert state.apply(event("MODIFIED", entry("c", 7))) == (Modified(entry("c", 6), entry("c", 7)),)
    assert state.apply(event("DELETED", entry("c", 7), 8)) == (Deleted(entry("c", 7), "8"),)
    assert (state.version, state.generation) == ("8", 5)


def test_repeated_version_is_no_change(state: ReflectorState[str]) -> None:
    state.apply(event("MODIFIED", entry("a", 6)))
    assert state.apply(event("MODIFIED", entry("a", 6))) == ()
    assert state.replace([entry("a", 6), entry("b", 2)], "9") == ()
    assert state.generation == 3


def test_bookmark_moves_only_the_version(state: ReflectorState[str]) -> None:
    before = state.snapshot()
    assert state.apply(bookmark(50)) == ()
    assert state.version == "50"
    assert state.snapshot().entries is before.entries


def test_relist_reports_missed_deletes_and_recreations(state: ReflectorState[str]) -> None:
    changes = state.replace([entry("b", 9, uid="other"), entry("c", 8)], "10")
    assert changes == (
        Deleted(entry("a", 1), ""),
        Deleted(entry("b", 2), ""),
        Added(entry("b", 9, uid="other")),
        Added(entry("c", 8)),
    )


def test_recreation_seen_as_one_event_is_two_changes(state: ReflectorState[str]) -> None:
    changes = state.apply(event("MODIFIED", entry("a", 6, uid="new")))
    assert changes == (Deleted(entry("a", 1), ""), Added(entry("a", 6, uid="new")))


def test_delete_of_something_else_is_nothing(state: ReflectorState[str]) -> None:
    assert state.apply(event("DELETED", entry("zz", 6))) == ()
    assert state.apply(event("DELETED", entry("a", 7, uid="stranger"))) == ()
    assert state.apply(event("DELETED", entry("a", 8, uid=""))) == (Deleted(entry("a", 1), "8"),)


@pytest.mark.parametrize(
    "late", [event("MODIFIED", entry("a", 4)), event("ADDED", entry("x", 4)), bookmark(4)]
)
def test_going_back_in_a_watch_is_refused(state: ReflectorState[str], late: WatchEvent[str]) -> None:
    before = state.snapshot()
    with pytest.raises(ProtocolError, match="went back from resource version 5 to 4"):
        state.apply(late)
    assert state.snapshot() is before


def test_delete_with_the_objects_old_version_is_taken_and_does_not_move_back(
    state: ReflectorState[str],
) -> None:
    assert state.apply(event("DELETED", entry("a", 1))) == (Deleted(entry("a", 1), "1"),)
    assert state.version == "5"


def test_older_list_is_believed(state: ReflectorState[str]) -> None:
    state.apply(event("MODIFIED", entry("a", 6)))
    assert state.replace([entry("a", 1)], "3") == (
        Deleted(entry("b", 2), ""),
        Modified(entry("a", 6), entry("a", 1)),
    )
    assert state.version == "3"


def test_versions_that_are_no_numbers_are_not_compared() -> None:
    state: ReflectorState[str] = ReflectorState()
    state.replace([], "omega")
    item = Entry(("", "a"), "u", "alpha", "x")
    assert state.apply(WatchEvent("ADDED", item, "alpha")) == (Added(item),)
    assert state.version == "alpha"


def test_unreadable_update_keeps_the_last_readable_version(state: ReflectorState[str]) -> None:
    broken = Unreadable(("ns", "a"), "u", "6", "bad")
    assert state.apply(event("MODIFIED", broken)) == ()
    assert state.get(("ns", "a")) == entry("a", 1)
    assert state.unreadable == {("ns", "a"): broken}
    assert state.version == "6"
    assert state.replace([broken, entry("b", 2)], "7") == ()
    assert state.apply(event("MODIFIED", entry("a", 8))) == (Modified(entry("a", 1), entry("a", 8)),)
    assert state.unreadable == {}


def test_unreadable_deletion_is_a_deletion(state: ReflectorState[str]) -> None:
    state.apply(event("MODIFIED", Unreadable(("ns", "a"), "u", "6", "bad")))
    assert state.apply(event("DELETED", Unreadable(("ns", "a"), "u", "7", "bad"))) == (
        Deleted(entry("a", 1), "7"),
    )
    assert state.unreadable == {}
    assert state.replace([Unreadable(("ns", "b"), "u", "8", "bad")], "8") == ()
    assert state.replace([], "9") == (Deleted(entry("b", 2), ""),)
    assert state.unreadable == {}


def test_unreadable_new_incarnation_ends_the_old_one(state: ReflectorState[str]) -> None:
    assert state.apply(event("ADDED", Unreadable(("ns", "a"), "new", "6", "bad"))) == (
        Deleted(entry("a", 1), ""),
    )
    assert state.replace([Unreadable(("ns", "b"), "new", "7", "bad")], "8") == (Deleted(entry("b", 2), ""),)
    assert len(state.snapshot()) == 0


def test_snapshot_is_immutable_and_shared_until_a_change(state: ReflectorState[str]) -> None:
    one = state.snapshot()
    assert state.snapshot() is one
    state.apply(event("DELETED", entry("a", 6)))
    assert ("ns", "a") in one
    assert one.get(("ns", "a")) == "a@1"
    assert one.get(("ns", "nope")) is None
    assert sorted(one.values()) == ["a@1", "b@2"]
    assert ("ns", "a") not in state.snapshot()
    with pytest.raises(TypeError):
        one.entries["x"] = None  # type: ignore[index]


def test_unchanged_objects_stay_the_same_objects_after_a_relist(state: ReflectorState[str]) -> None:
    before = state.get(("ns", "a"))
    state.replace([entry("a", 1), entry("b", 3)], "9")
    assert state.get(("ns", "a")) is before


# --- The model: a server with history, and a client whose connection is cut anywhere. ---

NAMES = "abcd"


@dataclass
class Server:
    """etcd in small: a revision, the live objects and the events since the last compaction."""

    rng: random.Random
    revision: int = 1
    compacted: int = 0
    uids: int = 0
    live: dict[Key, Entry[str]] = field(default_factory=dict)
    history: list[WatchEvent[str]] = field(default_factory=list)

    def write(self) -> None:
        name = self.rng.choice(NAMES)
        known = self.live.get(("ns", name))
        self.revision += 1
        if known is None:
            self.uids += 1
            self._put("ADDED", entry(name, self.revision, uid=f"u{self.uids}"))
        elif self.rng.random() < 0.4:
            del self.live[known.key]
            self.history.append(WatchEvent("DELETED", known, str(self.revision)))
        else:
            self._put("MODIFIED", entry(name, self.revision, uid=known.uid))

    def _put(self, kind: str, item: Entry[str]) -> None:
        self.live[item.key] = item
        self.history.append(event(kind, item))

    def unrelated_write(self) -> None:
        self.revision += 1

    def compact(self) -> None:
        self.compacted = self.rng.randint(self.compacted, self.revision)

    def since(self, version: str) -> list[WatchEvent[str]] | None:
        """The events after a version; None is 410."""
        if int(version) < self.compacted:
            return None
        return [event for event in self.history if int(event.version) > int(version)]


@dataclass
class Run:
    """One client life against one server, with everything it reported."""

    server: Server
    rng: random.Random
    state: ReflectorState[str] = field(default_factory=ReflectorState)
    log: list[Change[str]] = field(default_factory=list)

    def relist(self) -> None:
        self.log += self.state.replace(list(self.server.live.values()), str(self.server.revision))

    def connect(self, *, cut: bool) -> None:
        """A watch from the last version; `cut` ends it anywhere, may repeat the last event and send bookmarks."""
        events = self.server.since(self.state.version)
        if events is None:
            return self.relist()
        if cut:
            events = events[: self.rng.randint(0, len(events))]
        for one in events:
            self.log += self.state.apply(one)
            if self.rng.random() < 0.2 and one.type != "DELETED":
                self.log += self.state.apply(one)
            if self.rng.random() < 0.2:
                self.log += self.state.apply(WatchEvent("BOOKMARK", None, one.version))
        if not cut:
            self.log += self.state.apply(bookmark(self.server.revision))
        return None


ACTIONS = ["write"] * 6 + ["unrelated", "compact", "cut", "cut", "drain", "relist"]


@settings(max_examples=campaign(200, 20_000))
@given(seed=st.integers(0, 2**32), actions=st.lists(st.sampled_from(ACTIONS), max_size=80))
def test_log_and_cache_always_match_the_server(seed: int, actions: list[str]) -> None:
    rng = random.Random(seed)
    run = Run(Server(rng), rng)
    run.relist()
    for action in actions:
        match action:
            case "write":
                run.server.write()
            case "unrelated":
                run.server.unrelated_write()
            case "compact":
                run.server.compact()
            case "relist":
                run.relist()
            case _:
                run.connect(cut=action == "cut")
        check_log(run)
    run.connect(cut=False)
    check_log(run)
    assert dict(run.state.snapshot().entries) == run.server.live


def check_log(run: Run) -> None:
    """The log, replayed from nothing, gives the cache; every step of it is legal."""
    replayed: dict[Key, Entry[str]] = {}
    for change in run.log:
        known = replayed.get(change.key)
        match change:
            case Added():
                assert known is None
            case Modified():
                assert known == change.old
                assert change.new.uid == change.old.uid
                assert int(change.new.version) > int(change.old.version)
            case Deleted():
                assert known == change.old
        replay(replayed, [change])
    assert replayed == dict(run.state.snapshot().entries)
    assert run.state.generation == len(run.log)


@settings(max_examples=campaign(100, 5_000))
@given(seed=st.integers(0, 2**32), first=st.integers(0, 20), second=st.integers(0, 20))
def test_diff_of_two_snapshots_leads_from_one_to_the_other(seed: int, first: int, second: int) -> None:
    rng = random.Random(seed)
    run = Run(Server(rng), rng)
    for _ in range(first):
        run.server.write()
    run.relist()
    old = run.state.snapshot()
    for _ in range(second):
        run.server.write()
    run.connect(cut=False)
    new: Snapshot[str] = run.state.snapshot()
    entries = dict(old.entries)
    replay(entries, diff(old, new))
    assert entries == dict(new.entries)
