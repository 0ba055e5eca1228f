from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from dray.errors import Error, HardwareError, UnavailableError
from dray.kubelet.devices.known import Device, KnownDevices
from dray.kubelet.plugins.connections import Connections
from dray.kubelet.plugins.endpoint import PluginEndpoint, Timeouts
from dray.kubelet.plugins.quota import DEVICES_OF_ANY, DEVICES_OF_SOCKET, OF_ONE
from dray.runtime.clock import settle
from tests.kubelet.plugins.real_plugin import (
    RESOURCE,
    SHORT,
    Plugin,
    Recorder,
    connections,
    devices,
)
from tests.waiting import wait_until


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


async def test_two_instances_side_by_side(tmp_path: Path, recorder: Recorder) -> None:
    old, new = Plugin(), Plugin(first=devices("c"))
    async with (
        connections(recorder) as made,
        old.serving(tmp_path / "old"),
        new.serving(tmp_path / "new"),
    ):
        await made.connect(RESOURCE, tmp_path / "old")
        await wait_until(lambda: "listed old a,b" in recorder.words)
        await made.connect(RESOURCE, tmp_path / "new")
        await wait_until(lambda: "listed new c" in recorder.words)
        old.lists.put_nowait(None)
        await wait_until(lambda: "disconnected old" in recorder.words)
        (left,) = made.endpoints
        assert left.path == tmp_path / "new"
        await left.allocate(["c"])
        assert "disconnected new" not in recorder.words


async def test_one_socket_may_serve_two_resources(tmp_path: Path, recorder: Recorder) -> None:
    async with connections(recorder) as made, Plugin().serving(tmp_path / "s"):
        await made.connect("example.com/a", tmp_path / "s")
        await made.connect("example.com/b", tmp_path / "s")
        assert [one.resource for one in made.endpoints] == ["example.com/a", "example.com/b"]


async def test_the_same_socket_again_replaces_the_connection(tmp_path: Path, recorder: Recorder) -> None:
    plugin = Plugin()
    async with connections(recorder) as made, plugin.serving(tmp_path / "s"):
        for _ in range(3):
            await made.connect(RESOURCE, tmp_path / "s")
            await wait_until(lambda: recorder.words[-1] == "listed s a,b")
        assert len(made.endpoints) == len(recorder.connected_now) == 1
        await wait_until(lambda: plugin.streams == 1)
        plugin.lists.put_nowait(None)
        await wait_until(lambda: not made.endpoints)
        # It can register again after all that.
        await made.connect(RESOURCE, tmp_path / "s")
        await wait_until(lambda: recorder.words[-1] == "listed s a,b")
    assert recorder.words == [
        *("connected s", "listed s a,b", "connected s", "disconnected s", "listed s a,b"),
        *("connected s", "disconnected s", "listed s a,b", "disconnected s"),
        *("connected s", "listed s a,b", "disconnected s"),
    ]


async def test_a_call_in_flight_survives_the_replacement(tmp_path: Path, recorder: Recorder) -> None:
    plugin = Plugin(hang="allocate")
    async with (
        connections(recorder) as made,
        plugin.serving(tmp_path / "s"),
        asyncio.TaskGroup() as group,
    ):
        await made.connect(RESOURCE, tmp_path / "s")
        (old,) = made.endpoints
        call = group.create_task(old.allocate(["a"]))
        await wait_until(lambda: "allocate" in plugin.calls)
        await made.connect(RESOURCE, tmp_path / "s")
        with pytest.raises(UnavailableError, match="has been stopped"):
            await old.allocate(["b"])
        plugin.allocating.set()
        await call


async def test_a_failed_registration_leaves_the_connection_before(tmp_path: Path, recorder: Recorder) -> None:
    plugin = Plugin()
    async with connections(recorder) as made, plugin.serving(tmp_path / "s"):
        await made.connect(RESOURCE, tmp_path / "s")
        await wait_until(lambda: "listed s a,b" in recorder.words)
        plugin.fault = HardwareError("out of order")
        with pytest.raises(HardwareError) as caught:
            await made.connect(RESOURCE, tmp_path / "s")
        plugin.fault = None
        plugin.lists.put_nowait(devices("c"))
        await wait_until(lambda: "listed s c" in recorder.words)
        (endpoint,) = made.endpoints
        await endpoint.allocate(["c"])
    text = "rpc error: code = FailedPrecondition desc = out of order"
    assert str(caught.value) == f"failed to get device plugin options: {text}"


async def test_a_restart_on_the_same_socket(tmp_path: Path, recorder: Recorder) -> None:
    async with connections(recorder) as made:
        for number in range(3):
            async with Plugin(first=devices(f"d{number}")).serving(tmp_path / "s"):
                await made.connect(RESOURCE, tmp_path / "s")
                await wait_until(lambda: recorder.words[-1].startswith("listed"))
            await wait_until(lambda: recorder.words[-1] == "disconnected s")
    told = [ids for what, _, ids in recorder.told if what == "listed"]
    assert told == [("d0",), ("d1",), ("d2",)]
    assert not recorder.connected_now


@pytest.mark.parametrize("first", [None, devices("a")], ids=["nothing", "one list"])
async def test_a_plugin_that_ends_at_once(tmp_path: Path, recorder: Recorder, first: object) -> None:
    plugin = Plugin(first=first)  # type: ignore[arg-type]
    plugin.lists.put_nowait(None)
    lost: list[str] = []
    async with connections(recorder) as made, plugin.serving(tmp_path / "s"):
        await made.connect(RESOURCE, tmp_path / "s", lambda: lost.append("s"))
        await wait_until(lambda: "disconnected s" in recorder.words)
        await settle(200)
    # Its last list is told, and it is not called again.
    listed = ["listed s a"] if first else []
    assert recorder.words == ["connected s", *listed, "disconnected s"]
    assert plugin.calls == ["options", "list"]
    assert lost == ["s"]


async def test_the_last_list_is_told_however_soon_the_end_comes(tmp_path: Path, recorder: Recorder) -> None:
    plugin = Plugin()
    for name in "cde":
        plugin.lists.put_nowait(devices(name))
    plugin.lists.put_nowait(None)
    async with connections(recorder) as made, plugin.serving(tmp_path / "s"):
        await made.connect(RESOURCE, tmp_path / "s")
        await wait_until(lambda: "disconnected s" in recorder.words)
    assert recorder.words[-2:] == ["listed s e", "disconnected s"]


async def test_a_stream_that_fails(tmp_path: Path, recorder: Recorder) -> None:
    plugin = Plugin()
    plugin.lists.put_nowait(HardwareError("unplugged"))
    async with connections(recorder) as made, plugin.serving(tmp_path / "s"):
        await made.connect(RESOURCE, tmp_path / "s")
        await wait_until(lambda: "disconnected s" in recorder.words)
    assert recorder.words == ["connected s", "listed s a,b", "disconnected s"]


async def test_disconnect_ends_calls_and_tells_nobody_of_a_loss(tmp_path: Path, recorder: Recorder) -> None:
    plugin = Plugin(hang="allocate")
    lost: list[str] = []
    async with (
        connections(recorder) as made,
        plugin.serving(tmp_path / "s"),
        asyncio.TaskGroup() as group,
    ):
        await made.connect(RESOURCE, tmp_path / "s", lambda: lost.append("s"))
        (endpoint,) = made.endpoints

        async def fails() -> None:
            with pytest.raises(UnavailableError, match="has been stopped"):
                await endpoint.allocate(["a"])

        group.create_task(fails())
        await wait_until(lambda: "allocate" in plugin.calls)
        await made.disconnect(RESOURCE, tmp_path / "s")
        await made.disconnect(RESOURCE, tmp_path / "s")
        assert recorder.words[-1] == "disconnected s"
        assert not made.endpoints
        await settle(200)
    assert not lost


async def test_leaving_disconnects_all(tmp_path: Path, recorder: Recorder) -> None:
    async with Plugin().serving(tmp_path / "a"), Plugin(hang="allocate").serving(tmp_path / "b") as slow:
        async with connections(recorder) as made, asyncio.TaskGroup() as group:
            for name in ("a", "b"):
                await made.connect(RESOURCE, tmp_path / name)
            (_, endpoint) = made.endpoints
            hanging = group.create_task(endpoint.allocate(["a"]))
            await wait_until(lambda: "allocate" in slow.calls)
            hanging.cancel()
        assert not recorder.connected_now
        with pytest.raises(Error, match="the kubelet is stopping"):
            await made.connect(RESOURCE, tmp_path / "a")


async def test_a_plugin_that_does_not_answer_holds_up_itself(tmp_path: Path, recorder: Recorder) -> None:
    async with (
        connections(recorder, Timeouts(options=1.0)) as made,
        Plugin(hang="options").serving(tmp_path / "slow"),
        Plugin().serving(tmp_path / "fast"),
        asyncio.TaskGroup() as group,
    ):
        slow = group.create_task(_refused(made.connect(RESOURCE, tmp_path / "slow")))
        await made.connect(RESOURCE, tmp_path / "fast")
        assert not slow.done()
        await wait_until(lambda: "listed fast a,b" in recorder.words)
    assert slow.result() == (
        "failed to get device plugin options: "
        "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    )


async def test_nobody_listens(tmp_path: Path, recorder: Recorder) -> None:
    async with connections(recorder, SHORT) as made:
        text = await _refused(made.connect(RESOURCE, tmp_path / "s"))
    assert text.startswith("failed to dial device plugin: ")
    assert recorder.words == []


async def test_a_plugin_that_listens_a_little_late_is_waited_for(tmp_path: Path, recorder: Recorder) -> None:
    async with connections(recorder) as made, asyncio.TaskGroup() as group:
        call = group.create_task(made.connect(RESOURCE, tmp_path / "s"))
        await settle()  # by now the first try has found nothing
        async with Plugin().serving(tmp_path / "s"):
            await call
            await wait_until(lambda: "listed s a,b" in recorder.words)


async def _refused(call: object) -> str:
    with pytest.raises(Error) as caught:
        await call  # type: ignore[misc]
    return str(caught.value)


async def test_a_plugin_that_is_stopped_and_killed(tmp_path: Path, recorder: Recorder) -> None:
    path = tmp_path / "s"
    program = ("-m", "tests.kubelet.plugins.plugin_process", str(path))
    process = await asyncio.create_subprocess_exec(sys.executable, *program)
    try:
        await wait_until(path.exists)
        async with (
            connections(recorder, Timeouts(call=0.2)) as made,
            Plugin().serving(tmp_path / "other"),
        ):
            await made.connect(RESOURCE, path)
            await made.connect(RESOURCE, tmp_path / "other")
            await wait_until(lambda: "listed s a,b" in recorder.words)
            other, endpoint = made.endpoints
            process.send_signal(signal.SIGSTOP)
            with pytest.raises(UnavailableError, match="DeadlineExceeded"):
                await endpoint.allocate(["a"])
            await other.pre_start(["a"])
            process.kill()
            await wait_until(lambda: "disconnected s" in recorder.words)
            with pytest.raises(UnavailableError, match="has been stopped"):
                await endpoint.allocate(["a"])
            assert made.endpoints == (other,)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class Known:
    """The device manager's own book, fed by plugins."""

    def __init__(self) -> None:
        self.devices = KnownDevices()

    def connected(self, resource: str, endpoint: PluginEndpoint) -> None:
        self.devices.connected(resource, endpoint)

    def listed(self, resource: str, devices: Sequence[Device], endpoint: PluginEndpoint) -> None:
        self.devices.listed(resource, devices, endpoint)

    def disconnected(self, resource: str, endpoint: PluginEndpoint) -> None:
        self.devices.stopped(resource, endpoint, 0.0)

    @property
    def healthy(self) -> list[str]:
        known = self.devices.get(RESOURCE)
        return sorted(known.healthy) if known else []


@asynccontextmanager
async def running_with(known: Known) -> AsyncIterator[Connections]:
    made = Connections(known)
    async with made.running():
        yield made


async def test_a_resource_stays_while_one_instance_does(tmp_path: Path) -> None:
    known, old, new = Known(), Plugin(), Plugin()
    async with (
        running_with(known) as made,
        old.serving(tmp_path / "old"),
        new.serving(tmp_path / "new"),
    ):
        await made.connect(RESOURCE, tmp_path / "old")
        await wait_until(lambda: known.healthy == ["a", "b"])
        await made.connect(RESOURCE, tmp_path / "new")
        await made.connect(RESOURCE, tmp_path / "old")
        for _ in range(2):  # the stream before the second registration may not have noticed its end yet
            old.lists.put_nowait(None)
        await wait_until(lambda: len(made.endpoints) == 1)
        await wait_until(lambda: known.healthy == ["a", "b"])
        new.lists.put_nowait(None)
        await wait_until(lambda: known.healthy == [])
        assert known.devices.capacity(0.0).capacity == {RESOURCE: 2}


async def test_a_plugin_that_brings_ever_new_names_is_stopped(tmp_path: Path, recorder: Recorder) -> None:
    async with (
        connections(recorder) as made,
        Plugin().serving(tmp_path / "s"),
        Plugin().serving(tmp_path / "t"),
    ):
        for number in range(OF_ONE):
            await made.connect(f"example.com/{number}", tmp_path / "s")
        with pytest.raises(UnavailableError, match="use another socket for more"):
            await made.connect("example.com/more", tmp_path / "s")
        await made.connect("example.com/0", tmp_path / "s")
        await made.connect("example.com/more", tmp_path / "t")
        assert len(made.endpoints) == OF_ONE + 1


async def test_the_devices_of_all_resources_of_a_socket_count_together(
    tmp_path: Path, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    many = Plugin(first=devices(*(f"{number:06}" for number in range(DEVICES_OF_SOCKET - 100))))
    async with connections(recorder) as made, many.serving(tmp_path / "s"), Plugin().serving(tmp_path / "t"):
        for name in ("one", "two"):
            await made.connect(f"example.com/{name}", tmp_path / "s")
            await wait_until(lambda name=name: f"example.com/{name}" in recorder.newest)  # type: ignore[misc]
        await made.connect("example.com/good", tmp_path / "t")
        await wait_until(lambda: "example.com/good" in recorder.newest)
        counts = {name.partition("/")[2]: len(listed) for name, listed in recorder.newest.items()}
        assert counts == {"one": DEVICES_OF_SOCKET - 100, "two": DEVICES_OF_ANY, "good": 2}
        assert "too many devices" in caplog.text
        # What is given up makes room.
        await made.disconnect("example.com/one", tmp_path / "s")
        await made.connect("example.com/three", tmp_path / "s")
        await wait_until(lambda: len(recorder.newest.get("example.com/three", ())) > DEVICES_OF_ANY)
