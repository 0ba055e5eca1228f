from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from dray.cdi.edits import ContainerEdits
from dray.deviceplugin.controller import PluginController
from dray.deviceplugin.directory import following
from dray.deviceplugin.lifetime import Timing
from dray.deviceplugin.metrics import PluginMetrics
from dray.deviceplugin.plugin import CarryOut, Offer
from dray.drivers.contract import Device, Prepared
from dray.errors import InvariantError
from dray.inventory.inventory import InventoryFeed
from dray.runtime.clock import SystemClock
from dray.runtime.metrics import Metrics
from dray.runtime.tasks import running
from dray.wire.registration_state import RegistrationPhase
from tests.deviceplugin.conftest import TapeDriver, nothing, tape
from tests.small_kubelet import SmallKubelet
from tests.waiting import wait_until


@dataclass(frozen=True)
class Configured(TapeDriver):
    setting: int = 0

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        return Prepared(ContainerEdits((("SETTING", str(self.setting)),)))


class Rewinding(Configured):
    async def pre_start(self, resource: str, devices: Sequence[Device]) -> None:
        """Nothing to rewind."""


def offer(name: str, setting: int = 0) -> Offer:
    return Offer(f"example.com/{name}", Configured(setting), f"dray-{name}.sock")


def tape_offer(setting: int) -> Offer:
    return Offer("example.com/tape", Configured(setting), "dray-tape.sock")


@asynccontextmanager
async def controlled(
    kubelet: SmallKubelet, carry_out: CarryOut = nothing, metrics: PluginMetrics | None = None
) -> AsyncIterator[tuple[PluginController, InventoryFeed]]:
    feed = InventoryFeed()
    feed.publish([tape(1)])
    timing = Timing(after_failures=(0.05,), after_clean_end=0.05)
    async with kubelet.running(), following(kubelet.directory) as directory:
        controller = PluginController(
            directory,
            feed,
            carry_out,
            SystemClock(),
            timing,
            kubelet_dir=kubelet.directory.parent,
            metrics=metrics,
        )
        async with running(controller.run(), name="controller"):
            yield controller, feed


def sockets(kubelet: SmallKubelet) -> list[str]:
    return sorted(path.name for path in kubelet.directory.glob("dray-*"))


async def test_nothing_wanted_is_initialized(kubelet: SmallKubelet) -> None:
    async with controlled(kubelet) as (controller, _):
        assert controller.is_initialized


async def test_the_difference_is_started_and_stopped(kubelet: SmallKubelet) -> None:
    async with controlled(kubelet) as (controller, _):
        controller.want([offer("a"), offer("b")])
        assert not controller.is_initialized
        await wait_until(lambda: controller.is_initialized)
        assert sorted(kubelet.registered) == ["example.com/a", "example.com/b"]
        controller.want([offer("b"), offer("c")])
        await wait_until(
            lambda: controller.is_initialized and sockets(kubelet) == ["dray-b.sock", "dray-c.sock"]
        )
        assert kubelet.registered.count("example.com/b") == 1  # it was left alone
        controller.want([])
        await wait_until(lambda: sockets(kubelet) == [])
        assert controller.is_initialized


async def test_a_changed_plugin_gets_a_successor_on_the_same_socket(kubelet: SmallKubelet) -> None:
    """The kubelet knows whether there is a pre-start, so that change needs a registration."""
    async with controlled(kubelet) as (controller, _):
        for turn in range(10):
            driver = Rewinding() if turn % 2 else Configured()
            controller.want([replace(offer("a"), driver=driver), offer("b")])
            assert not controller.is_initialized
            await wait_until(lambda: controller.is_initialized)
            assert sockets(kubelet) == ["dray-a.sock", "dray-b.sock"]
            assert kubelet.options["example.com/a"].pre_start_required == bool(turn % 2)
        assert kubelet.registered.count("example.com/a") == 10
        assert kubelet.registered.count("example.com/b") == 1


async def test_a_new_driver_is_taken_over_without_a_restart(kubelet: SmallKubelet) -> None:
    async with controlled(kubelet) as (controller, _):
        for setting in range(20):
            controller.want([tape_offer(setting), offer("b", setting)])
            await wait_until(lambda: controller.is_initialized)
            answer = await kubelet.allocate("example.com/tape", "tape1")
            assert dict(answer.envs) == {"SETTING": str(setting)}
        assert sorted(kubelet.registered) == ["example.com/b", "example.com/tape"]
        # Whoever registers again later stands for the newest offer, too.
        (kubelet.directory / "dray-tape.sock").unlink()
        await wait_until(lambda: len(kubelet.registered) == 3 and controller.is_initialized)
        assert dict((await kubelet.allocate("example.com/tape", "tape1")).envs) == {"SETTING": "19"}


async def test_a_call_that_runs_keeps_its_driver(kubelet: SmallKubelet) -> None:
    """The config changes while the host is being changed: the container gets what was prepared."""
    waiting, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(prepared: Prepared) -> ContainerEdits:
        waiting.set()
        await go_on.wait()
        return prepared.edits

    async with controlled(kubelet, slowly) as (controller, _), asyncio.TaskGroup() as group:
        controller.want([tape_offer(1)])
        await wait_until(lambda: controller.is_initialized)
        call = group.create_task(kubelet.allocate("example.com/tape", "tape1"))
        await waiting.wait()
        controller.want([tape_offer(2)])
        go_on.set()
        assert dict((await call).envs) == {"SETTING": "1"}
        assert dict((await kubelet.allocate("example.com/tape", "tape1")).envs) == {"SETTING": "2"}


async def test_states_and_metrics(kubelet: SmallKubelet) -> None:
    metrics = Metrics()
    async with controlled(kubelet, metrics=PluginMetrics(metrics)) as (controller, feed):
        kubelet.refuse = "not now"
        controller.want([tape_offer(1)])
        assert str(controller.states()["example.com/tape"]) == "starting"
        await wait_until(lambda: controller.states()["example.com/tape"].phase is RegistrationPhase.FAILED)
        state = controller.states()["example.com/tape"]
        assert "not now" in state.reason
        assert state.retry_s == 0.05
        assert b'dray_deviceplugin_registered{resource="example.com/tape"} 0\n' in metrics.render()
        kubelet.refuse = ""
        await wait_until(lambda: controller.is_initialized and bool(kubelet.lists.get("example.com/tape")))
        assert str(controller.states()["example.com/tape"]) == "registered"
        await kubelet.allocate("example.com/tape", "tape1")
        feed.publish([tape(1), tape(2)])
        await wait_until(lambda: len(kubelet.lists["example.com/tape"]) == 2)
        text = metrics.render().decode()
        assert 'dray_deviceplugin_registered{resource="example.com/tape"} 1\n' in text
        assert 'dray_deviceplugin_registrations_total{resource="example.com/tape"} 1.0\n' in text
        assert 'dray_deviceplugin_list_updates_total{resource="example.com/tape"} 2.0\n' in text
        assert (
            'dray_deviceplugin_allocations_total{resource="example.com/tape",result="success"} 1.0\n' in text
        )
        controller.want([])
        assert controller.states() == {}


async def test_a_device_set_that_changes_needs_no_restart(kubelet: SmallKubelet) -> None:
    async with controlled(kubelet) as (controller, feed):
        controller.want([replace(offer("tape"), resource="example.com/tape")])
        await wait_until(lambda: kubelet.lists.get("example.com/tape") == [("tape1", "Healthy")])
        feed.publish([tape(1), tape(2)])
        await wait_until(lambda: len(kubelet.lists["example.com/tape"]) == 2)
        assert kubelet.registered == ["example.com/tape"]


async def test_only_the_newest_wish_counts(kubelet: SmallKubelet) -> None:
    async with controlled(kubelet) as (controller, _):
        for number in range(50):
            controller.want([offer(f"p{number % 3}", number)])
            await asyncio.sleep(0.002)
        controller.want([offer("last")])
        await wait_until(lambda: controller.is_initialized and sockets(kubelet) == ["dray-last.sock"])


async def test_leaving_removes_every_socket(kubelet: SmallKubelet) -> None:
    async with controlled(kubelet) as (controller, _):
        controller.want([offer(name) for name in "abcde"])
        await wait_until(lambda: controller.is_initialized)
    assert sockets(kubelet) == []


async def test_two_owners_are_a_bug(kubelet: SmallKubelet) -> None:
    async with controlled(kubelet) as (controller, _):
        with pytest.raises(InvariantError):
            controller.want([offer("a"), replace(offer("b"), socket="dray-a.sock")])
        with pytest.raises(InvariantError):
            controller.want([offer("a"), replace(offer("a"), socket="dray-b.sock")])
        assert controller.states() == {}  # the wish before it stays
