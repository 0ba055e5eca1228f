from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from dray.deviceplugin.controller import PluginController
from dray.deviceplugin.directory import following
from dray.deviceplugin.lifetime import Timing
from dray.deviceplugin.plugin import Offer
from dray.drivers.contract import Prepared
from dray.errors import InvariantError
from dray.inventory.inventory import InventoryFeed
from dray.runtime.clock import SystemClock
from dray.runtime.tasks import running
from tests.deviceplugin.conftest import TapeDriver, tape
from tests.small_kubelet import SmallKubelet
from tests.deviceplugin.test_lifetime import until


@dataclass(frozen=True)
class Configured(TapeDriver):
    setting: int = 0


def offer(name: str, setting: int = 0) -> Offer:
    return Offer(f"example.com/{name}", Configured(setting), f"dray-{name}.sock")


async def nothing(prepared: Prepared) -> None:
    """The host needs nothing."""


@asynccontextmanager
async def controlled(kubelet: SmallKubelet) -> AsyncIterator[tuple[PluginController, InventoryFeed]]:
    feed = InventoryFeed()
    feed.publish([tape(1)])
    timing = Timing(after_failures=(0.05,), after_clean_end=0.05)
    async with kubelet.running(), following(kubelet.directory) as directory:
        controller = PluginController(directory, feed, nothing, SystemClock(), timing)
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
        await until(lambda: controller.is_initialized)
        assert sorted(kubelet.registered) == ["example.com/a", "example.com/b"]
        controller.want([offer("b"), offer("c")])
        await until(lambda: controller.is_initialized and sockets(kubelet) == ["dray-b.sock", "dray-c.sock"])
        assert kubelet.registered.count("example.com/b") == 1  # it was left alone
        controller.want([])
        await until(lambda: sockets(kubelet) == [])
        assert controller.is_initialized


async def test_a_changed_plugin_gets_a_successor_on_the_same_socket(kubelet: SmallKubelet) -> None:
    async with controlled(kubelet) as (controller, _):
        for setting in range(10):
            controller.want([offer("a", setting), offer("b")])
            await until(lambda: controller.is_initialized)
            assert sockets(kubelet) == ["dray-a.sock", "dray-b.sock"]
        assert kubelet.registered.count("example.com/a") == 10
        assert kubelet.registered.count("example.com/b") == 1


async def test_a_device_set_that_changes_needs_no_restart(kubelet: SmallKubelet) -> None:
    async with controlled(kubelet) as (controller, feed):
        controller.want([replace(offer("tape"), resource="example.com/tape")])
        await until(lambda: kubelet.lists.get("example.com/tape") == [("tape1", "Healthy")])
        feed.publish([tape(1), tape(2)])
        await until(lambda: len(kubelet.lists["example.com/tape"]) == 2)
        assert kubelet.registered == ["example.com/tape"]


async def test_only_the_newest_wish_counts(kubelet: SmallKubelet) -> None:
    async with controlled(kubelet) as (controller, _):
        for number in range(50):
            controller.want([offer(f"p{number % 3}", number)])
            await asyncio.sleep(0.002)
        controller.want([offer("last")])
        await until(lambda: controller.is_initialized and sockets(kubelet) == ["dray-last.sock"])


async def test_leaving_removes_every_socket(kubelet: SmallKubelet) -> None:
    async with controlled(kubelet) as (controller, _):
        controller.want([offer(name) for name in "abcde"])
        await until(lambda: controller.is_initialized)
    assert sockets(kubelet) == []


async def test_two_owners_are_a_bug(kubelet: SmallKubelet) -> None:
    async with controlled(kubelet) as (controller, _):
        with pytest.raises(InvariantError):
            controller.want([offer("a"), replace(offer("b"), socket="dray-a.sock")])
