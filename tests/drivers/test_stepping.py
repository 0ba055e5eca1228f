from __future__ import annotations

import logging

import pytest

from dray.drivers.contract import Problem
from dray.drivers.stepping import Said, again_in, asking_first
from dray.errors import ConflictError
from dray.hardware.change import CreateMdev, HostChange, RemoveMdev, SetVgpuProfile
from dray.hardware.change.executor import Applied
from dray.runtime.logs import get_log

UUID = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"


def test_the_shortest_wait_counts() -> None:
    assert again_in(None, 5.0) is None
    assert again_in(None, 5.0, None, None) is None
    assert again_in(7.0, 5.0, None) == 2.0
    assert again_in(3.0, 5.0, 60.0) == 0.0
    assert again_in(100.0, 5.0, 60.0, 2.0) == 2.0


def test_what_takes_a_device_is_asked_for_and_what_makes_one_is_not() -> None:
    done: list[HostChange] = []

    def apply(change: HostChange) -> Applied:
        done.append(change)
        return Applied(change, changed=True)

    guarded = asking_first(apply, lambda device: device != UUID)
    guarded(CreateMdev("card", "type", UUID))
    guarded(SetVgpuProfile("0000:41:00.4", 7))
    with pytest.raises(ConflictError, match=f"{UUID} has just been handed out"):
        guarded(RemoveMdev(UUID))
    assert len(done) == 2
    asking_first(apply, None)(RemoveMdev(UUID))
    assert len(done) == 3


def test_a_thing_is_said_again_only_when_it_was_away() -> None:
    said = Said(get_log("test"))
    assert said.news("types", ["b", "a", "b"]) == ["b", "a"]
    assert said.news("types", ["a", "b"]) == []
    assert said.news("others", ["a"]) == ["a"]
    assert said.news("types", ["a"]) == []
    assert said.news("types", ["a", "b"]) == ["b"]


def test_a_problem_is_said_again_when_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    said = Said(get_log("test"))
    for message in ("one", "one", "two"):
        said.problems([Problem("/sys/x", message)])
    assert [record.__dict__["fields"]["what"] for record in caplog.records] == ["one", "two"]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
