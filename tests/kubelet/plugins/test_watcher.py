from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from dray.errors import Error, HardwareError, InvalidError
from dray.kubelet.plugins.handler import DevicePluginHandler, PluginHandler
from dray.kubelet.plugins.reconcile import Unregister
from dray.kubelet.plugins.watcher import PluginWatcher
from dray.runtime.clock import Clock, FakeClock, SystemClock, settle
from dray.wire.deviceplugin import DevicePluginService
from dray.wire.gen.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from dray.wire.registration import CSI_PLUGIN, DEVICE_PLUGIN, DRA_PLUGIN, RegistrationService
from dray.wire.serve import serve
from tests.kubelet.plugins.real_plugin import RESOURCE, Plugin, Recorder, connections
from tests.waiting import PATIENCE, wait_until


@dataclass
class Driver:
    """A plugin's registration socket. `fault` makes GetInfo fail, `deaf` makes it hang, `notify_fault` Notify fail."""

    info: PluginInfo = field(
        default_factory=lambda: PluginInfo(
            type=DRA_PLUGIN, name="d.com", endpoint="/run/d.sock", supported_versions=["v1.DRAPlugin"]
        )
    )
    statuses: list[tuple[bool, str]] = field(default_factory=list)
    asked: int = 0
    fault: Error | None = None
    notify_fault: Error | None = None
    deaf: bool = False

    async def get_info(self, request: InfoRequest) -> PluginInfo:
        self.asked += 1
        if self.deaf:
            await asyncio.Event().wait()
        if self.fault:
            raise self.fault
        return self.info

    async def notify_registration_status(self, request: RegistrationStatus) -> RegistrationStatusResponse:
        self.statuses.append((request.plugin_registered, request.error))
        if self.notify_fault:
            raise self.notify_fault
        return RegistrationStatusResponse()

    @asynccontextmanager
    async def serving(self, path: Path, plugin: Plugin | None = None) -> AsyncIterator[Driver]:
        more = [DevicePluginService(plugin)] if plugin else []
        async with serve(path, [RegistrationService(self), *more]):
            yield self


@dataclass
class Handler:
    """Writes down what it is asked; `slow` makes `register` wait."""

    calls: list[str] = field(default_factory=list)
    versions: Sequence[str] = ()
    invalid: Error | None = None
    fault: Error | None = None
    slow: asyncio.Event | None = None
    at_once: int = 0

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        self.versions = versions
        if self.invalid:
            raise self.invalid

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        self.calls.append(f"+{name} {endpoint}")
        self.at_once += 1
        if self.slow:
            await self.slow.wait()
        self.at_once -= 1
        if self.fault:
            raise self.fault

    async def deregister(self, name: str, endpoint: str) -> None:
        self.calls.append(f"-{name} {endpoint}")


@dataclass
class Node:
    registry: Path
    handler: Handler = field(default_factory=Handler)

    @asynccontextmanager
    async def watching(
        self, clock: Clock | None = None, handlers: dict[str, PluginHandler] | None = None
    ) -> AsyncIterator[PluginWatcher]:
        if handlers is None:
            handlers = {DRA_PLUGIN: self.handler}
        watcher = PluginWatcher(self.registry, handlers, clock or SystemClock())
        async with watcher.running():
            yield watcher


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "plugins_registry")


TAKEN = "+d.com /run/d.sock"
DROPPED = "-d.com /run/d.sock"
OK = (True, "")


async def test_the_directory_is_made(node: Node) -> None:
    async with node.watching() as watcher:
        assert stat.S_IMODE(node.registry.stat().st_mode) & 0o700 == 0o700
        assert watcher.states == ([], [])


async def test_register_then_unregister(node: Node) -> None:
    async with node.watching() as watcher:
        async with Driver().serving(node.registry / "d.sock") as driver:
            await wait_until(lambda: driver.statuses == [OK])
            assert node.handler.calls == [TAKEN]
            assert node.handler.versions == ("v1.DRAPlugin",)
            await wait_until(lambda: watcher.states == ([str(node.registry / "d.sock")],) * 2)
        await wait_until(lambda: node.handler.calls == [TAKEN, DROPPED])
        assert watcher.states == ([], [])


async def test_a_socket_that_was_there_before(node: Node) -> None:
    (node.registry / "sub").mkdir(parents=True)
    async with Driver().serving(node.registry / "sub" / "d.sock") as driver, node.watching():
        await wait_until(lambda: driver.statuses == [OK])


async def test_the_same_path_made_anew_is_registered_anew(node: Node) -> None:
    async with node.watching():
        for number in range(1, 4):
            async with Driver().serving(node.registry / "d.sock") as driver:
                await wait_until(lambda: driver.statuses == [OK])
            await wait_until(lambda: node.handler.calls == [TAKEN, DROPPED] * number)  # noqa: B023


async def test_two_plugins_of_one_name(node: Node) -> None:
    async with (
        node.watching(),
        Driver().serving(node.registry / "a.sock") as first,
        Driver().serving(node.registry / "b.sock") as second,
    ):
        await wait_until(lambda: first.statuses == second.statuses == [OK])
        assert node.handler.calls == [TAKEN, TAKEN]


async def test_without_an_endpoint_it_is_the_socket(node: Node) -> None:
    driver = Driver(PluginInfo(type=DRA_PLUGIN, name="d.com", supported_versions=["v1.DRAPlugin"]))
    async with node.watching(), driver.serving(node.registry / "d.sock"):
        await wait_until(lambda: driver.statuses)
    assert node.handler.calls[0] == f"+d.com {node.registry / 'd.sock'}"


async def test_the_handler_is_chosen_by_type(node: Node) -> None:
    other = Handler()
    handlers: dict[str, PluginHandler] = {DRA_PLUGIN: node.handler, DEVICE_PLUGIN: other}
    device = Driver(
        PluginInfo(type=DEVICE_PLUGIN, name=RESOURCE, endpoint="/p", supported_versions=["v1beta1"])
    )
    async with (
        node.watching(handlers=handlers),
        Driver().serving(node.registry / "a.sock") as driver,
        device.serving(node.registry / "b.sock"),
    ):
        await wait_until(lambda: driver.statuses == device.statuses == [OK])
    assert node.handler.calls[0] == TAKEN
    assert other.calls[0] == f"+{RESOURCE} /p"


@pytest.mark.parametrize("kind", [CSI_PLUGIN, "", "Other"])
async def test_a_type_that_nobody_handles(node: Node, kind: str) -> None:
    path = node.registry / "c.sock"
    driver = Driver(PluginInfo(type=kind, name="csi"))
    async with node.watching(FakeClock()), driver.serving(path):
        await wait_until(lambda: driver.statuses)
    text = f"RegisterPlugin error -- no handler registered for plugin type: {kind} at socket {path}"
    assert driver.statuses == [(False, text)]
    assert node.handler.calls == []


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (PluginInfo(type=DRA_PLUGIN, name="n" * 254), "name has more than 253 characters"),
        (PluginInfo(type=DRA_PLUGIN, endpoint="/" * 4097), "endpoint has more than 4096 characters"),
    ],
)
async def test_a_plugin_that_shouts_is_refused(node: Node, info: PluginInfo, text: str) -> None:
    driver = Driver(info)
    async with node.watching(), driver.serving(node.registry / "d.sock"):
        await wait_until(lambda: driver.statuses)
    assert driver.statuses[0] == (False, f"RegisterPlugin error -- the plugin's {text}")
    assert node.handler.calls == []


async def test_validation_that_fails_is_told_and_tried_again(node: Node) -> None:
    node.handler.invalid = InvalidError("no version of ours")
    clock = FakeClock()
    async with node.watching(clock), Driver().serving(node.registry / "d.sock") as driver:
        await wait_until(lambda: driver.statuses)
        text = "RegisterPlugin error -- plugin validation failed with err: no version of ours"
        assert driver.statuses == [(False, text)]
        assert node.handler.calls == []
        node.handler.invalid = None
        await _moving(clock, lambda: driver.statuses[1:] == [OK])


async def test_registration_that_fails_is_told_and_tried_again(node: Node) -> None:
    node.handler.fault = InvalidError("not now")
    clock = FakeClock()
    async with node.watching(clock) as watcher, Driver().serving(node.registry / "d.sock") as driver:
        await wait_until(lambda: driver.statuses)
        text = "RegisterPlugin error -- plugin registration failed with err: not now"
        assert driver.statuses == [(False, text)]
        assert watcher.states[1] == []
        node.handler.fault = None
        await _moving(clock, lambda: driver.statuses[1:] == [OK])
    assert node.handler.calls[:2] == [TAKEN, TAKEN]


async def test_a_plugin_that_cannot_be_told_is_dropped_and_tried_again(node: Node) -> None:
    clock = FakeClock()
    driver = Driver(notify_fault=HardwareError("hands full"))
    async with node.watching(clock) as watcher, driver.serving(node.registry / "d.sock"):
        await wait_until(lambda: node.handler.calls == [TAKEN, DROPPED])
        assert watcher.states[1] == []
        driver.notify_fault = None
        await _moving(clock, lambda: watcher.states[1])
    assert node.handler.calls[:3] == [TAKEN, DROPPED, TAKEN]


async def test_get_info_that_fails_is_tried_with_growing_pauses(node: Node) -> None:
    clock = FakeClock()
    driver = Driver(fault=HardwareError("not yet"))
    asked: list[float] = []
    async with node.watching(clock), driver.serving(node.registry / "d.sock"):
        for count in range(1, 6):
            await _moving(clock, lambda: driver.asked == count)  # noqa: B023
            asked.append(clock.monotonic())
        assert driver.statuses == []
    pauses = [later - before for before, later in pairwise(asked)]
    assert [round(pause) for pause in pauses] == [0, 1, 2, 4]


async def test_get_info_gets_one_second_and_holds_up_no_other(node: Node) -> None:
    deaf = Driver(deaf=True)
    async with node.watching(), deaf.serving(node.registry / "a.sock"):
        await wait_until(lambda: deaf.asked == 1)
        async with Driver().serving(node.registry / "b.sock") as driver:
            await wait_until(lambda: driver.statuses == [OK])
            assert deaf.asked == 1
        deaf.deaf = False
        await wait_until(lambda: deaf.statuses == [OK])
        assert deaf.asked == 2


async def test_a_socket_without_a_listener_is_tried_again(node: Node) -> None:
    node.registry.mkdir()
    path = node.registry / "d.sock"
    with socket.socket(socket.AF_UNIX) as late:
        late.bind(str(path))
        async with node.watching() as watcher:
            await wait_until(lambda: watcher.states[0] == [str(path)])
            await settle(200)  # by now the first try was refused
            path.unlink()
            async with Driver().serving(path) as driver:
                await wait_until(lambda: driver.statuses == [OK])


async def test_one_socket_has_one_operation_at_a_time(node: Node) -> None:
    node.handler.slow = asyncio.Event()
    async with node.watching():
        async with Driver().serving(node.registry / "d.sock"):
            await wait_until(lambda: node.handler.at_once == 1)
        other = Driver(PluginInfo(type=DRA_PLUGIN, name="e.com", endpoint="/run/e.sock"))
        async with (
            Driver().serving(node.registry / "d.sock") as again,
            other.serving(node.registry / "e.sock"),
        ):
            await wait_until(lambda: node.handler.at_once == 2)
            assert node.handler.calls == [TAKEN, "+e.com /run/e.sock"], "the newer socket waits for the older"
            node.handler.slow.set()
            await wait_until(lambda: again.statuses)
            assert node.handler.calls == [TAKEN, "+e.com /run/e.sock", DROPPED, TAKEN]
            assert again.statuses == [OK]


async def test_sockets_do_not_wait_for_each_other(node: Node) -> None:
    node.handler.slow = asyncio.Event()
    async with node.watching(), AsyncExitStack() as stack:
        for number in range(20):
            await stack.enter_async_context(Driver().serving(node.registry / f"{number}.sock"))
        await wait_until(lambda: node.handler.at_once == 20)
        node.handler.slow.set()


async def test_a_path_that_is_no_text(node: Node) -> None:
    driver = Driver(PluginInfo(type="\u00e9"))
    async with node.watching(FakeClock()), driver.serving(node.registry / "a\udcff.sock"):
        await wait_until(lambda: driver.statuses)
    assert "no handler registered for plugin type: \u00e9" in driver.statuses[0][1]


async def test_a_device_plugin_whose_stream_ends_is_asked_again(node: Node) -> None:
    recorder, clock = Recorder(), FakeClock()
    plugin = Plugin()
    driver = Driver(PluginInfo(type=DEVICE_PLUGIN, name=RESOURCE, supported_versions=["v1beta1"]))
    async with connections(recorder) as made:
        handlers: dict[str, PluginHandler] = {}
        async with node.watching(clock, handlers) as watcher:
            handlers[DEVICE_PLUGIN] = DevicePluginHandler(made, watcher.lost)
            async with driver.serving(node.registry / "p.sock", plugin):
                await wait_until(lambda: recorder.words == ["connected p.sock", "listed p.sock a,b"])
                await wait_until(lambda: watcher.states[1])
                plugin.lists.put_nowait(None)
                await wait_until(lambda: recorder.words[-1] == "disconnected p.sock")
                assert watcher.states[1] == []
                await _moving(clock, lambda: recorder.words[-1] == "listed p.sock a,b")
                await wait_until(lambda: watcher.states[1])
            await wait_until(lambda: recorder.words[-1] == "disconnected p.sock")


async def test_a_stream_may_end_just_when_its_socket_goes(node: Node) -> None:
    async with node.watching(FakeClock()) as watcher, Driver().serving(node.registry / "d.sock"):
        await wait_until(lambda: watcher.states[1] and not watcher._busy)
        decided = Unregister(str(node.registry / "d.sock"))
        watcher.lost("/run/d.sock")
        await watcher._unregister(decided)
        assert node.handler.calls == [TAKEN]


async def test_a_device_plugin_that_always_ends_at_once(node: Node) -> None:
    recorder, clock = Recorder(), FakeClock()
    plugin = Plugin(first=None)
    for _ in range(100):
        plugin.lists.put_nowait(None)
    driver = Driver(PluginInfo(type=DEVICE_PLUGIN, name=RESOURCE, supported_versions=["v1beta1"]))
    async with connections(recorder) as made:
        handlers: dict[str, PluginHandler] = {}
        async with node.watching(clock, handlers) as watcher:
            handlers[DEVICE_PLUGIN] = DevicePluginHandler(made, watcher.lost)
            async with driver.serving(node.registry / "p.sock", plugin):
                await _moving(clock, lambda: plugin.calls.count("list") == 5)
                assert clock.monotonic() > 0.5 + 1 + 2 + 4
    assert not recorder.connected_now


async def _moving(clock: FakeClock, condition: object) -> None:
    """Move the clock in small steps, with time for real sockets between, until the condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # type: ignore[operator]
            await clock.advance(0.1)
            await asyncio.sleep(0.005)
