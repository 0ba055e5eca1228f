from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dray.cdi.edits import ContainerEdits
from dray.deviceplugin.directory import following
from dray.deviceplugin.lifetime import PluginLifetime, Timing
from dray.deviceplugin.plugin import CarryOut, Offer, ResourcePlugin
from dray.drivers.contract import Health, Prepared
from dray.errors import Error
from dray.inventory.inventory import InventoryFeed
from dray.runtime.clock import Clock, FakeClock, SystemClock, settle
from dray.runtime.tasks import running
from dray.wire.deviceplugin import KUBELET_SOCKET
from dray.wire.registration_state import REGISTERED, WAITING, RegistrationPhase
from dray.wire.serve import serve
from tests.deviceplugin.conftest import TapeDriver, nothing, tape
from tests.small_kubelet import SmallKubelet
from tests.waiting import wait_until

RESOURCE = "example.com/tape"
SOCKET = "dray-tape.sock"
TIMING = Timing(after_failures=(0.05, 0.1), after_clean_end=0.05)


@asynccontextmanager
async def plugin_running(
    directory: Path,
    feed: InventoryFeed,
    timing: Timing = TIMING,
    carry_out: CarryOut = nothing,
    clock: Clock | None = None,
) -> AsyncIterator[PluginLifetime]:
    async with following(directory) as watched:
        offer = Offer(RESOURCE, TapeDriver(), SOCKET)
        lifetime = PluginLifetime(
            lambda: ResourcePlugin(offer, feed, carry_out), watched, clock or SystemClock(), timing
        )
        async with running(lifetime.run(), name="lifetime"):
            yield lifetime


@pytest.fixture
def feed() -> InventoryFeed:
    feed = InventoryFeed()
    feed.publish([tape(1), tape(2)])
    return feed


async def test_registers_lists_follows_changes_and_says_goodbye(
    kubelet: SmallKubelet, feed: InventoryFeed
) -> None:
    async with kubelet.running():
        async with plugin_running(kubelet.directory, feed) as lifetime:
            await wait_until(
                lambda: kubelet.lists.get(RESOURCE) == [("tape1", "Healthy"), ("tape2", "Healthy")]
            )
            await wait_until(lambda: lifetime.is_registered)
            assert kubelet.options[RESOURCE].get_preferred_allocation_available
            assert not kubelet.options[RESOURCE].pre_start_required
            feed.publish([tape(1), tape(2, Health.UNHEALTHY), tape(3)])
            await wait_until(
                lambda: (
                    kubelet.lists[RESOURCE]
                    == [("tape1", "Healthy"), ("tape2", "Unhealthy"), ("tape3", "Healthy")]
                )
            )
            assert kubelet.registered == [RESOURCE]
            (request,) = kubelet.requests
            assert (request.version, request.endpoint, request.resource_name) == ("v1beta1", SOCKET, RESOURCE)
            assert request.options == kubelet.options[RESOURCE]
        await wait_until(lambda: kubelet.lists[RESOURCE] == [])
        assert not (kubelet.directory / SOCKET).exists()
        assert not lifetime.is_registered


async def test_a_kubelet_that_comes_later_is_found(kubelet: SmallKubelet, feed: InventoryFeed) -> None:
    async with plugin_running(kubelet.directory, feed) as lifetime:
        await wait_until(lambda: lifetime.state == WAITING)
        assert (kubelet.directory / SOCKET).exists()
        assert not lifetime.is_registered
        async with kubelet.running():
            await wait_until(lambda: lifetime.is_registered and bool(kubelet.lists.get(RESOURCE)))


async def test_every_restart_of_the_kubelet_is_noticed(kubelet: SmallKubelet, feed: InventoryFeed) -> None:
    """With a pause of an hour between runs: it is the kubelet's new socket that ends it."""
    timing = Timing(after_failures=(3600.0,), after_clean_end=3600.0)
    async with plugin_running(kubelet.directory, feed, timing) as lifetime:
        for restart in range(1, 6):
            async with kubelet.running():
                await wait_until(lambda: len(kubelet.registered) == restart and lifetime.is_registered)  # noqa: B023
                feed.publish([tape(number) for number in range(restart)])
                await wait_until(lambda: len(kubelet.lists.get(RESOURCE, ())) == restart)  # noqa: B023
            kubelet.lists.clear()


async def test_a_removed_socket_is_served_again_without_a_new_kubelet(
    kubelet: SmallKubelet, feed: InventoryFeed
) -> None:
    async with kubelet.running(), plugin_running(kubelet.directory, feed) as lifetime:
        await wait_until(lambda: lifetime.is_registered)
        (kubelet.directory / SOCKET).unlink()
        await wait_until(lambda: len(kubelet.registered) == 2 and lifetime.is_registered)
        await wait_until(lambda: len(kubelet.lists[RESOURCE]) == 2)


async def test_the_whole_directory_may_go_and_come_back(kubelet: SmallKubelet, feed: InventoryFeed) -> None:
    async with plugin_running(kubelet.directory, feed) as lifetime:
        async with kubelet.running():
            await wait_until(lambda: lifetime.is_registered)
        shutil.rmtree(kubelet.directory)
        await wait_until(lambda: not lifetime.is_registered)
        kubelet.directory.mkdir()
        async with kubelet.running():
            await wait_until(lambda: len(kubelet.registered) == 2 and lifetime.is_registered)


async def test_a_refusing_kubelet_is_tried_again(kubelet: SmallKubelet, feed: InventoryFeed) -> None:
    kubelet.refuse = "not now"
    async with kubelet.running(), plugin_running(kubelet.directory, feed) as lifetime:
        await wait_until(lambda: len(kubelet.requests) >= 2)
        assert kubelet.registered == []
        kubelet.refuse = ""
        await wait_until(lambda: lifetime.is_registered)


async def test_told_to_stop_it_takes_the_devices_back_and_finishes_its_calls(
    kubelet: SmallKubelet, feed: InventoryFeed
) -> None:
    """A kubelet closes the connection when the list ends, so the list must not end before."""
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow(prepared: Prepared) -> ContainerEdits:
        begun.set()
        await may_end.wait()
        return prepared.edits

    async with kubelet.running(), asyncio.TaskGroup() as group:
        async with plugin_running(kubelet.directory, feed, carry_out=slow):
            await wait_until(lambda: RESOURCE in kubelet.healthy)
            call = group.create_task(kubelet.allocate(RESOURCE, "tape1"))
            await begun.wait()
            group.create_task(ends_later(may_end, lambda: kubelet.lists[RESOURCE] == []))
        assert dict((await call).envs) == {"TAPES": "tape1"}


async def ends_later(may_end: asyncio.Event, condition: Callable[[], bool]) -> None:
    """The list is empty while the call still runs."""
    await wait_until(condition)
    may_end.set()


async def test_a_call_that_does_not_end_does_not_keep_it_from_stopping(
    kubelet: SmallKubelet, feed: InventoryFeed
) -> None:
    begun = asyncio.Event()

    async def hang(prepared: Prepared) -> ContainerEdits:
        begun.set()
        await asyncio.Event().wait()
        return prepared.edits

    timing = replace(TIMING, work=0.1)
    async with kubelet.running(), asyncio.TaskGroup() as group:
        async with plugin_running(kubelet.directory, feed, timing, carry_out=hang):
            await wait_until(lambda: RESOURCE in kubelet.healthy)
            call = group.create_task(expect_error(kubelet.allocate(RESOURCE, "tape1")))
            await begun.wait()
        await call
    assert kubelet.lists[RESOURCE] == []


async def expect_error(call: Awaitable[object]) -> None:
    with pytest.raises(Error):
        await call


async def test_failures_are_spaced_out(kubelet: SmallKubelet, feed: InventoryFeed) -> None:
    """After the first failure and after those that follow it: as the table says."""
    kubelet.refuse = "never"
    clock, timing = FakeClock(), Timing(after_failures=(2.0, 5.0), after_clean_end=1.0)
    async with kubelet.running(), plugin_running(kubelet.directory, feed, timing, clock=clock):
        for tries, pause in enumerate((2.0, 5.0, 5.0), 1):
            await wait_until(lambda: clock.sleepers)
            assert len(kubelet.requests) == tries
            await clock.advance(pause - 0.1)
            assert clock.sleepers == 1
            await clock.advance(0.1)
        await wait_until(lambda: len(kubelet.requests) == 4)


async def test_a_name_that_somebody_else_serves_is_not_taken(
    kubelet: SmallKubelet, feed: InventoryFeed
) -> None:
    async with (
        kubelet.running(),
        serve(kubelet.directory / SOCKET, []),
        plugin_running(kubelet.directory, feed) as lifetime,
    ):
        await wait_until(lambda: lifetime.state.retry_s == TIMING.after_failures[1])  # it has tried twice
        assert kubelet.registered == []
        assert not lifetime.is_registered


async def test_a_kubelet_that_drops_us_gets_us_again(kubelet: SmallKubelet, feed: InventoryFeed) -> None:
    """It does not ask for the list again by itself: without a new registration the node would stay at zero."""
    async with kubelet.running(), plugin_running(kubelet.directory, feed) as lifetime:
        for times in range(1, 6):
            await wait_until(lambda: len(kubelet.registered) == times and bool(kubelet.healthy.get(RESOURCE)))  # noqa: B023
            await wait_until(lambda: lifetime.is_registered)
            kubelet.drop(RESOURCE)
        await wait_until(lambda: len(kubelet.registered) == 6 and lifetime.is_registered)
        await wait_until(lambda: kubelet.healthy[RESOURCE] == ["tape1", "tape2"])


async def test_a_new_kubelet_that_leaves_our_socket_alone_is_registered_with_once(
    kubelet: SmallKubelet, feed: InventoryFeed
) -> None:
    kubelet.wipes, clock = False, FakeClock()
    async with plugin_running(kubelet.directory, feed, clock=clock) as lifetime:
        for times in range(1, 4):
            async with kubelet.running():
                await wait_until(lambda: lifetime.is_registered and bool(kubelet.healthy.get(RESOURCE)))
                mark = f"mark{times}"
                (kubelet.directory / mark).touch()
                # What the watch shows is all that there is to know about this kubelet.
                await wait_until(lambda: lifetime._directory.get(mark) is not None)  # noqa: B023
                await settle()
                assert len(kubelet.registered) == times
                assert lifetime.is_registered
                assert clock.sleepers == 0, "no other run is about to begin"
            await wait_until(lambda: not lifetime.is_registered)


async def test_the_state_says_what_is_waited_for(kubelet: SmallKubelet, feed: InventoryFeed) -> None:
    async with plugin_running(kubelet.directory, feed) as lifetime:
        await wait_until(lambda: lifetime.state == WAITING)
        async with kubelet.running():
            await wait_until(lambda: lifetime.state == REGISTERED)
        await wait_until(lambda: lifetime.state == WAITING)
        (kubelet.directory / KUBELET_SOCKET).touch()  # a name, but nobody who listens
        await wait_until(lambda: lifetime.state.phase is RegistrationPhase.FAILED)
        assert KUBELET_SOCKET in lifetime.state.reason
        assert lifetime.state.retry_s in TIMING.after_failures


class Lists(dict[str, list[tuple[str, str]]]):
    """Keeps every list that came."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[list[tuple[str, str]]] = []

    def __setitem__(self, resource: str, devices: list[tuple[str, str]]) -> None:
        super().__setitem__(resource, devices)
        self.told.append(devices)


async def test_changes_that_show_nothing_new_send_nothing(kubelet: SmallKubelet, feed: InventoryFeed) -> None:
    async with kubelet.running(), plugin_running(kubelet.directory, feed):
        await wait_until(lambda: bool(kubelet.lists.get(RESOURCE)))
        kubelet.lists = lists = Lists()
        other = tape(9)
        feed.publish([tape(1), tape(2), type(other)(other.id, other.kind, "example.com/other", other.health)])
        await settle()
        feed.publish([tape(1)])
        await wait_until(lambda: lists)
        assert lists.told == [[("tape1", "Healthy")]]
