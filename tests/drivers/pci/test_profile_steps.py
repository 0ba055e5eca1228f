from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.drivers.pci import PciDriver
from dray.drivers.pci.config import PciConfig, PciSelector
from dray.drivers.pci.profile_steps import VgpuProfiles
from dray.drivers.pci.profiles import ProfileRule
from dray.errors import HardwareError, InvariantError
from dray.hardware.change import HostChange, SetVgpuProfile
from dray.hardware.change.executor import Applied, Executor
from dray.hardware.host_root import HostRoot
from dray.runtime.clock import SystemClock
from dray.testing.host import Host, PciFunction
from tests.campaign import campaign, seeded

TYPES = {1414: "NVIDIA H200X-1-18C", 1428: "NVIDIA H200X-141C"}
ALL = ProfileRule("H200X-1-18C", id="10de:2335")


class Time(SystemClock):
    """Moves when told."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path / "root")
    with host.active():
        yield host


@pytest.fixture
def card(host: Host) -> PciFunction:
    card = host.pci("0000:41:00.0", vendor="10de", device="2335", driver="nvidia", sriov_total=4)
    for index in range(2):
        card.vf(driver="nvidia", vgpu_types=TYPES, iommu_group=61 + index)
    return card


@pytest.fixture
def hands(host: Host) -> Hands:
    return Hands(host)


@pytest.fixture
def profiles(host: Host, hands: Hands, clock: Time) -> VgpuProfiles:
    return VgpuProfiles(HostRoot(host.root), hands.apply, clock=clock)


class Hands:
    """An executor for the host; the next `refused` changes of a function fail."""

    def __init__(self, host: Host) -> None:
        self._executor = Executor(host.root, lambda entry: None, isolate=False)
        self.refused: Counter[str] = Counter()

    def apply(self, change: HostChange) -> Applied:
        if self.refused[change.device] > 0:
            self.refused[change.device] -= 1
            raise HardwareError("the GPU is full")
        return self._executor.apply(change)


def current(host: Host, card: PciFunction) -> list[int]:
    host.settle()
    return [int((vf.path / "nvidia/current_vgpu_type").read_text()) for vf in card.vfs]


def test_profiles_are_given_once_and_the_functions_become_devices(
    host: Host, card: PciFunction, profiles: VgpuProfiles
) -> None:
    driver = PciDriver(PciConfig((PciSelector("nvidia.com/VGPU", id="10de:2335"),)))
    assert driver.discover(HostRoot(host.root)).devices == ()
    step = profiles.step([ALL])
    assert current(host, card) == [1414, 1414] and len(step.changed) == 2
    assert not step.problems and step.again_in is None
    assert [one.id for one in driver.discover(HostRoot(host.root)).devices] == ["61", "62"]
    assert profiles.step([ALL]).changed == ()


def test_a_rule_that_goes_leaves_the_profile(host: Host, card: PciFunction, profiles: VgpuProfiles) -> None:
    profiles.step([ALL])
    assert profiles.step([]).changed == ()
    assert current(host, card) == [1414, 1414]


def test_another_profile_comes_by_way_of_none(host: Host, card: PciFunction, profiles: VgpuProfiles) -> None:
    profiles.step([ALL])
    step = profiles.step([ProfileRule(1428, id="10de:2335")])
    assert current(host, card) == [1428, 1428]
    assert [change.profile for change in step.changed if isinstance(change, SetVgpuProfile)] == [
        0,
        0,
        1428,
        1428,
    ]


def test_a_function_in_use_waits(host: Host, card: PciFunction, profiles: VgpuProfiles) -> None:
    profiles.step([ALL])
    rule = ProfileRule(1428, id="10de:2335")
    step = profiles.step([rule], {card.vfs[0].address})
    assert current(host, card) == [1414, 1428] and step.again_in == 60.0
    assert "is in use" in step.problems[0].message
    profiles.step([rule])
    assert current(host, card) == [1428, 1428]


def test_a_function_that_is_handed_out_during_the_step_keeps_its_profile(
    host: Host, card: PciFunction, clock: Time
) -> None:
    asked: list[str] = []

    def may_take(address: str) -> bool:
        asked.append(address)
        return address != card.vfs[0].address

    profiles = VgpuProfiles(HostRoot(host.root), Hands(host).apply, clock=clock, may_take=may_take)
    step = profiles.step([ALL])
    assert current(host, card) == [0, 1414] and card.vfs[0].address in asked
    assert "just been handed out" in step.problems[0].message and step.again_in == 2.0


def test_a_driver_that_refuses_is_left_in_peace(
    host: Host, card: PciFunction, profiles: VgpuProfiles, hands: Hands, clock: Time
) -> None:
    hands.refused[card.vfs[0].address] = 1
    step = profiles.step([ALL])
    assert current(host, card) == [0, 1414] and step.again_in == 2.0
    assert "did not get vGPU profile H200X-1-18C the first time" in step.problems[0].message
    writes = len(host.writes)
    assert profiles.step([ALL]).again_in == 2.0 and len(host.writes) == writes
    clock.seconds += 2
    assert profiles.step([ALL]).problems == ()
    assert current(host, card) == [1414, 1414]


def test_names_are_remembered_when_the_gpu_offers_nothing_more(
    host: Host, card: PciFunction, profiles: VgpuProfiles
) -> None:
    profiles.step([ALL])
    for vf in card.vfs:
        host.garbage(vf.path / "nvidia/creatable_vgpu_types", b"ID    : vGPU Name\n")
    assert profiles.step([ALL]).problems == ()
    new = VgpuProfiles(HostRoot(host.root), Hands(host).apply)
    assert ["it keeps profile 1414" in one.message for one in new.step([ALL]).problems] == [True, True]
    assert current(host, card) == [1414, 1414]


def test_what_cannot_be_read_is_told(host: Host, card: PciFunction, profiles: VgpuProfiles) -> None:
    host.unreadable(card.vfs[0].path / "nvidia/creatable_vgpu_types")
    step = profiles.step([ProfileRule(1414, id="10de:2335")])
    assert current(host, card) == [1414, 1414] and "creatable_vgpu_types" in step.problems[0].path


def test_functions_that_come_later_get_their_profile(
    host: Host, card: PciFunction, profiles: VgpuProfiles
) -> None:
    rules = [ALL, ProfileRule(1428, address="0000:41:00.6")]
    assert profiles.step(rules).unplaced == ("0000:41:00.6",)
    card.vf(driver="nvidia", vgpu_types=TYPES)
    assert profiles.step(rules).unplaced == ()
    assert current(host, card) == [1414, 1414, 1428]


def test_everything_is_said_once(
    host: Host, card: PciFunction, profiles: VgpuProfiles, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rules = [ALL, ProfileRule("none", address=card.vfs[0].address), ProfileRule(1, id="10de:1eb8")]
    for expected in (
        ["vGPU profile set", "no function here takes this vGPU profile", "problem"],
        [],
    ):
        profiles.step(rules)
        assert [one.getMessage() for one in caplog.records if one.name == "dray.drivers.pci"] == expected
        caplog.clear()


def test_someone_who_always_writes_another_profile_is_no_race(tmp_path: Path, clock: Time) -> None:
    host = Host(tmp_path / "root")
    card = host.pci("0000:41:00.0", vendor="10de", device="2335", driver="nvidia", sriov_total=4)
    card.vf(driver="nvidia", vgpu_types=TYPES)
    tried: list[HostChange] = []

    def pretend(change: HostChange) -> Applied:
        tried.append(change)
        return Applied(change, changed=True)

    profiles = VgpuProfiles(HostRoot(host.root), pretend, clock=clock)
    step = profiles.step([ALL])
    assert len(tried) == 6 and step.again_in == 2.0 and "do not come to rest" in step.problems[-1].message
    assert profiles.step([ALL]).again_in == 4.0


def test_a_bug_is_not_hidden(host: Host, card: PciFunction) -> None:
    def break_down(change: HostChange) -> Applied:
        raise InvariantError("a bug")

    with pytest.raises(InvariantError):
        VgpuProfiles(HostRoot(host.root), break_down).step([ALL])


def test_random_rules_users_and_failures_end_in_the_right_profiles(
    host: Host, card: PciFunction, hands: Hands, clock: Time
) -> None:
    card.vf(driver="nvidia", vgpu_types=TYPES)
    dice = seeded(4)
    for _ in range(campaign(20, 400)):
        profiles = VgpuProfiles(HostRoot(host.root), hands.apply, clock=clock)
        chosen = {vf.address: dice.choice((1414, 1428)) for vf in card.vfs if dice.random() < 0.7}
        rules = [ProfileRule(number, address=address) for address, number in sorted(chosen.items())]
        before = dict(zip([vf.address for vf in card.vfs], current(host, card), strict=True))
        held = {address for address in before if dice.random() < 0.3}
        if dice.random() < 0.3:
            hands.refused[dice.choice(card.vfs).address] = 1
        step = profiles.step(rules, held)
        now = dict(zip(before, current(host, card), strict=True))
        assert all(now[one] == before[one] for one in before if one not in chosen or one in held)
        for _ in range(8):
            step = profiles.step(rules)
            if step.again_in is None:
                break
            clock.seconds += step.again_in
        now = dict(zip(before, current(host, card), strict=True))
        assert now == {**before, **chosen} and not step.problems
