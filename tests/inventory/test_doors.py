from __future__ import annotations

from dataclasses import replace

import pytest

from dray.api.taints import DeviceTaint
from dray.drivers.contract import Device, Health
from dray.inventory.doors import DoorOf, Offered, dra_view, offers, plugin_view, ways
from dray.inventory.inventory import Inventory
from dray.inventory.ledger import Door, KubeletLook, Ledger
from tests.inventory.conftest import claim, gpu

RESOURCE = "example.com/gpu"


def through(offered: Offered) -> DoorOf:
    return lambda kind, resource: offered


BOTH = through(Offered.BOTH)


def driver_of(kind: str) -> str:
    return f"{kind}.example.com"


def inventory(*devices: Device) -> Inventory:
    return Inventory(1, devices)


def health(devices: tuple[Device, ...]) -> dict[str, str]:
    return {device.id: device.reason or device.health.value for device in devices}


def taints(devices: tuple[Device, ...]) -> dict[str, list[str]]:
    return {device.id: [f"{one.key}={one.value}:{one.effect}" for one in device.taints] for device in devices}


@pytest.mark.parametrize(
    ("choice", "plugin", "dra"),
    [(Offered.PLUGIN, 1, 0), (Offered.DRA, 0, 1), (Offered.BOTH, 1, 1)],
)
def test_a_door_shows_what_is_offered_there(choice: Offered, plugin: int, dra: int) -> None:
    here = inventory(gpu(1))
    assert len(plugin_view(offers(here, through(choice))[Door.PLUGIN], ())) == plugin
    assert len(dra_view(offers(here, through(choice))[Door.DRA], (), driver_of)) == dra


def test_kind_and_resource_decide() -> None:
    asked: list[tuple[str, str]] = []

    def door_of(kind: str, resource: str) -> Offered:
        asked.append((kind, resource))
        return Offered.DRA if kind == "nic" else Offered.PLUGIN

    here = inventory(gpu(1), gpu(2, "nic"))
    assert [device.id for device in offers(here, door_of)[Door.DRA]] == ["nic-2"]
    assert asked == [("gpu", "example.com/gpu"), ("nic", "example.com/nic")]


def test_a_device_without_a_resource_is_for_claims_only() -> None:
    here = inventory(replace(gpu(1), resource=""))
    assert plugin_view(offers(here, BOTH)[Door.PLUGIN], ()) == ()
    assert len(dra_view(offers(here, BOTH)[Door.DRA], (), driver_of)) == 1


def test_what_a_claim_has_is_unhealthy_for_plugins_from_its_allocation_on() -> None:
    ledger = Ledger()
    ledger.allocated([claim("a", gpu(1))], 0.0)
    here = inventory(gpu(1), gpu(2))
    assert health(plugin_view(offers(here, BOTH)[Door.PLUGIN], ledger.holds)) == {
        "gpu-1": "claim default/a has it",
        "gpu-2": "Healthy",
    }
    assert dra_view(offers(here, BOTH)[Door.DRA], ledger.holds, driver_of) == here.devices
    ledger.take_claim(claim("a", gpu(1)), 0.0)
    assert (
        health(plugin_view(offers(here, BOTH)[Door.PLUGIN], ledger.holds))["gpu-1"]
        == "claim default/a has it"
    )


def test_what_is_wrong_with_a_device_says_more_than_who_has_it() -> None:
    ledger = Ledger()
    ledger.allocated([claim("a", gpu(1))], 0.0)
    sick = replace(gpu(1), health=Health.UNHEALTHY, reason="XID 79")
    assert health(plugin_view(offers(inventory(sick), BOTH)[Door.PLUGIN], ledger.holds)) == {
        "gpu-1": "XID 79"
    }


def test_what_a_pod_has_is_tainted_for_claims() -> None:
    ledger = Ledger()
    ledger.answered(ledger.take_plugin(RESOURCE, [gpu(1)], 0.0), 0.0)
    here = inventory(gpu(1), gpu(2))
    assert taints(dra_view(offers(here, BOTH)[Door.DRA], ledger.holds, driver_of)) == {
        "gpu-1": ["gpu.example.com/held-by-plugin=:NoSchedule"],
        "gpu-2": [],
    }
    assert plugin_view(offers(here, BOTH)[Door.PLUGIN], ledger.holds) == here.devices
    ledger.looked(KubeletLook(1.0, {(RESOURCE, "gpu-1"): ("ns/web-0",)}), here.devices, 0.0)
    assert taints(dra_view(offers(here, BOTH)[Door.DRA], ledger.holds, driver_of))["gpu-1"] == [
        "gpu.example.com/held-by-plugin=web-0:NoSchedule"
    ]


def test_a_name_that_does_not_fit_is_left_out_and_other_taints_stay() -> None:
    ledger = Ledger()
    worn = replace(gpu(1), taints=(DeviceTaint(key="worn", effect="NoSchedule"),))
    ledger.looked(KubeletLook(1.0, {(RESOURCE, "gpu-1"): ("ns/" + "x" * 64,)}), [worn], 0.0)
    assert taints(dra_view(offers(inventory(worn), BOTH)[Door.DRA], ledger.holds, driver_of))["gpu-1"] == [
        "worn=:NoSchedule",
        "gpu.example.com/held-by-plugin=:NoSchedule",
    ]


def test_hardware_that_two_kinds_offer() -> None:
    ledger = Ledger()
    ledger.take_claim(claim("a", gpu(1)), 0.0)
    ledger.take_plugin(RESOURCE, [gpu(2)], 0.0)
    here = inventory(gpu(1), gpu(2), gpu(1, "vfio"), gpu(2, "vfio"))
    assert taints(dra_view(offers(here, BOTH)[Door.DRA], ledger.holds, driver_of)) == {
        "gpu-1": [],
        "gpu-2": ["gpu.example.com/held-by-plugin=:NoSchedule"],
        "vfio-1": ["vfio.example.com/held-by-claim=a:NoSchedule"],
        "vfio-2": ["vfio.example.com/held-by-plugin=:NoSchedule"],
    }
    assert health(plugin_view(offers(here, BOTH)[Door.PLUGIN], ledger.holds)) == {
        "gpu-1": "claim default/a has it",
        "gpu-2": "Healthy",
        "vfio-1": "claim default/a has it",
        "vfio-2": "a new pod has it",
    }


def test_a_shared_device_is_everybodys() -> None:
    shared = gpu(1, shares=4)
    ledger = Ledger()
    ledger.take_plugin(RESOURCE, [gpu(1)], 0.0)
    assert dra_view(offers(inventory(shared), BOTH)[Door.DRA], ledger.holds, driver_of) == (shared,)
    assert ways(offers(inventory(shared), BOTH)) == {}


def test_the_ways_in_which_hardware_is_given_away() -> None:
    here = inventory(gpu(1), gpu(1, "vfio"), gpu(2))
    mixed: DoorOf = lambda kind, resource: Offered.DRA if kind == "vfio" else Offered.BOTH  # noqa: E731
    assert ways(offers(here, mixed)) == {
        "pci:0000:01:00.0": {(Door.PLUGIN, "gpu"), (Door.DRA, "gpu"), (Door.DRA, "vfio")},
        "pci:0000:02:00.0": {(Door.PLUGIN, "gpu"), (Door.DRA, "gpu")},
    }
