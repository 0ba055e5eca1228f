"""The agent's configuration that is made from what a machine has."""

from __future__ import annotations

from pathlib import Path

from dray.agent.config import load_agent_config, served
from dray.agent.discovery import discover
from dray.drivers.contract import Device, Health
from dray.inventory.doors import Offered
from dray.up.config import machine_config, usable_config
from tests.drivers.machine import build


def test_a_machine_with_something_of_every_kind(tmp_path: Path) -> None:
    machine = build(tmp_path / "host")
    found = discover(str(machine.host.root)).devices
    kinds = {one.kind for one in found}
    assert {"generic", "pci", "usb", "mdev"} <= kinds
    text = machine_config(found)
    assert text == machine_config(reversed(found))
    now = served(load_agent_config(text, "config.yaml"))
    assert {rule.address for rule in now.pci} == {
        str(one.attributes["address"]) for one in found if one.kind == "pci"
    }
    assert {rule.port for rule in now.usb} == {
        str(one.attributes["ports"]) for one in found if one.kind == "usb"
    }
    assert now.mdevs and not now.mdev_types.managed, (
        "mediated devices are offered, and none is made or removed"
    )
    for kind in ("pci", "usb", "mdev"):
        assert now.door_of(kind, "any") is Offered.DRA
    assert now.door_of("generic", "devices.kubevirt.io/kvm") is Offered.PLUGIN
    assert "devices.kubevirt.io/tun" in now.resources


def test_a_machine_without_anything_serves_the_permanent_devices() -> None:
    now = served(load_agent_config(machine_config([]), "config.yaml"))
    assert set(now.resources) >= {"devices.kubevirt.io/kvm", "devices.kubevirt.io/vhost-net"}
    assert not now.pci and not now.usb and not now.mdevs and now.nvidia is None


def test_gpus_and_simulated_devices() -> None:
    gpu = Device("GPU-1", "nvidia", "nvidia.com/gpu", Health.HEALTHY)
    sim = {"devices": [{"name": "gpu", "count": 2}, {"name": "old", "resourceName": "example.com/gpu"}]}
    now = served(load_agent_config(machine_config([gpu], sim), "config.yaml"))
    assert now.nvidia is not None and now.door_of("nvidia", "nvidia.com/gpu") is Offered.DRA
    assert [one.resource_name for one in now.sim.devices] == ["dray.internal/sim-gpu", "example.com/gpu"]
    assert now.door_of("sim", "dray.internal/sim-gpu") is Offered.DRA
    assert now.door_of("sim", "example.com/gpu") is Offered.PLUGIN


def test_names_that_no_resource_may_have_are_left_out() -> None:
    odd = Device(
        "1",
        "mdev",
        "",
        Health.HEALTHY,
        attributes={"type": "///", "typeId": "x", "mdevUUID": "u", "parent": "p"},
    )
    good = Device("2", "mdev", "", Health.HEALTHY, attributes={"type": "GRID T4-1Q", "typeId": "nvidia-222"})
    now = served(load_agent_config(machine_config([odd, good]), "config.yaml"))
    assert [rule.resource for rule in now.mdevs] == ["dray.internal/GRID-T4-1Q"]


def test_a_device_that_no_configuration_can_name_does_not_keep_the_others_from_starting() -> None:
    odd = Device(
        "1", "pci", "", Health.HEALTHY, attributes={"address": "nowhere", "vendor": "10de", "device": "2330"}
    )
    good = Device(
        "2",
        "pci",
        "",
        Health.HEALTHY,
        attributes={"address": "10000:e1:00.0", "vendor": "8086", "device": "0a54"},
    )
    assert usable_config([good]) == machine_config([good])
    sim = {"devices": [{"name": "gpu"}]}
    assert usable_config([odd, good], sim) == machine_config([], sim)
