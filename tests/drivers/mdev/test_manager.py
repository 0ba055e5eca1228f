from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from dray.drivers.mdev.manager import MdevManager
from dray.drivers.mdev.situation import Wishes
from dray.hardware.change import HostChange
from dray.hardware.change.executor import Applied
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host, MdevParent, MdevType
from tests.drivers.mdev.managed_host import THEIRS, Hands, Time, new_manager, types

WANTED = Wishes(("nvidia-223", "nvidia-222"))


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    """Message and facts of what was logged since the last call."""
    found = [
        (record.getMessage(), record.__dict__["fields"])
        for record in caplog.records
        if record.name == "dray.drivers.mdev"
    ]
    caplog.clear()
    return found


def test_types_come_and_go(host: Host, parents: list[MdevParent], manager: MdevManager) -> None:
    step = manager.step(WANTED)
    assert types(host, parents) == [["nvidia-223"] * 2, ["nvidia-222"] * 3]
    assert len(step.created) == 5 and not step.removed and not step.problems and step.again_in is None
    assert manager.step(WANTED).changed == ()
    step = manager.step(Wishes(("GRID T4-1B", "nvidia-7")))
    assert types(host, parents) == [["nvidia-222"] * 3] * 2
    assert (len(step.created), len(step.removed), step.unplaced) == (3, 2, ("nvidia-7",))
    step = manager.step(Wishes())
    assert types(host, parents) == [[], []] and len(step.removed) == 6


def test_without_the_right_to_manage_nothing_is_touched(
    host: Host, parents: list[MdevParent], manager: MdevManager, tmp_path: Path
) -> None:
    manager.step(Wishes(("nvidia-222",)))
    before = len(host.writes)
    assert manager.step(Wishes(managed=False)).changed == ()
    assert len(host.writes) == before
    with new_manager(host, tmp_path / "other") as other:
        other.step(Wishes(("nvidia-223",), managed=False))
    assert not (tmp_path / "other").exists()


def test_what_others_made_stays_and_keeps_its_card(
    host: Host, parents: list[MdevParent], manager: MdevManager
) -> None:
    parents[0].create("nvidia-222", THEIRS)
    step = manager.step(WANTED)
    assert types(host, parents) == [["nvidia-222"], ["nvidia-223"] * 2]
    assert [THEIRS in problem.message for problem in step.problems] == [True]
    manager.step(Wishes())
    assert types(host, parents) == [["nvidia-222"], []]


@pytest.mark.parametrize("linked", [True, False])
def test_what_others_made_and_nobody_can_read_keeps_its_card(
    host: Host, parents: list[MdevParent], manager: MdevManager, linked: bool
) -> None:
    """Its link still says which card it is on; without even that it may be on any card."""
    theirs = parents[0].create("nvidia-222", THEIRS)
    host.vanish(theirs.path / "mdev_type")
    if not linked:
        host.link(f"/sys/bus/mdev/devices/{THEIRS}", f"{THEIRS}x")
    step = manager.step(WANTED)
    assert types(host, parents) == [["nvidia-222"], ["nvidia-223"] * 2 if linked else []]
    assert len(step.problems) == (1 if linked else 2)
    assert all(f"{THEIRS} (it cannot be read in full)" in problem.message for problem in step.problems)
    theirs.remove()
    manager.step(WANTED)
    now = types(host, parents)
    assert (now if linked else now[::-1]) == [["nvidia-222"] * 3, ["nvidia-223"] * 2]


def test_a_device_in_use_stays_until_it_is_free(
    host: Host, parents: list[MdevParent], manager: MdevManager
) -> None:
    manager.step(Wishes(("nvidia-223",)))
    host.settle()
    held = min(parents[0].mdevs)
    step = manager.step(Wishes(), {held})
    assert types(host, parents) == [["nvidia-223"], []]
    assert step.again_in == 2.0  # the others went: their room may show late
    step = manager.step(Wishes(), {held})
    assert step.again_in == 60.0 and "in use" in step.problems[0].message
    manager.step(Wishes())
    assert types(host, parents) == [[], []]


def test_a_device_that_is_handed_out_during_the_step_stays(
    host: Host, parents: list[MdevParent], tmp_path: Path, clock: Time
) -> None:
    taken: list[str] = []

    def may_take(uuid: str) -> bool:
        taken.append(uuid)
        return len(taken) != 2

    with MdevManager(
        HostRoot(host.root), tmp_path / "state", Hands(host).apply, clock=clock, may_take=may_take
    ) as manager:
        manager.step(Wishes(("nvidia-223",)))
        assert not taken  # nobody can have what does not exist yet
        step = manager.step(Wishes())
        assert types(host, parents) == [["nvidia-223"], []] and len(taken) == 4
        assert step.again_in == 2.0 and "just been handed out" in step.problems[0].message
        clock.seconds += 2
        manager.step(Wishes())
        assert types(host, parents) == [[], []]


def test_a_failed_creation_waits_and_does_not_spin(
    host: Host, parents: list[MdevParent], manager: MdevManager, hands: Hands, clock: Time
) -> None:
    hands.refused["0000:05:00.0"] = 2
    step = manager.step(Wishes(("nvidia-223",)))
    assert types(host, parents) == [[], ["nvidia-223"] * 2] and step.again_in == 2.0
    assert "was not made the first time: the driver is ill" in step.problems[0].message
    writes = len(host.writes)
    clock.seconds += 1.5
    assert manager.step(Wishes(("nvidia-223",))).again_in == 0.5
    assert len(host.writes) == writes
    clock.seconds += 0.5
    assert manager.step(Wishes(("nvidia-223",))).again_in == 4.0
    clock.seconds += 4
    assert manager.step(Wishes(("nvidia-223",))).problems == ()
    assert types(host, parents) == [["nvidia-223"] * 2] * 2


def test_a_device_that_goes_as_soon_as_it_is_made_is_no_race(
    host: Host, parents: list[MdevParent], manager: MdevManager, clock: Time
) -> None:
    def somebody_removes_all() -> None:
        host.settle()
        for mdev in list(parents[0].mdevs.values()):
            mdev.remove()

    parents[1].owner.unplug()  # type: ignore[attr-defined]
    waits = []
    assert len(manager.step(Wishes(("nvidia-223",))).created) == 2
    for _ in range(4):
        somebody_removes_all()
        clock.seconds += 1
        since = clock.seconds
        while not (step := manager.step(Wishes(("nvidia-223",)))).created:
            assert "is gone again" in step.problems[0].message and step.again_in
            clock.seconds += step.again_in
        waits.append(clock.seconds - since)
    assert waits == [2, 4, 8, 16]
    somebody_removes_all()
    clock.seconds += 1000
    manager.step(Wishes(("nvidia-223",)))
    clock.seconds += 11  # that is no fight any more: somebody removed them
    somebody_removes_all()
    assert len(manager.step(Wishes(("nvidia-223",))).created) == 2


def test_a_card_that_is_plugged_again_gets_its_devices_at_once(
    host: Host, parents: list[MdevParent], manager: MdevManager
) -> None:
    manager.step(Wishes(("nvidia-223",)))
    host.settle()
    before = set(parents[0].mdevs)
    card: Any = parents[0].owner
    card.unplug()
    manager.step(Wishes(("nvidia-223",)))
    card.replug()
    step = manager.step(Wishes(("nvidia-223",)))
    host.settle()
    assert {one.uuid for one in step.created} == set(parents[0].mdevs) == before


def test_a_driver_that_undoes_everything_at_once_ends_the_step(tmp_path: Path, clock: Time) -> None:
    """`apply` says done, the host says no: a step is a bounded number of tries all the same."""
    host = Host(tmp_path / "root")
    host.mdev_parent("mtty", {"mtty-1": MdevType(2)})
    tried: list[HostChange] = []

    def pretend(change: HostChange) -> Applied:
        tried.append(change)
        return Applied(change, changed=True)

    with MdevManager(HostRoot(host.root), tmp_path / "state", pretend, clock=clock) as manager:
        step = manager.step(Wishes(("mtty-1",)))
        assert len(tried) == 2 and step.again_in == 2.0


# The log.


def test_everything_is_said_once(
    host: Host, parents: list[MdevParent], manager: MdevManager, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    parents[0].create("nvidia-222", THEIRS)
    manager.step(Wishes(("nvidia-223", "nvidia-7")))
    said = lines(caplog)
    assert [message for message, _ in said] == [
        "mediated devices created",
        "no card has or gets this mdev type",
    ]
    assert said[0][1] == {"card": "0000:06:00.0", "type": "nvidia-223", "count": 2}
    manager.step(Wishes(("nvidia-223", "nvidia-7")))
    assert lines(caplog) == []
    manager.step(Wishes(("nvidia-222", "nvidia-7")))
    said = lines(caplog)
    assert [message for message, _ in said] == [
        "mediated devices removed",
        "mediated devices created",
        "problem",
    ]
    manager.step(Wishes(("nvidia-222",)))
    assert lines(caplog) == []
    manager.step(Wishes(("nvidia-222", "nvidia-7")))  # it was away in between
    assert [facts for _, facts in lines(caplog)] == [{"type": "nvidia-7"}]
