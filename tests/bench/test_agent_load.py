from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.bench.agent_load import load
from dray.errors import HardwareError, ProtocolError
from dray.wire.deviceplugin import DevicePluginService
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateResponse,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
)
from dray.wire.serve import serve


class Counting:
    """Allocates everything but `broken`, and remembers what was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def get_device_plugin_options(self, request: Empty) -> DevicePluginOptions:
        return DevicePluginOptions()

    async def list_and_watch(self, request: Empty) -> AsyncIterator[ListAndWatchResponse]:
        yield ListAndWatchResponse()

    async def get_preferred_allocation(
        self, request: PreferredAllocationRequest
    ) -> PreferredAllocationResponse:
        return PreferredAllocationResponse()

    async def allocate(self, request: AllocateRequest) -> AllocateResponse:
        (container,) = request.container_requests
        self.asked += container.devices_ids
        if "broken" in container.devices_ids:
            raise HardwareError("it is broken", device="broken")
        return AllocateResponse(container_responses=[ContainerAllocateResponse()])

    async def pre_start_container(self, request: PreStartContainerRequest) -> PreStartContainerResponse:
        return PreStartContainerResponse()


async def test_every_call_reaches_the_plugin_and_is_timed(tmp_path: Path) -> None:
    plugin = Counting()
    async with serve(tmp_path / "plugin.sock", [DevicePluginService(plugin)]):
        done = await load(None, tmp_path / "plugin.sock", ["a", "b", "c"], calls=10, clients=4)
    assert sorted(plugin.asked) == sorted("abcabcabca")
    assert len(done.calls) == 10
    assert 0 < max(done.calls) <= done.whole


async def test_a_call_that_fails_fails_the_measurement(tmp_path: Path) -> None:
    async with serve(tmp_path / "plugin.sock", [DevicePluginService(Counting())]):
        with pytest.raises(ProtocolError, match="it is broken"):
            await load(None, tmp_path / "plugin.sock", ["broken"], calls=1, clients=1)
