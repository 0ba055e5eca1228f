from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

from dray.kubelet.devices.known import Device
from dray.kubelet.node.resources import DeviceCapacity
from dray.kubelet.plugins.endpoint import PluginEndpoint
from dray.kubelet.views import DevicesSeen
from tests.kubelet.devices.small_node import RESOURCE, SmallNode, SmallPlugin


async def test_a_resource_that_was_given_up_stays_named_until_it_is_back(tmp_path: Path) -> None:
    node = SmallNode(tmp_path)
    seen, plugin = DevicesSeen(node.manager), cast("PluginEndpoint", SmallPlugin())
    seen.connected(RESOURCE, plugin)
    seen.listed(RESOURCE, [Device("d1", is_healthy=True)], plugin)
    assert seen.capacity() == DeviceCapacity({RESOURCE: 1}, {RESOURCE: 1})
    seen.disconnected(RESOURCE, plugin)
    await node.clock.advance(301)
    for _ in range(2):
        assert seen.capacity() == DeviceCapacity(deleted=(RESOURCE,))
    seen.connected(RESOURCE, plugin)
    seen.listed(RESOURCE, [Device("d1", is_healthy=True)], plugin)
    assert seen.capacity() == DeviceCapacity({RESOURCE: 1}, {RESOURCE: 1})


async def test_whoever_waits_hears_of_each_change_once(tmp_path: Path) -> None:
    seen, plugin = DevicesSeen(SmallNode(tmp_path).manager), cast("PluginEndpoint", SmallPlugin())
    seen.connected(RESOURCE, plugin)
    seen.disconnected(RESOURCE, plugin)
    await asyncio.wait_for(seen.wait(), 60)
    waiting = asyncio.ensure_future(seen.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    seen.connected(RESOURCE, plugin)
    await asyncio.wait_for(waiting, 60)
