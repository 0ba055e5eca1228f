from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from dray.errors import Error, HardwareError, ProtocolError, UnavailableError
from dray.kubelet.plugins.endpoint import DEFAULT_TIMEOUTS, LIMITS, PluginEndpoint, Timeouts
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateRequest,
    ContainerAllocateResponse,
    ContainerPreferredAllocationRequest,
    DevicePluginOptions,
    PreferredAllocationRequest,
    PreStartContainerRequest,
)
from dray.wire.limits import MIB
from tests.kubelet.plugins.real_plugin import (
    RESOURCE,
    Plugin,
    RawLists,
    Recorder,
    connected,
    devices,
)
from tests.waiting import PATIENCE, wait_until


async def test_the_first_list_and_an_update_are_each_told_once(tmp_path: Path) -> None:
    plugin, recorder = Plugin(), Recorder()
    async with connected(plugin, tmp_path / "s", recorder):
        await wait_until(lambda: "listed s a,b" in recorder.words)
        plugin.lists.put_nowait(devices("c"))
        await wait_until(lambda: "listed s c" in recorder.words)
        assert recorder.words == ["connected s", "listed s a,b", "listed s c"]
    assert recorder.words[3:] == ["disconnected s"]


async def test_allocate_passes_ids_and_answer_unchanged(tmp_path: Path) -> None:
    answer = ContainerAllocateResponse(envs={"A": "b"}, annotations={"c": "d"})
    plugin = Plugin(answer=AllocateResponse(container_responses=[answer]))
    async with connected(plugin, tmp_path / "s") as endpoint:
        assert await endpoint.allocate(["b", "a"]) == answer
    wanted = AllocateRequest(container_requests=[ContainerAllocateRequest(devices_ids=["b", "a"])])
    assert plugin.requests[-1] == wanted


async def test_an_answer_for_no_container_is_the_plugin_s_fault(tmp_path: Path) -> None:
    plugin = Plugin(answer=AllocateResponse())
    async with connected(plugin, tmp_path / "s") as endpoint:
        with pytest.raises(ProtocolError, match=r"^no containers return in allocation response"):
            await endpoint.allocate(["a"])


async def test_preferred_passes_what_is_asked(tmp_path: Path) -> None:
    plugin = Plugin(options=DevicePluginOptions(get_preferred_allocation_available=True))
    async with connected(plugin, tmp_path / "s") as endpoint:
        assert endpoint.options.get_preferred_allocation_available
        assert not endpoint.options.pre_start_required
        assert await endpoint.preferred(["a", "b", "c"], ["a"], 2) == ("a", "b")
    asked = ContainerPreferredAllocationRequest(
        available_deviceIDs=["a", "b", "c"], must_include_deviceIDs=["a"], allocation_size=2
    )
    assert plugin.requests[-1] == PreferredAllocationRequest(container_requests=[asked])


async def test_pre_start_passes_the_ids(tmp_path: Path) -> None:
    plugin = Plugin()
    async with connected(plugin, tmp_path / "s") as endpoint:
        await endpoint.pre_start(["a", "b"])
    assert plugin.requests[-1] == PreStartContainerRequest(devices_ids=["a", "b"])


async def test_errors_have_a_go_client_s_words(tmp_path: Path) -> None:
    plugin = Plugin()
    async with connected(plugin, tmp_path / "s") as endpoint:
        plugin.fault = HardwareError("no tape in drive")
        with pytest.raises(HardwareError) as caught:
            await endpoint.allocate(["a"])
    assert str(caught.value) == "rpc error: code = FailedPrecondition desc = no tape in drive"


async def test_a_call_that_hangs_ends_in_time(tmp_path: Path) -> None:
    plugin = Plugin(hang="pre_start")
    async with connected(plugin, tmp_path / "s", timeouts=Timeouts(pre_start=0.2)) as endpoint:
        with pytest.raises(UnavailableError) as caught:
            await endpoint.pre_start(["a"])
        await endpoint.allocate(["a"])
    assert str(caught.value) == "rpc error: code = DeadlineExceeded desc = context deadline exceeded"


def test_a_plugin_gets_as_long_as_a_kubelet_gives_it() -> None:
    assert DEFAULT_TIMEOUTS.dial == 10
    assert DEFAULT_TIMEOUTS.pre_start == 30
    assert DEFAULT_TIMEOUTS.call >= 60


async def test_a_call_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    plugin = Plugin(hang="allocate")
    async with connected(plugin, tmp_path / "s") as endpoint, asyncio.TaskGroup() as group:
        hanging = group.create_task(endpoint.allocate(["a"]))
        await wait_until(lambda: "allocate" in plugin.calls)
        await endpoint.pre_start(["b"])
        assert not hanging.done()
        plugin.allocating.set()


async def test_closing_gives_up_what_hangs_and_refuses_the_rest(tmp_path: Path) -> None:
    plugin = Plugin(hang="allocate")
    stopped = f"endpoint {RESOURCE} at {tmp_path / 's'} has been stopped"

    async def fails(endpoint: PluginEndpoint) -> None:
        with pytest.raises(UnavailableError) as caught:
            await endpoint.allocate(["a"])
        assert str(caught.value) == stopped

    async with connected(plugin, tmp_path / "s") as endpoint, asyncio.TaskGroup() as group:
        group.create_task(fails(endpoint))
        await wait_until(lambda: "allocate" in plugin.calls)
        await endpoint.close()
        await endpoint.close()
        for call in (endpoint.allocate(["a"]), endpoint.preferred([], [], 1), endpoint.pre_start(["a"])):
            with pytest.raises(UnavailableError) as caught:
                await call
            assert str(caught.value) == stopped


async def test_a_flood_of_lists_ends_with_the_newest(tmp_path: Path) -> None:
    plugin, recorder = Plugin(), Recorder()
    number = 3000
    for one in range(number):
        plugin.lists.put_nowait(devices(f"d{one}"))
    async with connected(plugin, tmp_path / "s", recorder) as endpoint:
        await endpoint.allocate(["a"])
        assert f"listed s d{number - 1}" not in recorder.words
        await wait_until(lambda: f"listed s d{number - 1}" in recorder.words)
    assert len(recorder.words) < number / 10


async def test_an_endless_flood_leaves_time_for_others(tmp_path: Path) -> None:
    class Endless(Plugin):
        async def list_and_watch(self, request):  # type: ignore[no-untyped-def]
            while True:
                yield devices(*(str(one) for one in range(100)))

    async with (
        connected(Endless(), tmp_path / "endless"),
        connected(Plugin(), tmp_path / "calm") as calm,
    ):
        async with asyncio.timeout(PATIENCE):
            for _ in range(20):
                await calm.allocate(["a"])


async def test_a_list_beyond_a_kubelet_s_limit_is_taken(tmp_path: Path) -> None:
    names = [f"{number:0100d}" for number in range(80_000)]
    message = devices(*names)
    assert message.ByteSize() > 8 * MIB
    recorder = Recorder()
    async with connected(Plugin(first=message), tmp_path / "s", recorder):
        await wait_until(lambda: len(recorder.newest.get(RESOURCE, ())) == len(names))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Plugin(first=devices("x" * (LIMITS.receive + 1))), "code = ResourceExhausted"),
        (lambda: RawLists(b"\x0a\x02\xff\xfe"), "code = Internal"),
        (lambda: RawLists(b"\xff\xff\xff"), "code = Internal"),
    ],
    ids=["too large", "no text", "no message"],
)
async def test_a_list_that_cannot_be_read_ends_that_plugin_only(
    tmp_path: Path, make: Callable[[], Plugin], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()
    async with (
        connected(make(), tmp_path / "bad", recorder) as bad,
        connected(Plugin(), tmp_path / "good") as good,
    ):
        await wait_until(lambda: "disconnected bad" in recorder.words)
        await good.allocate(["a"])
        with pytest.raises(Error, match="has been stopped"):
            await bad.allocate(["a"])
    assert recorder.words == ["connected bad", "disconnected bad"]
    (lost,) = [record for record in caplog.records if record.message == "device plugin lost"]
    assert reason in str(vars(lost)["fields"]["reason"])


async def test_odd_lists_are_told_once_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plugin, recorder = Plugin(first=devices("", "a", "a")), Recorder()
    async with connected(plugin, tmp_path / "s", recorder):
        await wait_until(lambda: "listed s a" in recorder.words)
        plugin.lists.put_nowait(devices("", "b", "b"))
        await wait_until(lambda: "listed s b" in recorder.words)
    faults = [vars(one)["fields"]["fault"] for one in caplog.records if one.message == "odd device list"]
    assert faults == ["1 devices without an id", "1 ids listed again"]
