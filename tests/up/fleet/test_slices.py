from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from dray.api.kinds import NODES, RESOURCE_SLICES
from dray.api.resource.slice import ResourceSlice
from dray.client.client import Client
from dray.client.informers import Informers
from dray.drivers.sim.profile import HollowDevices, HollowFault, HollowGroup
from dray.errors import ConflictError
from dray.up.fleet.objects import HollowNode
from dray.up.fleet.profile_file import load_profile
from dray.up.fleet.slices import HollowSlices
from tests.up.fleet.fleet_cluster import server

WHOLE = HollowNode(load_profile("h200x8-mig").groups[0], 0)


def node(driver: str, count: int = 1) -> HollowNode:
    return HollowNode(HollowGroup(name="h200", devices=(HollowDevices(driver=driver, count=count),)), 0)


@asynccontextmanager
async def life(client: Client) -> AsyncIterator[HollowSlices]:
    """From the start of a fleet to its end."""
    informers = Informers(client)
    slices = HollowSlices(client, informers)
    await slices.start()
    async with informers:
        yield slices


async def stored(client: Client) -> tuple[ResourceSlice, ...]:
    return (await client.list(RESOURCE_SLICES)).items


@asynccontextmanager
async def published(directory: Path) -> AsyncIterator[tuple[Client, str]]:
    """A server with all slices of a node, whose uid it gives too."""
    async with server(directory) as client:
        uid = (await client.create(NODES, {"metadata": {"name": WHOLE.name}})).metadata.uid
        async with life(client) as slices:
            await slices.keep(WHOLE, uid)
        yield client, uid


async def test_a_pool_of_several_slices_changes_as_a_whole(tmp_path: Path) -> None:
    async with published(tmp_path) as (client, uid):
        first = await stored(client)
        assert {one.spec.pool.resource_slice_count for one in first} == {len(first)}
        sick = tuple(HollowFault(device=f"gpu-{number}") for number in (0, 7))
        async with life(client) as slices:
            await slices.keep(HollowNode(replace(WHOLE.group, faults=sick), 0), uid)
        second = await stored(client)
        assert [one.metadata.name for one in second] == [one.metadata.name for one in first]
        assert {one.spec.pool.generation for one in second} == {first[0].spec.pool.generation + 1}


async def test_fewer_devices_need_fewer_slices(tmp_path: Path) -> None:
    async with published(tmp_path) as (client, uid), life(client) as slices:
        await slices.keep(node("gpu.nvidia.com", 3), uid)
        (one,) = await stored(client)
        assert [device.name for device in one.spec.devices or ()] == ["gpu-0", "gpu-1", "gpu-2"]


async def test_what_is_right_is_not_written_again(tmp_path: Path) -> None:
    async with published(tmp_path) as (client, uid):
        first = await stored(client)
        async with life(client) as slices:
            assert not slices.is_kept(WHOLE.name, uid)
            await slices.keep(WHOLE, uid)
            assert slices.is_kept(WHOLE.name, uid)
            assert slices.nodes == {WHOLE.name}
        assert await stored(client) == first


async def test_slices_of_a_driver_that_the_node_lost_go(tmp_path: Path) -> None:
    async with published(tmp_path) as (client, uid), life(client) as slices:
        await slices.keep(node("other.example.com"), uid)
        assert [one.spec.driver for one in await stored(client)] == ["other.example.com"]


async def test_one_that_others_deleted_meanwhile_is_a_conflict_and_then_made_again(tmp_path: Path) -> None:
    async with published(tmp_path) as (client, uid):
        again = HollowSlices(client, informers := Informers(client))
        await again.start()
        for one in await stored(client):
            await client.delete(RESOURCE_SLICES, one.metadata.name)
        async with informers:
            with pytest.raises(ConflictError):
                await again.keep(node("gpu.nvidia.com"), uid)
            await again.keep(node("gpu.nvidia.com"), uid)
            assert len(await stored(client)) == 1


async def test_all_are_removed(tmp_path: Path) -> None:
    async with published(tmp_path) as (client, _), life(client) as slices:
        await slices.remove(WHOLE.name)
        await slices.remove(WHOLE.name)
        assert await stored(client) == ()
