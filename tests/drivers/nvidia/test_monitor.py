from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dray.drivers.contract import Health
from dray.drivers.nvidia import nvidia_driver
from dray.drivers.nvidia.config import NvidiaConfig
from dray.drivers.nvidia.monitor import Monitor, Seen
from dray.errors import UnavailableError
from dray.hardware.host_root import HostRoot, Place
from dray.hardware.nvml.codes import Code, NvmlError
from dray.hardware.nvml.facts import XidEvent
from dray.hardware.nvml.recorded import Recorded
from dray.hardware.nvml.recorded_session import RecordedSession
from dray.runtime.clock import FakeClock
from dray.testing.nvml.machine import recording
from tests.drivers.nvidia.cards import watched
from tests.waiting import PATIENCE

ROOT = HostRoot(Path("/nowhere"))
CONFIG = NvidiaConfig()


class Opening:
    """Counts sessions, and can let NVML fail as a whole."""

    def __init__(self, cards: Recorded) -> None:
        self.cards = cards
        self.opened = self.closed = 0
        self.fails = False

    @contextmanager
    def __call__(self, root: Place) -> Iterator[RecordedSession]:
        if self.fails:
            raise UnavailableError("cannot open NVML: the kernel module nvidia is not loaded")
        self.opened += 1
        with self.cards.open(root) as session:
            yield session
        self.closed += 1


def look(monitor: Monitor, config: NvidiaConfig = CONFIG) -> Seen:
    seen = monitor.look(ROOT, config)
    assert seen is not None
    return seen


@pytest.fixture
def opening() -> Opening:
    return Opening(recording("eight-h100"))


def test_one_session_serves_many_looks(opening: Opening) -> None:
    monitor = Monitor(FakeClock(), opening)
    for _ in range(5):
        assert len(look(monitor).gpus.items) == 8
    assert (opening.opened, opening.closed) == (1, 0)
    assert len(opening.cards.queues) == 1
    monitor.close()
    assert (opening.closed, opening.cards.queues) == (1, [])


def test_the_library_is_opened_anew_where_cards_come_and_go(opening: Opening) -> None:
    """It sees a card that comes back only then."""
    monitor = Monitor(FakeClock(), opening)
    look(monitor)
    card = opening.cards.take_away(opening.cards.cards[0].uuid)
    look(monitor)
    assert opening.closed == 1
    opening.cards.give_back(card)
    look(monitor)
    look(monitor)
    look(monitor)
    assert (opening.opened, opening.closed) == (3, 2)


def test_no_session_stays_where_cards_go_to_vms(opening: Opening) -> None:
    monitor = Monitor(FakeClock(), opening)
    for count in (1, 2):
        look(monitor, NvidiaConfig(pass_through=True))
        assert (opening.opened, opening.closed) == (count, count)


def test_errors_between_two_looks_are_not_missed(opening: Opening) -> None:
    monitor = Monitor(FakeClock(), opening)
    look(monitor)
    for card in opening.cards.cards:
        opening.cards.report(XidEvent(card.uuid, 79))
    assert len(look(monitor).health.illnesses) == 8


def test_a_new_config_keeps_what_is_known(opening: Opening) -> None:
    clock = FakeClock()
    driver = nvidia_driver(NvidiaConfig(), clock, open_session=opening)
    look(driver.monitor, driver.config)
    opening.cards.report(XidEvent(opening.cards.cards[0].uuid, 79))
    changed = nvidia_driver(NvidiaConfig(mig_strategy="mixed"), clock, monitor=driver.monitor)
    assert changed != driver
    assert len(look(changed.monitor, changed.config).health.illnesses) == 1


def test_a_broken_queue_is_made_anew(opening: Opening) -> None:
    monitor = Monitor(FakeClock(), opening)
    look(monitor)
    (queue,) = opening.cards.queues

    def fail(seconds: float) -> XidEvent | None:
        raise NvmlError("wait for errors of GPUs", Code.UNKNOWN)

    queue.next = fail
    seen = look(monitor)
    assert "tried anew" in seen.problems[0].message
    assert look(monitor).problems == ()
    opening.cards.report(XidEvent(opening.cards.cards[0].uuid, 79))
    assert len(look(monitor).health.illnesses) == 1


def test_a_flood_of_errors_ends(opening: Opening) -> None:
    monitor = Monitor(FakeClock(), opening)
    look(monitor)
    for _ in range(2500):
        opening.cards.report(XidEvent(opening.cards.cards[0].uuid, 79))
    assert len(look(monitor).health.illnesses) == 1


def test_a_driver_that_goes_away_leaves_unhealthy_devices(tmp_path: Path) -> None:
    host = watched(tmp_path, "h200")
    opening = Opening(host.machine.cards)
    driver = nvidia_driver(NvidiaConfig(dynamic_mig=True), host.clock, open_session=opening)
    first = driver.discover(host.root)
    before = first.devices
    opening.fails = True
    driver.monitor.close()
    found = driver.discover(host.root, before)
    assert {device.health for device in found.devices} == {Health.UNHEALTHY}
    assert [device.id for device in found.devices] == [device.id for device in before]
    assert "kernel module nvidia is not loaded" in found.devices[0].reason
    assert (found.again_in, found.counters) == (30.0, first.counters)
    opening.fails = False
    assert driver.discover(host.root, found.devices).devices == before


def test_an_exchanged_driver_is_opened_anew(tmp_path: Path, opening: Opening) -> None:
    monitor = Monitor(FakeClock(), opening)
    look(monitor)
    system = opening.cards.system
    opening.cards.system = _Mismatch()
    with pytest.raises(UnavailableError, match="different versions"):
        look(monitor)
    opening.cards.system = system
    assert len(look(monitor).gpus.items) == 8
    assert opening.opened == 2


class _Mismatch(dict[str, object]):
    def __getitem__(self, key: str) -> object:
        raise NvmlError("ask for the driver's version", Code.LIB_RM_VERSION_MISMATCH)


async def test_a_hung_library_holds_nobody_up(tmp_path: Path) -> None:
    host = watched(tmp_path, "h200", dynamic_mig=True)
    hung, answers = threading.Event(), threading.Event()

    @contextmanager
    def hanging(root: Place) -> Iterator[RecordedSession]:
        hung.set()
        answers.wait(PATIENCE)
        with host.machine.cards.open(root) as session:
            yield session

    monitor = Monitor(host.clock, hanging, patience=0.01)
    driver = nvidia_driver(host.driver.config, host.clock, monitor=monitor)
    before = host.devices
    found = driver.discover(host.root, before)
    assert hung.wait(PATIENCE)
    assert found.devices == before
    assert "does not answer" in found.problems[0].message
    assert found.counters == host.look().counters
    await host.clock.advance(61)
    found = driver.discover(host.root, before)
    assert {device.health for device in found.devices} == {Health.UNHEALTHY}
    answers.set()
    for _ in range(200):
        found = driver.discover(host.root, found.devices)
        if not found.problems:
            break
    assert found.devices == before
    assert monitor.waiting == 0.0
