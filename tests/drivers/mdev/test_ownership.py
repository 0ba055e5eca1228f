from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.drivers.failures import Failures
from dray.drivers.mdev.ownership import CarriedOut, Ownership, carry_out
from dray.drivers.mdev.plan import MdevPlan, plan_mdevs
from dray.drivers.mdev.situation import View, Wishes
from dray.errors import ConflictError
from dray.hardware.change import CreateMdev, HostChange, RemoveMdev
from dray.hardware.change.access import Limits
from dray.hardware.change.executor import Applied, Executor
from dray.hardware.host_root import HostRoot
from dray.hardware.mdev import read_mdev_cards, read_mdev_parents, read_mdevs
from dray.runtime.clock import FakeClock
from dray.testing.host import Host, MdevParent, MdevType
from tests.drivers.mdev.simulated_cards import Cards

ONE = CreateMdev("card", "type", "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001")
TWO = CreateMdev("card", "type", "83b8f4f2-509f-382f-3c1e-e6bfe0fa1002")
WISHES = Wishes(("type",), seed="machine")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "agent" / "mdevs"


# The file.


def test_intents_and_devices_survive_a_restart(file: Path) -> None:
    with Ownership(file, "boot-1") as first:
        assert first.owned == set() and first.lost == ""
        first.intend([TWO, ONE])
    with Ownership(file, "boot-1") as second:
        assert second.owned == {ONE, TWO}
        assert second.record(made=[ONE], withdrawn=[TWO]) == ""
    with Ownership(file, "boot-1") as third:
        assert third.owned == {ONE} and third.lost == ""


def test_the_file_can_be_read_by_people(file: Path) -> None:
    with Ownership(file, "boot-1") as ownership:
        ownership.intend([TWO, ONE])
        ownership.record(made=[ONE])
    content = json.loads(file.read_bytes().split(b"\n", 2)[2])
    mdev = {"change": "CreateMdev", "parent": "card", "type_id": "type"}
    assert content == {
        "boot_id": "boot-1",
        "intended": [{**mdev, "uuid": TWO.uuid}],
        "made": [{**mdev, "uuid": ONE.uuid}],
    }


def test_nothing_is_ours_after_a_reboot(file: Path) -> None:
    with Ownership(file, "boot-1") as before:
        before.intend([ONE])
    with Ownership(file, "boot-2") as after:
        assert after.owned == set() and after.lost == ""
        after.intend([TWO])
    with Ownership(file, "boot-2") as again:
        assert again.owned == {TWO}
    with Ownership(file) as unknown:
        assert unknown.owned == {TWO}


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "other"])
def test_a_damaged_file_means_that_nothing_is_ours(file: Path, damage: str) -> None:
    with Ownership(file) as before:
        before.intend([ONE])
    content = file.read_bytes()
    damaged = {
        "cut": content[:-3],
        "changed": content.replace(b"1001", b"1002"),
        "empty": b"",
        "other": b'{"made": []}',
    }
    file.write_bytes(damaged[damage])
    with Ownership(file) as after:
        assert after.owned == set()
        assert "cannot be used" in after.lost and "never removed" in after.lost
        kept = [path for path in file.parent.iterdir() if ".corrupt-" in path.name]
        assert [path.read_bytes() for path in kept] == [damaged[damage]]
        after.intend([TWO])
    with Ownership(file) as again:
        assert again.owned == {TWO} and again.lost == ""


def test_a_lost_file_means_that_nothing_is_ours(file: Path) -> None:
    with Ownership(file) as before:
        before.intend([ONE])
    file.unlink()
    with Ownership(file) as after:
        assert after.owned == set()


def test_two_agents_do_not_share_it(file: Path) -> None:
    with Ownership(file), pytest.raises(ConflictError), Ownership(file):
        pass
    with Ownership(file) as later:
        later.intend([ONE])


def test_what_is_gone_is_forgotten_and_what_may_still_come_is_not(file: Path) -> None:
    cards = Cards({"card": {"type": 4}})
    with Ownership(file) as ownership:
        ownership.intend([ONE, TWO])
        cards.add(ONE)
        assert ownership.see(cards.view()) == "" and ownership.owned == {ONE, TWO}
        cards.hidden.add(ONE.uuid)
        ownership.see(cards.view())
        assert ONE in ownership.owned
        ownership.see(View((), (), blind="permission denied"))
        assert ONE in ownership.owned
        cards.drop(ONE.uuid)
        ownership.see(cards.view())
        assert ownership.owned == {TWO}  # from now on, somebody else's ONE is not ours
    with Ownership(file) as again:
        assert again.owned == {TWO}


def test_nothing_is_written_when_nothing_changed(file: Path) -> None:
    cards = Cards({"card": {"type": 4}})
    with Ownership(file) as ownership:
        ownership.see(cards.view())
        assert not file.exists()
        ownership.intend([ONE])
        before = file.stat().st_ino
        ownership.intend([ONE])
        ownership.see(cards.view())
        ownership.record(removed=[TWO.uuid])
        assert file.stat().st_ino == before


# Carrying out, on simulated cards.


@pytest.fixture
def cards() -> Cards:
    return Cards({"card": {"type": 3}, "other": {"type": 2}})


def _look(cards: Cards, ownership: Ownership, failures: Failures, wishes: Wishes = WISHES) -> MdevPlan:
    ownership.see(cards.view())
    return plan_mdevs(cards.view(), wishes, ownership.owned, failures, 0.0)


def test_a_failure_stops_its_card_and_no_other(cards: Cards, file: Path) -> None:
    tried: list[HostChange] = []

    def refuse_the_second(change: HostChange) -> Applied:
        tried.append(change)
        if len(tried) == 2:
            raise ConflictError("the card is ill")
        return cards.apply(change)

    with Ownership(file) as ownership:
        plan = _look(cards, ownership, Failures())
        done = carry_out(plan, refuse_the_second, ownership, Failures(), FakeClock())
        assert tried == [*plan.create[:2], *plan.create[3:]]
        assert done.created == (plan.create[0], *plan.create[3:])
        assert [failure.error for failure in done.failures.by_key.values()] == ["the card is ill"]
        assert ownership.owned == {*plan.create} - {
            plan.create[2]
        }  # the second may still appear, the third not
        assert _look(cards, ownership, done.failures).is_done


def test_a_success_is_no_failure_and_clears_an_earlier_one(cards: Cards, file: Path) -> None:
    """Upstream warns that it failed to remove what it removed."""
    with Ownership(file) as ownership:
        plan = _look(cards, ownership, Failures())
        failed = Failures().after(plan.create[0], "no", -10.0)
        assert not carry_out(plan, cards.apply, ownership, failed, FakeClock()).failures.by_key
        nothing = _look(cards, ownership, Failures(), Wishes())
        done = carry_out(nothing, cards.apply, ownership, Failures(), FakeClock())
        assert done == CarriedOut((), nothing.remove, Failures()) and len(done.removed) == 5
        assert ownership.owned == set() and not cards.mdevs


def test_a_device_in_use_is_a_failure_that_waits(cards: Cards, file: Path) -> None:
    with Ownership(file) as ownership:
        carry_out(_look(cards, ownership, Failures()), cards.apply, ownership, Failures(), FakeClock())
        view = cards.view()  # nobody has told us yet that it is in use
        plan = plan_mdevs(view, Wishes(), ownership.owned, Failures(), 0.0)
        cards.held.add(plan.remove[0].uuid)
        done = carry_out(plan, cards.apply, ownership, Failures(), FakeClock())
        assert [failure.change for failure in done.failures.by_key.values()] == [plan.remove[0]]
        assert {one.uuid for one in ownership.owned} == set(cards.mdevs) == {plan.remove[0].uuid}


def test_a_device_that_somebody_else_made_meanwhile_is_theirs(cards: Cards, file: Path) -> None:
    with Ownership(file) as ownership:
        plan = _look(cards, ownership, Failures())
        cards.add(plan.create[0])
        done = carry_out(plan, cards.apply, ownership, Failures(), FakeClock())
        assert done.created == plan.create[1:] and plan.create[0] not in ownership.owned
        assert RemoveMdev(plan.create[0].uuid) not in _look(cards, ownership, Failures(), Wishes()).remove


def test_a_device_that_appears_late_is_ours(cards: Cards, file: Path) -> None:
    with Ownership(file) as ownership:
        plan = _look(cards, ownership, Failures())
        ownership.intend(plan.create[:1])
    cards.add(plan.create[0])
    with Ownership(file) as ownership:
        done = carry_out(plan, cards.apply, ownership, Failures(), FakeClock())
        assert done.created == plan.create and ownership.owned == set(plan.create)


def test_nothing_is_made_that_cannot_be_recorded(cards: Cards, file: Path) -> None:
    with Ownership(file) as ownership:
        plan = _look(cards, ownership, Failures())
        (file.parent / f".{file.name}.tmp").mkdir()  # the new state has no place
        done = carry_out(plan, cards.apply, ownership, Failures(), FakeClock())
        assert not cards.mdevs and not done.created and ownership.owned == set()
        assert {key[0] for key in done.failures.by_key} == {"card", "other"}
        assert _look(cards, ownership, done.failures).next_try == 2.0
        (file.parent / f".{file.name}.tmp").rmdir()
        done = carry_out(plan, cards.apply, ownership, done.failures, FakeClock())
        assert len(cards.mdevs) == 5 and not done.failures.by_key
        (file.parent / f".{file.name}.tmp").mkdir()
        assert str(file) in ownership.record(removed=[plan.create[0].uuid])
        (file.parent / f".{file.name}.tmp").rmdir()
        assert ownership.record() == ""  # the next call catches up
    with Ownership(file) as again:
        assert again.owned == set(plan.create[1:])


# A host made of files, and the executor that writes to it.

TYPES = {"nvidia-222": MdevType(3, "GRID T4-1B"), "nvidia-223": MdevType(2, "GRID T4-2B")}
THEIRS = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path / "root")
    with host.active():
        yield host


@pytest.fixture
def parents(host: Host) -> list[MdevParent]:
    addresses = ["0000:05:00.0", "0000:06:00.0"]
    gpus = [host.pci(address, vendor="10de", device="1eb8", driver="nvidia") for address in addresses]
    return [host.mdev_parent(gpu, TYPES, exclusive=True) for gpu in gpus]


def _view(root: Path) -> View:
    place = HostRoot(root)
    return View.of(read_mdev_parents(place), read_mdevs(place), read_mdev_cards(place))


def _reconcile(
    host: Host,
    ownership: Ownership,
    wishes: Wishes,
    failures: Failures,
    *,
    effect: float = 5,
    now: float = 0.0,
) -> tuple[MdevPlan, Failures]:
    """Until a plan is done. As with a kernel, all counts are right when a write returns."""
    limits = Limits(effect=effect, node=5, process=20)
    executor = Executor(host.root, lambda entry: None, limits=limits, isolate=False)

    def apply(change: HostChange) -> Applied:
        try:
            return executor.apply(change)
        finally:
            host.settle()

    for _ in range(5):
        view = _view(host.root)
        assert ownership.see(view) == ""
        plan = plan_mdevs(view, wishes, ownership.owned, failures, now)
        if plan.is_done:
            return plan, failures
        failures = carry_out(plan, apply, ownership, failures, FakeClock()).failures
    raise AssertionError(f"not done: {plan}")


def _types(parents: list[MdevParent]) -> list[list[str]]:
    return [sorted(mdev.type_id for mdev in parent.mdevs.values()) for parent in parents]


def test_on_a_host_types_come_and_go(host: Host, parents: list[MdevParent], file: Path) -> None:
    mtty = host.mdev_parent("mtty", {"mtty-1": MdevType(4)})
    mtty.create("mtty-1", THEIRS)
    with Ownership(file) as ownership:
        plan, _ = _reconcile(host, ownership, Wishes(("GRID T4-2B", "nvidia-222", "mtty-1")), Failures())
        host.settle()
        assert _types(parents) == [["nvidia-223"] * 2, ["nvidia-222"] * 3]
        before = [dict.fromkeys(parent.mdevs) for parent in parents]
        _reconcile(host, ownership, Wishes(("nvidia-223",)), Failures())
        host.settle()
        assert _types(parents) == [["nvidia-223"] * 2] * 2 and dict.fromkeys(parents[0].mdevs) == before[0]
        _reconcile(host, ownership, Wishes(), Failures())
        host.settle()
        assert _types(parents) == [[], []] and list(mtty.mdevs) == [THEIRS]
    assert len(plan.problems) == 1 and "somebody else made it" in plan.problems[0].message


def test_on_a_host_a_driver_that_fails_is_left_in_peace(
    host: Host, parents: list[MdevParent], file: Path
) -> None:
    host.ignore_writes("*/0000:05:00.0/*/create")
    with Ownership(file) as ownership:
        plan, failures = _reconcile(host, ownership, Wishes(("nvidia-223",)), Failures(), effect=0.2)
        host.settle()
        assert _types(parents) == [[], ["nvidia-223"] * 2] and plan.next_try == 2.0
        assert "no device appeared" in plan.problems[0].message
        assert len([write for write in host.writes if "0000:05:00.0" in write.path]) == 1  # it did not spin
        _reconcile(host, ownership, Wishes(("nvidia-223",)), failures, now=2.0)
        host.settle()
        assert _types(parents) == [["nvidia-223"] * 2] * 2
        assert len(ownership.owned) == 4


PROGRAM = """
import os, signal, sys
from pathlib import Path
from dray.drivers.mdev.ownership import Ownership, carry_out
from dray.drivers.mdev.plan import plan_mdevs
from dray.drivers.failures import Failures
from dray.drivers.mdev.situation import View, Wishes
from dray.hardware.change.executor import Executor, Outcome
from dray.hardware.host_root import HostRoot
from dray.hardware.mdev import read_mdev_parents, read_mdevs
from dray.runtime.clock import SystemClock

root, file, desired, left = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3].split(), int(sys.argv[4])

def audit(entry):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

executor = Executor(root, audit, isolate=False)
with Ownership(file, "boot") as ownership:
    for _ in range(3):
        place = HostRoot(root)
        view = View.of(read_mdev_parents(place), read_mdevs(place), {})
        ownership.see(view)
        plan = plan_mdevs(view, Wishes(tuple(desired)), ownership.owned, Failures(), 0.0)
        carry_out(plan, executor.apply, ownership, Failures(), SystemClock())
"""


def _run_and_die(root: Path, file: Path, desired: str, reports: int) -> None:
    """An agent that is killed at this report of its executor: odd ones come before a write, even ones after."""
    program = [sys.executable, "-c", PROGRAM, str(root), str(file), desired, str(reports)]
    ended = subprocess.run(
        program, timeout=60, check=False, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    )
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.parametrize("reports", [1, 2, 3, 6, 9, 10])
def test_a_kill_leaves_nothing_that_is_not_known_as_ours(
    host: Host, parents: list[MdevParent], file: Path, reports: int
) -> None:
    """Ten reports are five creations; each restart finds what was made, makes the rest, and can remove it all."""
    mtty = host.mdev_parent("mtty", {"mtty-1": MdevType(4)})
    mtty.create("mtty-1", THEIRS)
    _run_and_die(host.root, file, "nvidia-223 nvidia-222", reports)
    host.settle()
    made = sum(map(len, _types(parents)))
    assert made == reports // 2
    with Ownership(file, "boot") as ownership:
        assert {one.uuid for one in ownership.owned} >= {uuid for parent in parents for uuid in parent.mdevs}
        _reconcile(host, ownership, Wishes(("nvidia-223", "nvidia-222")), Failures())
        host.settle()
        assert _types(parents) == [["nvidia-223"] * 2, ["nvidia-222"] * 3]
    _run_and_die(host.root, file, "", reports)  # the same, while removing
    host.settle()
    with Ownership(file, "boot") as ownership:
        _reconcile(host, ownership, Wishes(), Failures())
        host.settle()
        assert _types(parents) == [[], []] and list(mtty.mdevs) == [THEIRS]
        assert not any(one.uuid in parent.mdevs for one in ownership.owned for parent in parents)
