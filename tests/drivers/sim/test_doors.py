"""Simulated devices through the device plugin's door, over a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dray.cdi.edits import ContainerEdits
from dray.deviceplugin.plugin import Offer, ResourcePlugin
from dray.drivers.contract import Prepared
from dray.drivers.sim import SimDriver, sim_drivers
from dray.drivers.sim.config import SimConfig, SimDevices, SimPreStart
from dray.errors import Error, HardwareError, UnavailableError
from dray.hardware.host_root import HostRoot
from dray.inventory.inventory import InventoryFeed
from dray.runtime.clock import SystemClock
from dray.wire.connect import connect
from dray.wire.deviceplugin import DevicePluginClient, DevicePluginService
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    ContainerAllocateRequest,
    Empty,
    PreStartContainerRequest,
)
from dray.wire.serve import serve
from tests.waiting import PATIENCE

GPU = "x.io/gpu"


async def carry_out(prepared: Prepared) -> ContainerEdits:
    return prepared.edits


@asynccontextmanager
async def served(directory: Path, driver: SimDriver) -> AsyncIterator[DevicePluginClient]:
    feed = InventoryFeed()
    feed.publish(driver.discover(HostRoot(Path("/"))).devices)
    socket = directory / "sim.sock"
    plugin = ResourcePlugin(Offer(GPU, driver, socket.name), feed, carry_out)
    async with serve(socket, [DevicePluginService(plugin)]), connect(socket, timeout=PATIENCE) as channel:
        yield DevicePluginClient(channel)


def driver_with(script: SimPreStart | None) -> SimDriver:
    entry = SimDevices(name="gpu", count=2, resource_name=GPU, shares=2, pre_start=script)
    (driver,) = sim_drivers(SimConfig(devices=(entry,)), SystemClock())
    return driver


async def test_list_and_allocate(tmp_path: Path) -> None:
    async with served(tmp_path, driver_with(None)) as client:
        options = await client.get_device_plugin_options(Empty())
        assert not options.pre_start_required
        async with client.list_and_watch(Empty()) as answers:
            first = await anext(aiter(answers))
        assert [device.ID for device in first.devices] == ["gpu-0-0", "gpu-0-1", "gpu-1-0", "gpu-1-1"]
        asked = ContainerAllocateRequest(devices_ids=["gpu-1-0"])
        answer = (await client.allocate(AllocateRequest(container_requests=[asked]))).container_responses[0]
        assert dict(answer.envs) == {"SIM_RESOURCE_X_IO_GPU": "gpu-1"}
        nodes = [(spec.host_path, spec.container_path, spec.permissions) for spec in answer.devices]
        assert nodes == [("/dev/null", "/dev/dray-sim/gpu-1", "rw")]


async def test_a_hang_ends_with_the_callers_patience_and_a_failure_has_its_text(tmp_path: Path) -> None:
    hanging = driver_with(SimPreStart(action="hang", times=1))
    request = PreStartContainerRequest(devices_ids=["gpu-0-0"])
    async with served(tmp_path, hanging) as client:
        assert (await client.get_device_plugin_options(Empty())).pre_start_required
        with pytest.raises(UnavailableError):
            await client.pre_start_container(request, timeout=0.5)
        await client.pre_start_container(request)
    async with served(tmp_path, driver_with(SimPreStart(action="fail"))) as client:
        with pytest.raises(Error, match="simulated failure to reset gpu-0") as caught:
            await client.pre_start_container(request)
        assert isinstance(caught.value, HardwareError)
