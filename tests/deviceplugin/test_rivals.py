from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest

from dray.deviceplugin.controller import PluginController
from dray.deviceplugin.directory import following
from dray.deviceplugin.lifetime import Timing
from dray.deviceplugin.plugin import Offer
from dray.deviceplugin.rivals import (
    KubeletView,
    LookOut,
    Rivals,
    Standing,
    is_taken,
    reason,
    standing,
)
from dray.inventory.inventory import InventoryFeed
from dray.runtime.clock import Clock, FakeClock, SystemClock, settle
from dray.runtime.tasks import running
from dray.wire.neighbour import Neighbour
from dray.wire.registration_state import RegistrationPhase, RegistrationState
from dray.wire.serve import serve
from tests.deviceplugin import rival_plugin
from tests.deviceplugin.conftest import TapeDriver, nothing, tape
from tests.small_kubelet import SmallKubelet
from tests.waiting import PATIENCE, wait_until

RESOURCE = "example.com/tape"
SOCKET = "dray-tape.sock"
TIMING = Timing(
    after_failures=(0.05, 0.06), after_clean_end=0.05, patience=0.1, settle=0.05, looks=(0.05, 0.1)
)
OTHER = Neighbour("vendor-tape.sock", 42, "tapetool")
ONE, TWO = frozenset({"tape1"}), frozenset({"tape1", "tape2"})
NONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("healthy", "ours", "neighbours", "taken"),
    [
        (NONE, TWO, [OTHER], False),
        (ONE, TWO, [], False),  # our own past
        (ONE, TWO, [OTHER], True),
        (frozenset({"x"}), TWO, [], True),  # registered from outside the directory
        (TWO, ONE, [], True),
    ],
)
def test_who_else_could_it_be(
    healthy: frozenset[str], ours: frozenset[str], neighbours: Sequence[Neighbour], taken: bool
) -> None:
    assert is_taken(healthy, ours, neighbours) is taken


@pytest.mark.parametrize(
    ("healthy", "told", "neighbours", "expected"),
    [
        (ONE, ONE, [OTHER], Standing.OURS),
        (NONE, NONE, [OTHER], Standing.OURS),
        (NONE, ONE, [], Standing.LOST),
        (TWO, ONE, [], Standing.OURS),  # it is behind: a device of ours has just become unhealthy
        (TWO, ONE, [OTHER], Standing.TAKEN),
        (frozenset({"x"}), ONE, [], Standing.TAKEN),
    ],
)
def test_whose_list_it_is(
    healthy: frozenset[str], told: frozenset[str], neighbours: Sequence[Neighbour], expected: Standing
) -> None:
    assert standing(healthy, told, TWO, neighbours) is expected


def test_the_reason_names_who_it_may_be() -> None:
    cam = Neighbour("cam.sock")
    assert reason(RESOURCE, TWO, [cam, OTHER]) == (
        "example.com/tape is served by another plugin, most likely tapetool (pid 42) on vendor-tape.sock: the kubelet "
        "has 2 healthy devices of it; stop that plugin or take the resource out of the config"
    )
    assert "one of a process not visible from here on cam.sock:" in reason(RESOURCE, TWO, [cam])
    assert "none that listens in the plugin directory" in reason(RESOURCE, TWO, [])
    assert "the kubelet has 1 healthy device of it" in reason(RESOURCE, ONE, [])
    assert "and 2 more" in reason(RESOURCE, TWO, [cam] * 7)


async def test_a_kubelet_that_does_not_tell_is_asked_briefly(kubelet: SmallKubelet) -> None:
    view = KubeletView(kubelet.directory.parent, timeout=PATIENCE)
    assert await view.healthy() is None
    async with kubelet.running():
        kubelet.healthy = {RESOURCE: ["a", "b"]}
        assert await view.healthy() == {RESOURCE: frozenset({"a", "b"})}
        kubelet.slow = 3600.0
        async with asyncio.timeout(PATIENCE):
            assert await KubeletView(kubelet.directory.parent, timeout=0.2).healthy() is None


async def test_many_who_ask_at_once_are_one_call(kubelet: SmallKubelet) -> None:
    async with kubelet.running(), asyncio.TaskGroup() as group:
        view = KubeletView(kubelet.directory.parent, timeout=60.0)
        kubelet.slow, kubelet.healthy = 60.0, {RESOURCE: ["a"]}
        calls = [group.create_task(view.healthy()) for _ in range(100)]
        await wait_until(lambda: kubelet.asked == 1)
        kubelet.slow = 0.0
        calls[0].cancel()  # the one that asks for all; another takes over
        assert [await call for call in calls[1:]] == [{RESOURCE: frozenset({"a"})}] * 99
        assert kubelet.asked == 2


@asynccontextmanager
async def serving(
    kubelet: SmallKubelet, feed: InventoryFeed, timing: Timing = TIMING, clock: Clock | None = None
) -> AsyncIterator[PluginController]:
    async with following(kubelet.directory) as directory:
        controller = PluginController(
            directory, feed, nothing, clock or SystemClock(), timing, kubelet_dir=kubelet.directory.parent
        )
        controller.want([Offer(RESOURCE, TapeDriver(), SOCKET)])
        async with running(controller.run(), name="controller"):
            yield controller


@asynccontextmanager
async def rival(kubelet: SmallKubelet, *ids: str, socket: str = "vendor-tape.sock") -> AsyncIterator[int]:
    """The other plugin, registered; killed on the way out."""
    argv = [sys.executable, "-m", rival_plugin.__name__, str(kubelet.directory), socket, RESOURCE, *ids]
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            assert await process.stdout.readline() == b"registered\n"
        yield process.pid
    finally:
        process.kill()
        await process.communicate()


def state(controller: PluginController) -> RegistrationState:
    return controller.states()[RESOURCE]


@pytest.fixture
def feed() -> InventoryFeed:
    feed = InventoryFeed()
    feed.publish([tape(1), tape(2)])
    return feed


async def test_a_resource_of_another_is_refused_until_the_kubelet_gave_it_up(
    kubelet: SmallKubelet, feed: InventoryFeed, caplog: pytest.LogCaptureFixture
) -> None:
    async with kubelet.running(), rival(kubelet, "tape1", "tape2") as pid:  # even with our own ids
        await wait_until(lambda: len(kubelet.healthy.get(RESOURCE, ())) == 2)
        async with serving(kubelet, feed) as controller:
            await wait_until(lambda: state(controller).retry_s == TIMING.after_failures[1])  # the second try
            found = state(controller)
            assert found.phase is RegistrationPhase.REFUSED
            assert f"(pid {pid}) on vendor-tape.sock: the kubelet has 2 healthy devices" in found.reason
            assert kubelet.registered == [RESOURCE]
            refusals = [one for one in caplog.records if one.levelno == logging.ERROR]
            assert [one.getMessage() for one in refusals] == ["refused"]  # once, however often it is tried
            kubelet.drop(RESOURCE)  # the process is still there, but the kubelet asks it no more
            await wait_until(lambda: controller.is_initialized)
            assert kubelet.registered == [RESOURCE, RESOURCE]


async def test_a_socket_of_another_is_refused_with_its_process(
    kubelet: SmallKubelet, feed: InventoryFeed
) -> None:
    async with (
        kubelet.running(),
        rival(kubelet, "other1", socket=SOCKET) as pid,
        serving(kubelet, feed) as controller,
    ):
        await wait_until(lambda: state(controller).phase is RegistrationPhase.REFUSED)
        told = state(controller).reason
        assert told.startswith(f"the socket {kubelet.directory / SOCKET} of {RESOURCE} is in use by ")
        assert f"{rival_plugin.__name__} " in told
        assert f" (pid {pid}): stop that plugin" in told
        assert kubelet.registered == [RESOURCE]


async def test_a_socket_that_becomes_free_is_taken_at_once(
    kubelet: SmallKubelet, feed: InventoryFeed
) -> None:
    patient = replace(TIMING, after_failures=(3600.0,))
    async with kubelet.running(), AsyncExitStack() as other:
        await other.enter_async_context(serve(kubelet.directory / SOCKET, []))
        async with serving(kubelet, feed, patient) as controller:
            await wait_until(lambda: state(controller).phase is RegistrationPhase.REFUSED)
            assert controller.is_in_line
            assert not controller.is_initialized
            await other.aclose()
            await wait_until(lambda: controller.is_initialized)


async def test_our_own_past_is_waited_for_and_never_refused(
    kubelet: SmallKubelet, feed: InventoryFeed
) -> None:
    """The kubelet has our ids as healthy, for a moment or for good, and nobody is there who could serve them."""
    async with kubelet.running():
        kubelet.healthy[RESOURCE] = ["tape1", "tape2"]
        async with serving(kubelet, feed) as controller:
            await wait_until(lambda: controller.is_initialized)
        kubelet.healthy[RESOURCE] = ["tape1", "tape2", "old"]
        async with serving(kubelet, feed, replace(TIMING, patience=30.0)) as controller:
            asked = kubelet.asked
            await wait_until(lambda: kubelet.asked > asked + 1)
            assert state(controller).phase is RegistrationPhase.STARTING
            kubelet.healthy[RESOURCE] = []
            await wait_until(lambda: controller.is_initialized)


async def test_a_kubelet_that_thinks_for_ever_does_not_block(
    kubelet: SmallKubelet, feed: InventoryFeed
) -> None:
    kubelet.slow = 3600.0
    async with kubelet.running(), serving(kubelet, feed) as controller:
        await wait_until(lambda: controller.is_initialized)


async def test_displaced_it_keeps_still_and_comes_back(
    kubelet: SmallKubelet, feed: InventoryFeed, caplog: pytest.LogCaptureFixture
) -> None:
    async with kubelet.running(), serving(kubelet, feed) as controller:
        await wait_until(lambda: controller.is_initialized and len(kubelet.healthy.get(RESOURCE, ())) == 2)
        async with rival(kubelet, "other1") as pid:
            await wait_until(lambda: state(controller).phase is RegistrationPhase.REFUSED)
            assert f"(pid {pid}) on vendor-tape.sock" in state(controller).reason
            assert not controller.is_initialized
            feed.publish([tape(1)])
            asked = kubelet.asked
            await wait_until(lambda: kubelet.asked > asked + 2)  # it has looked again, and again
            assert kubelet.healthy[RESOURCE] == ["other1"]  # we said nothing
            assert dict((await kubelet.allocate(RESOURCE, "other1")).envs) == {"RIVAL": "1"}
        await wait_until(lambda: kubelet.healthy[RESOURCE] == ["tape1"])
        await wait_until(lambda: controller.is_initialized)
        assert kubelet.registered == [RESOURCE] * 3
    errors = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert {one.getMessage() for one in errors} == {"displaced by another plugin"}
    reasons = [vars(one)["fields"]["error"] for one in errors]
    assert len(reasons) == len(set(reasons)), "a reason that stays is told once, however often it is looked"
    # The other plugin goes before the kubelet has noticed: nobody is seen to listen then.
    assert not [one for one in reasons[1:] if "none that listens in the plugin directory" not in one]


async def test_dropped_and_then_another_s_is_displaced_too(
    kubelet: SmallKubelet, feed: InventoryFeed, caplog: pytest.LogCaptureFixture
) -> None:
    async with kubelet.running(), serving(kubelet, feed) as controller:
        await wait_until(lambda: controller.is_initialized and bool(kubelet.healthy.get(RESOURCE)))
        kubelet.drop(RESOURCE)
        kubelet.healthy[RESOURCE] = ["other1"]
        await wait_until(lambda: state(controller).phase is RegistrationPhase.REFUSED)
        assert "none that listens in the plugin directory" in state(controller).reason
        assert kubelet.registered == [RESOURCE]
    assert "displaced by another plugin" in [one.getMessage() for one in caplog.records]


async def test_displaced_it_leaves_without_an_empty_list(kubelet: SmallKubelet, feed: InventoryFeed) -> None:
    """An empty list would count as the other's."""
    async with kubelet.running(), serving(kubelet, feed) as controller:
        await wait_until(lambda: controller.is_initialized)
        async with rival(kubelet, "other1"):
            await wait_until(lambda: state(controller).phase is RegistrationPhase.REFUSED)
            controller.want([])
            await wait_until(lambda: not (kubelet.directory / SOCKET).exists())
            await settle(200)  # an empty list would have been sent before, and was read by now
            assert kubelet.lists[RESOURCE] == [("other1", "Healthy")]


async def test_looks_come_soon_after_a_stranger_and_then_less_often(kubelet: SmallKubelet) -> None:
    clock, looks = FakeClock(), list[float]()

    async def look_out(rivals: Rivals) -> None:
        looking = LookOut(rivals, clock, (2.0, 4.0, 60.0))
        while True:
            await looking.wait()
            looks.append(clock.monotonic())

    async with following(kubelet.directory) as directory:
        view = KubeletView(kubelet.directory.parent)
        rivals = Rivals(view, directory, lambda: frozenset({"own.sock"}), clock)
        async with running(look_out(rivals), name="look out"):
            await clock.advance(130.0)
            assert looks == [2.0, 6.0, 66.0, 126.0]
            async with serve(kubelet.directory / "own.sock", []):
                await wait_until(lambda: directory.get("own.sock") is not None)
                await clock.advance(10.0)
                assert len(looks) == 4
            async with serve(kubelet.directory / "other.sock", []):
                await wait_until(lambda: len(rivals.strangers()) == 1)
                await clock.advance(10.0)
                assert looks[4:] == [142.0, 146.0]


async def test_strangers_that_do_no_harm_are_left_alone(kubelet: SmallKubelet, feed: InventoryFeed) -> None:
    clock, timing = FakeClock(), replace(TIMING, looks=(1.0, 3600.0))

    async def looked() -> None:
        asked = kubelet.asked
        await wait_until(lambda: clock.sleepers)
        while kubelet.asked == asked and clock.monotonic() < 1000:
            await clock.advance(1.0)
            await asyncio.sleep(0.01)
        assert kubelet.asked == asked + 1

    async with kubelet.running(), serving(kubelet, feed, timing, clock) as controller:
        await wait_until(lambda: controller.is_initialized)
        await looked()
        for number in range(5):
            async with serve(kubelet.directory / f"other{number}.sock", []):
                await looked()
            await looked()
        feed.publish([tape(1), tape(3)])
        await wait_until(lambda: kubelet.healthy[RESOURCE] == ["tape1", "tape3"])
        assert controller.is_initialized
        assert kubelet.registered == [RESOURCE]
        asked = kubelet.asked
        await wait_until(lambda: clock.sleepers)
        await clock.advance(2000.0)
        assert clock.sleepers == 1
        assert kubelet.asked == asked  # nothing happens, nobody asks
        await clock.advance(2000.0)
        await wait_until(lambda: kubelet.asked > asked)
