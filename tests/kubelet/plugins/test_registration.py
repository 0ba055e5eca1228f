from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dray.deviceplugin.directory import following
from dray.deviceplugin.lifetime import PluginLifetime, Timing
from dray.deviceplugin.plugin import Offer, ResourcePlugin
from dray.drivers.contract import Health
from dray.errors import ConflictError, Error, HardwareError
from dray.inventory.inventory import InventoryFeed
from dray.kubelet.metrics import KubeletMetrics
from dray.kubelet.plugins.connections import Connections
from dray.kubelet.plugins.endpoint import DEFAULT_TIMEOUTS, Timeouts
from dray.kubelet.plugins.registration import Registration
from dray.runtime.clock import SystemClock, settle
from dray.runtime.metrics import Metrics
from dray.runtime.tasks import running
from dray.wire.connect import connect
from dray.wire.deviceplugin import DevicePluginRegistrationClient
from dray.wire.gen.deviceplugin_v1beta1_pb2 import DevicePluginOptions, RegisterRequest
from dray.wire.status import Code, status_of
from tests.deviceplugin.conftest import TapeDriver, nothing, tape
from tests.kubelet.plugins.real_plugin import (
    RESOURCE,
    SHORT,
    Plugin,
    Recorder,
    connections,
    devices,
)
from tests.waiting import wait_until


@dataclass
class Node:
    """A plugin directory with a kubelet's socket in it."""

    directory: Path
    recorder: Recorder = field(default_factory=Recorder)
    metrics: Metrics = field(default_factory=Metrics)
    timeouts: Timeouts = DEFAULT_TIMEOUTS

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Connections]:
        async with AsyncExitStack() as stack:
            made = await stack.enter_async_context(connections(self.recorder, self.timeouts))
            registration = Registration(self.directory, made, KubeletMetrics(self.metrics))
            await stack.enter_async_context(registration.serving())
            assert registration.check() == ""
            yield made

    async def register(
        self, endpoint: str, resource: str = RESOURCE, version: str = "v1beta1", **more: object
    ) -> None:
        request = RegisterRequest(version=version, endpoint=endpoint, resource_name=resource, **more)  # type: ignore[arg-type]
        async with connect(self.directory / "kubelet.sock", timeout=60) as channel:
            await DevicePluginRegistrationClient(channel).register(request)

    async def refused(self, endpoint: str, resource: str = RESOURCE, version: str = "v1beta1") -> str:
        with pytest.raises(Error) as caught:
            await self.register(endpoint, resource, version)
        status = status_of(caught.value)
        assert status is not None
        assert status.code is Code.UNKNOWN
        return status.message

    def count(self, resource: str) -> float:
        wanted = f'kubelet_device_plugin_registration_total{{resource_name="{resource}"}} '
        lines = self.metrics.render().decode().splitlines()
        return sum(float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "device-plugins")


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


async def test_the_directory_is_made_for_root_and_its_group(node: Node) -> None:
    async with node.serving():
        assert stat.S_IMODE(node.directory.stat().st_mode) == 0o750
    assert not (node.directory / "kubelet.sock").exists()


@pytest.mark.parametrize(
    "endpoint", ["", ".", "/", "./", "..", "a/..", "../kubeconfig", "../../elsewhere.sock", "link.sock", "\0"]
)
async def test_an_endpoint_that_is_no_socket_of_a_plugin(node: Node, endpoint: str, tmp_path: Path) -> None:
    """Names of the directory itself among them, which a plugin may give in many ways."""
    node.timeouts = SHORT
    (tmp_path / "kubeconfig").write_text("not ours\n")
    async with node.serving():
        (node.directory / "link.sock").symlink_to("nowhere")
        assert "failed to dial device plugin" in await node.refused(endpoint)
    assert node.recorder.told == []


async def test_old_sockets_go_and_other_files_stay(node: Node) -> None:
    node.directory.mkdir()
    make_socket(node.directory / "plugin.sock")
    make_socket(node.directory / "kubelet.sock")
    (node.directory / "below").mkdir()
    make_socket(node.directory / "below" / "deep.sock")
    (node.directory / "kubelet_internal_checkpoint").write_text("{}")
    os.mkfifo(node.directory / "pipe")
    (node.directory / "link").symlink_to(node.directory / "below" / "deep.sock")
    async with node.serving():
        left = {"below", "kubelet_internal_checkpoint", "pipe", "link", "kubelet.sock"}
        assert {path.name for path in node.directory.iterdir()} == left
        assert (node.directory / "below" / "deep.sock").exists()


async def test_another_kubelet_keeps_its_plugins(node: Node) -> None:
    async with node.serving(), Plugin().serving(node.directory / "p"):
        with pytest.raises(ConflictError, match="in use by another kubelet"):
            async with Node(node.directory).serving():
                pass
        await node.register("p")


async def test_a_registration_asks_for_the_options_and_lists(node: Node) -> None:
    plugin = Plugin(options=DevicePluginOptions(pre_start_required=True))
    async with node.serving() as made:
        async with plugin.serving(node.directory / "p"):
            # What the request says about options counts for nothing.
            await node.register("p", options=DevicePluginOptions(get_preferred_allocation_available=True))
            (endpoint,) = made.endpoints
            assert endpoint.options == DevicePluginOptions(pre_start_required=True)
            await wait_until(lambda: "listed p a,b" in node.recorder.words)
            assert node.count(RESOURCE) == 1
        await wait_until(lambda: "disconnected p" in node.recorder.words)


REFUSALS = {
    "version": (
        RESOURCE,
        "v1alpha",
        'requested API version "v1alpha" is not supported by kubelet. Supported version is ["v1beta1"]',
    ),
    "no version": (
        RESOURCE,
        "",
        'requested API version "" is not supported by kubelet. Supported version is ["v1beta1"]',
    ),
    "version before name": (
        "bad",
        "v2",
        'requested API version "v2" is not supported by kubelet. Supported version is ["v1beta1"]',
    ),
    "no domain": ("tape", "v1beta1", 'the ResourceName "tape" is invalid'),
    "native": ("kubernetes.io/tape", "v1beta1", 'the ResourceName "kubernetes.io/tape" is invalid'),
    "below native": (
        "x.kubernetes.io/tape",
        "v1beta1",
        'the ResourceName "x.kubernetes.io/tape" is invalid',
    ),
    "quota": (
        "requests.example.com/tape",
        "v1beta1",
        'the ResourceName "requests.example.com/tape" is invalid',
    ),
    "characters": ("example.com/ta\npe", "v1beta1", 'the ResourceName "example.com/ta\\npe" is invalid'),
    "length": (
        f"example.com/{'x' * 64}",
        "v1beta1",
        f'the ResourceName "example.com/{"x" * 64}" is invalid',
    ),
    "empty": ("", "v1beta1", 'the ResourceName "" is invalid'),
}


@pytest.mark.parametrize(("resource", "version", "text"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_refusals(node: Node, resource: str, version: str, text: str) -> None:
    plugin = Plugin()
    async with node.serving(), plugin.serving(node.directory / "p"):
        assert await node.refused("p", resource, version) == text
        await node.register("p")
    assert node.count(resource.replace("\n", "\\n")) == (2 if resource == RESOURCE else 1)
    assert plugin.calls.count("options") == 1


async def test_nobody_at_the_endpoint(node: Node) -> None:
    node.timeouts = SHORT
    endpoints = ["none", "", "kubelet.sock\0", "none/../../none", "x" * 5000]
    async with node.serving():
        texts = await asyncio.gather(*(node.refused(endpoint) for endpoint in endpoints))
    assert all(text.startswith("failed to dial device plugin: ") for text in texts)
    assert node.recorder.words == []


async def test_an_endpoint_is_below_the_directory(node: Node, tmp_path: Path) -> None:
    async with node.serving(), Plugin().serving(node.directory / "p"):
        await node.register("/p")
        await node.register("./x/../p")
        assert {one.path for one in node.recorder.connected_now} == {node.directory / "p"}


async def test_the_kubelet_itself_is_no_plugin(node: Node) -> None:
    async with node.serving():
        text = await node.refused("kubelet.sock")
        assert text.startswith("failed to get device plugin options: rpc error: code = Unimplemented desc = ")


async def test_options_that_fail_are_asked_once(node: Node) -> None:
    plugin = Plugin(fault=HardwareError("broken"))
    async with node.serving(), plugin.serving(node.directory / "p"):
        text = await node.refused("p")
        await settle(200)
    assert text == ("failed to get device plugin options: rpc error: code = FailedPrecondition desc = broken")
    assert plugin.calls == ["options"]
    assert node.recorder.words == []


async def test_a_plugin_that_hangs_holds_up_no_other(node: Node) -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(node.serving())
        hangs = Plugin(hang="options")
        await stack.enter_async_context(hangs.serving(node.directory / "hangs"))
        await stack.enter_async_context(Plugin().serving(node.directory / "p"))
        deaf = stack.enter_context(socket.socket(socket.AF_UNIX))
        deaf.bind(str(node.directory / "deaf"))
        deaf.listen()
        async with asyncio.TaskGroup() as group:
            others = [group.create_task(node.register(name)) for name in ("hangs", "deaf") * 10]
            await wait_until(lambda: hangs.calls)
            await node.register("p")
            await wait_until(lambda: "listed p a,b" in node.recorder.words)
            assert not any(task.done() for task in others)
            assert len(hangs.calls) == 1  # of one socket one at a time
            for task in others:
                task.cancel()


async def test_re_registration_with_other_devices(node: Node) -> None:
    async with node.serving() as made, AsyncExitStack() as stack:
        for name, ids in (("p1", "ab"), ("p2", "ab"), ("p3", "c")):
            plugin = Plugin(first=devices(*ids))
            await stack.enter_async_context(plugin.serving(node.directory / name))
            await node.register(name)
            await wait_until(lambda: node.recorder.words[-1].startswith("listed"))
            assert [one.id for one in node.recorder.newest[RESOURCE]] == list(ids)
        assert len(made.endpoints) == 3


async def test_a_socket_that_somebody_removed_is_told(node: Node) -> None:
    registration = Registration(node.directory, Connections(Recorder()), KubeletMetrics(Metrics()))
    assert registration.check() == ""
    async with registration.serving():
        registration.path.unlink()
        assert registration.check().startswith(
            "device registration error: device plugin registration gRPC server failed "
            "and no device plugins can register: "
        )
    assert registration.check() == ""


async def test_our_own_plugin_comes_back_after_a_restart(node: Node) -> None:
    node.directory.mkdir()
    feed = InventoryFeed()
    feed.publish([tape(1), tape(2)])
    offer = Offer(RESOURCE, TapeDriver(), "tape.sock")
    async with following(node.directory) as watched:
        timing = Timing(after_failures=(0.02,), after_clean_end=0.02)
        lifetime = PluginLifetime(
            lambda: ResourcePlugin(offer, feed, nothing), watched, SystemClock(), timing
        )
        async with running(lifetime.run(), name="plugin"):
            for _ in range(2):
                again = Node(node.directory)
                async with again.serving() as made:
                    await wait_until(lambda: "listed tape.sock tape1,tape2" in again.recorder.words)  # noqa: B023
                    (endpoint,) = made.endpoints
                    assert (await endpoint.allocate(["tape1"])).envs == {"TAPES": "tape1"}
                    assert await endpoint.preferred(["tape1", "tape2"], [], 1)
                    feed.publish([tape(1), tape(2, Health.UNHEALTHY)])
                    await wait_until(
                        lambda: [one.is_healthy for one in again.recorder.newest[RESOURCE]] == [True, False]  # noqa: B023
                    )
                    feed.publish([tape(1), tape(2)])
