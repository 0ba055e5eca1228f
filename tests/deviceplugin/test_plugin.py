from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dray.cdi.edits import ContainerEdits, Mount
from dray.deviceplugin.metrics import PluginMetrics
from dray.deviceplugin.plugin import CarryOut, Offer, ResourcePlugin
from dray.drivers.contract import Device, Health, Prepared
from dray.errors import ConflictError, HardwareError, InvalidError
from dray.inventory.inventory import InventoryFeed
from dray.runtime.metrics import Metrics
from dray.wire.connect import connect
from dray.wire.deviceplugin import DevicePluginClient, DevicePluginService
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    ContainerAllocateRequest,
    ContainerPreferredAllocationRequest,
    Empty,
    PreferredAllocationRequest,
    PreStartContainerRequest,
)
from dray.wire.serve import serve
from tests.deviceplugin.conftest import TapeDriver, tape
from tests.waiting import PATIENCE


def made(
    devices: Sequence[Device], driver: TapeDriver | None = None
) -> tuple[ResourcePlugin, list[Prepared]]:
    done: list[Prepared] = []

    async def carry_out(prepared: Prepared) -> ContainerEdits:
        if "/dev/tape13" in prepared.required:
            raise HardwareError("/dev/tape13 does not exist any more")
        done.append(prepared)
        return prepared.edits

    feed = InventoryFeed()
    feed.publish(devices)
    return ResourcePlugin(
        Offer("example.com/tape", driver or TapeDriver(), "tape.sock"), feed, carry_out
    ), done


def asked(*containers: Sequence[str]) -> AllocateRequest:
    return AllocateRequest(
        container_requests=[ContainerAllocateRequest(devices_ids=ids) for ids in containers]
    )


async def test_each_container_gets_its_own_answer() -> None:
    plugin, done = made([tape(1), tape(2), tape(3)])
    answer = await plugin.allocate(asked(["tape1", "tape2"], ["tape3"]))
    assert [dict(one.envs) for one in answer.container_responses] == [
        {"TAPES": "tape1,tape2"},
        {"TAPES": "tape3"},
    ]
    assert [[spec.host_path for spec in one.devices] for one in answer.container_responses] == [
        ["/dev/tape1", "/dev/tape2"],
        ["/dev/tape3"],
    ]
    assert [prepared.required for prepared in done] == [("/dev/tape1", "/dev/tape2"), ("/dev/tape3",)]


async def test_several_shares_of_one_device_are_it_once() -> None:
    shared = Device("drum", "tape", "example.com/tape", Health.HEALTHY, paths=("/dev/drum",), shares=4)
    plugin, _ = made([shared])
    answer = await plugin.allocate(asked(["drum1", "drum3"]))
    assert dict(answer.container_responses[0].envs) == {"TAPES": "drum"}


async def test_a_second_share_is_refused_where_it_gives_no_more() -> None:
    device = Device("drum", "tape", "example.com/tape", Health.HEALTHY, shares=4)
    plugin, done = made([replace(device, share_join="::", one_share=True)])
    with pytest.raises(InvalidError, match=r"2 of example.com/tape were asked for.*ask for 1"):
        await plugin.allocate(asked(["drum::0", "drum::3"]))
    assert not done
    await plugin.allocate(asked(["drum::0"], ["drum::3"]))


async def test_what_the_host_refuses_fails_the_call() -> None:
    plugin, _ = made([tape(13)])
    with pytest.raises(HardwareError, match="tape13"):
        await plugin.allocate(asked(["tape13"]))


async def test_an_unhealthy_device_is_refused_with_its_reason() -> None:
    sick = replace(tape(2, Health.UNHEALTHY), reason="/dev/tape2 does not exist")
    plugin, done = made([tape(1), sick])
    with pytest.raises(HardwareError, match="/dev/tape2 does not exist"):
        await plugin.allocate(asked(["tape1", "tape2"]))
    assert not done


async def test_the_host_is_not_touched_when_one_container_cannot_be_prepared() -> None:
    plugin, done = made([tape(1), replace(tape(2, Health.UNHEALTHY), reason="the drive reports an error")])
    with pytest.raises(
        HardwareError, match=r"tape2 of example.com/tape is not healthy: the drive reports an error"
    ):
        await plugin.allocate(asked(["tape1"], ["tape2"]))
    assert done == []


async def test_asked_for_nothing_gives_nothing() -> None:
    plugin, done = made([tape(1)])
    answer = await plugin.allocate(asked([], ["tape1"]))
    assert [dict(one.envs) for one in answer.container_responses] == [{}, {"TAPES": "tape1"}]
    assert len(done) == 1
    assert not (await plugin.allocate(AllocateRequest())).container_responses


async def test_what_carrying_out_added_is_answered() -> None:
    async def with_mount(prepared: Prepared) -> ContainerEdits:
        return ContainerEdits(
            prepared.edits.env, prepared.edits.device_nodes, (Mount("/run/one-shot.sock", "/run/fd.sock"),)
        )

    feed = InventoryFeed()
    feed.publish([tape(1)])
    plugin = ResourcePlugin(Offer("example.com/tape", TapeDriver(), "tape.sock"), feed, with_mount)
    (answer,) = (await plugin.allocate(asked(["tape1"]))).container_responses
    assert [(mount.host_path, mount.container_path) for mount in answer.mounts] == [
        ("/run/one-shot.sock", "/run/fd.sock")
    ]
    assert dict(answer.envs) == {"TAPES": "tape1"}


async def test_a_caller_that_gives_up_stops_the_work(tmp_path: Path) -> None:
    """Over a real socket: what runs is cancelled, the next call works, and each is counted."""
    began, ended = asyncio.Event(), asyncio.Event()

    async def for_ever(prepared: Prepared) -> ContainerEdits:
        if "/dev/tape1" not in prepared.required:
            return prepared.edits
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return prepared.edits

    feed, metrics = InventoryFeed(), Metrics()
    feed.publish([tape(1), tape(2)])
    counted = PluginMetrics(metrics).of("example.com/tape")
    plugin = ResourcePlugin(Offer("example.com/tape", TapeDriver(), "tape.sock"), feed, for_ever, counted)
    async with (
        serve(tmp_path / "tape.sock", [DevicePluginService(plugin)]),
        connect(tmp_path / "tape.sock") as channel,
        asyncio.timeout(PATIENCE),
    ):
        client = DevicePluginClient(channel)
        call = asyncio.ensure_future(client.allocate(asked(["tape1"]), timeout=PATIENCE))
        await began.wait()
        call.cancel()
        await ended.wait()
        await client.allocate(asked(["tape2"]))
        with pytest.raises(HardwareError):
            feed.publish([tape(1), tape(2, Health.UNHEALTHY)])
            await client.allocate(asked(["tape2"]))
    text = metrics.render().decode()
    for result in ("success", "error", "cancelled"):
        assert (
            f'dray_deviceplugin_allocations_total{{resource="example.com/tape",result="{result}"}} 1.0\n'
            in text
        )
    assert 'dray_deviceplugin_allocate_seconds_count{resource="example.com/tape"} 3.0\n' in text


async def test_ids_that_are_gone_are_left_to_the_driver() -> None:
    plugin, _ = made([tape(1)])
    answer = await plugin.allocate(asked(["tape1", "tape7"]))
    assert dict(answer.container_responses[0].envs) == {"TAPES": "tape1"}


async def test_preferred_allocation_packs() -> None:
    plugin, _ = made([tape(number, numa_node=number % 2) for number in range(6)])
    request = ContainerPreferredAllocationRequest(
        available_deviceIDs=[f"tape{number}" for number in range(6)],
        must_include_deviceIDs=["tape3"],
        allocation_size=3,
    )
    answer = await plugin.get_preferred_allocation(PreferredAllocationRequest(container_requests=[request]))
    assert list(answer.container_responses[0].deviceIDs) == ["tape3", "tape1", "tape5"]


async def test_pre_start_is_required_only_where_a_driver_has_one() -> None:
    started: list[list[str]] = []

    class Rewinding(TapeDriver):
        async def pre_start(self, resource: str, devices: Sequence[Device]) -> None:
            started.append([device.id for device in devices])

    plain, _ = made([tape(1)])
    rewinding, _ = made([tape(1)], Rewinding())
    assert not (await plain.get_device_plugin_options(Empty())).pre_start_required
    assert (await rewinding.get_device_plugin_options(Empty())).pre_start_required
    await plain.pre_start_container(PreStartContainerRequest(devices_ids=["tape1"]))
    await rewinding.pre_start_container(PreStartContainerRequest(devices_ids=["tape1"]))
    assert started == [["tape1"]]


async def test_what_a_container_gets_is_noted_before_the_host_is_touched() -> None:
    noted: list[tuple[str, list[str]]] = []

    @asynccontextmanager
    async def giving(resource: str, devices: Collection[Device]) -> AsyncIterator[None]:
        assert not done
        noted.append((resource, [device.id for device in devices]))
        yield
        assert len(done) == 2

    done: list[Prepared] = []
    plugin = ResourcePlugin(*_parts_of([tape(1), tape(2)], done), giving=giving)
    await plugin.allocate(asked(["tape1"], [], ["tape2"]))
    assert noted == [("example.com/tape", ["tape1", "tape2"])]
    assert len(done) == 2


async def test_what_a_claim_has_is_refused_and_the_host_not_touched() -> None:
    @asynccontextmanager
    async def giving(resource: str, devices: Collection[Device]) -> AsyncIterator[None]:
        raise ConflictError("device tape1 is in use: claim default/a has it")
        yield

    done: list[Prepared] = []
    plugin = ResourcePlugin(*_parts_of([tape(1)], done), giving=giving)
    with pytest.raises(ConflictError, match="claim default/a"):
        await plugin.allocate(asked(["tape1"]))
    assert done == []


def _parts_of(devices: Sequence[Device], done: list[Prepared]) -> tuple[Offer, InventoryFeed, CarryOut]:
    async def carry_out(prepared: Prepared) -> ContainerEdits:
        done.append(prepared)
        return prepared.edits

    feed = InventoryFeed()
    feed.publish(devices)
    return Offer("example.com/tape", TapeDriver(), "tape.sock"), feed, carry_out
