from __future__ import annotations

from collections.abc import Sequence

import pytest

from dray.deviceplugin.plugin import Offer, ResourcePlugin
from dray.drivers.contract import Device, Health, Prepared
from dray.errors import HardwareError
from dray.inventory.inventory import InventoryFeed
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    ContainerAllocateRequest,
    ContainerPreferredAllocationRequest,
    Empty,
    PreferredAllocationRequest,
    PreStartContainerRequest,
)
from tests.deviceplugin.conftest import TapeDriver, tape


def made(
    devices: Sequence[Device], driver: TapeDriver | None = None
) -> tuple[ResourcePlugin, list[Prepared]]:
    done: list[Prepared] = []

    async def carry_out(prepared: Prepared) -> None:
        if "/dev/tape13" in prepared.required:
            raise HardwareError("/dev/tape13 does not exist any more")
        done.append(prepared)

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


async def test_what_the_host_refuses_fails_the_call() -> None:
    plugin, _ = made([tape(13)])
    with pytest.raises(HardwareError, match="tape13"):
        await plugin.allocate(asked(["tape13"]))


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
