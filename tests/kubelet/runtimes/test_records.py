from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from dray.errors import InvalidError, NotFoundError
from dray.kubelet.runtimes.contract import PodIdentity, State
from dray.kubelet.runtimes.liveness import Identity
from dray.kubelet.runtimes.records import (
    CONTAINERS,
    ContainerRecord,
    Exit,
    Facts,
    Running,
    Store,
    make_id,
    write,
)
from dray.kubelet.runtimes.shim import identity

NOW = datetime(2030, 1, 1, tzinfo=UTC)
RECORD = ContainerRecord("i", "s", PodIdentity("u", "ns", "p"), "c", 0, "img", NOW)
ALIVE = Identity(**identity(os.getpid()))
GONE = Identity(ALIVE.pid, ALIVE.start + 1, ALIVE.boot)
EARLIER = Identity(ALIVE.pid, ALIVE.start, "another boot")
EXIT = Exit(3, "Error", "", NOW)


def ran(who: Identity) -> Running:
    return Running(who.pid, who.start, who.boot, NOW)


@pytest.mark.parametrize(
    ("keeper", "is_kept", "running", "end", "expected"),
    [
        (None, False, None, None, State.CREATED),
        (ALIVE, True, None, None, State.CREATED),
        (ALIVE, True, ran(ALIVE), None, State.RUNNING),
        (ALIVE, True, ran(GONE), None, State.RUNNING),  # its keeper is about to tell how it ended
        (ALIVE, True, ran(GONE), EXIT, State.EXITED),
        (GONE, False, ran(GONE), EXIT, State.EXITED),
        (GONE, False, ran(ALIVE), None, State.RUNNING),
        (GONE, False, ran(GONE), None, State.UNKNOWN),
        (GONE, False, None, None, State.EXITED),
        (EARLIER, False, ran(EARLIER), None, State.UNKNOWN),
        (EARLIER, False, None, None, State.UNKNOWN),
        (EARLIER, False, ran(EARLIER), EXIT, State.EXITED),
    ],
)
def test_state(
    keeper: Identity | None, is_kept: bool, running: Running | None, end: Exit | None, expected: State
) -> None:
    facts = Facts(RECORD, keeper, is_kept, running, end, running is not None and running.is_alive)
    assert facts.state is facts.told().state is expected
    assert (facts.awaited is not None) == (expected is State.RUNNING or (is_kept and end is None))


def test_one_look_fits_together_though_the_process_ends_meanwhile(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    store.prepare()
    with subprocess.Popen(["sleep", "60"]) as process:
        running = ran(Identity(**identity(process.pid)))
        with store.making(CONTAINERS, "i") as staged:
            for name, record in (("container", RECORD), ("keeper", GONE), ("running", running)):
                write(staged, f"{name}.json", record)
        facts = store.facts("i")
        process.kill()
    assert facts is not None
    assert (facts.state, facts.awaited, facts.told().state) == (State.RUNNING, running, State.RUNNING)
    later = store.facts("i")
    assert later is not None
    assert (later.state, later.awaited) == (State.UNKNOWN, None)


def test_ids_are_the_same_after_a_restart_and_differ_by_every_part() -> None:
    assert make_id("u", "c", 0) == make_id("u", "c", 0)
    assert len({make_id(*parts) for parts in (("u", "c", 0), ("u", "c", 1), ("uc", 0), ("u", "c0"))}) == 4


def make(store: Store, record: ContainerRecord = RECORD) -> None:
    with store.making(CONTAINERS, "i") as staged:
        write(staged, "container.json", record)
        (staged / "exit.json").write_text("{")


def test_made_and_discarded_in_one_step(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    store.prepare()
    with store.making(CONTAINERS, "i") as staged:
        write(staged, "container.json", RECORD)
        assert store.facts("i") is None
        assert store.trash() == [staged]
    assert store.facts("i") == Facts(RECORD)
    left = store.discard(CONTAINERS, "i")
    assert left is not None
    assert store.facts("i") is None
    assert store.trash() == [left]
    store.empty(left)
    assert store.trash() == []
    assert store.discard(CONTAINERS, "i") is None


def test_of_two_the_first_stays_and_a_failure_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    store.prepare()
    make(store)
    make(store, msgspec.structs.replace(RECORD, name="other"))
    assert store.facts("i") == Facts(RECORD)
    with pytest.raises(InvalidError), store.making(CONTAINERS, "j"):
        raise InvalidError("no")
    assert (store.ids(CONTAINERS), store.trash()) == (["i"], [])


def test_a_damaged_record_counts_as_absent(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
    store.prepare()
    make(store)
    facts = store.facts("i")
    assert facts is not None
    assert facts.exit is None
    with pytest.raises(NotFoundError, match="no sandbox nobody"):
        store.sandbox("nobody")
