from __future__ import annotations

import pytest

from dray.agent import kinds
from dray.agent.config import DraSettings, Served, load_agent_config, served
from dray.agent.config.doors import KINDS, door_of
from dray.inventory.doors import Offered
from dray.runtime.clock import FakeClock

TEXT = """
developerConfiguration: {featureGates: [IOMMUFD]}
permittedHostDevices:
  pciHostDevices:
  - {pciVendorSelector: "10DE:1EB8", resourceName: a.com/t4}
  - {pciVendorSelector: "10DE:2330", resourceName: a.com/h200, externalResourceProvider: true}
dray:
  domain: example.com
  doors:
    "*": both
    pci: dra
    a.com/t4: plugin
  dra: {metadata: false, createClasses: false}
  sim: {devices: [{name: gpu}]}
"""


def test_the_resource_goes_before_the_kind_and_the_kind_before_everything() -> None:
    result = served(load_agent_config(TEXT, "x"))
    assert result.door_of("pci", "a.com/t4") is Offered.PLUGIN
    assert result.door_of("pci", "a.com/other") is Offered.DRA
    assert result.door_of("pci", "") is Offered.DRA
    assert result.door_of("usb", "a.com/stick") is Offered.BOTH
    assert (result.domain, result.dra) == ("example.com", DraSettings(metadata=False, create_classes=False))


def test_without_a_word_everything_is_a_device_plugin() -> None:
    result = served(load_agent_config("{}", "x"))
    assert result.door_of("pci", "a.com/t4") is Offered.PLUGIN
    assert (result.domain, result.dra) == ("dray.internal", DraSettings(metadata=True, create_classes=True))
    assert Served().door_of("sim", "") is Offered.PLUGIN


def test_no_resource_is_no_key() -> None:
    assert door_of({"": Offered.DRA}, "pci", "") is Offered.PLUGIN


def test_moving_a_resource_is_another_value() -> None:
    one, other = (
        served(load_agent_config(f"dray: {{doors: {{a.com/x: {door}}}}}", "x")) for door in ("dra", "both")
    )
    assert one != other
    assert one == served(load_agent_config("dray: {doors: {'a.com/x': 'dra'}}", "y"))


@pytest.mark.parametrize(
    ("key", "is_noted"),
    [
        ("'*'", False),
        ("usb", False),
        ("a.com/t4", False),
        ("example.com/sim-gpu", False),
        ("devices.kubevirt.io/kvm", False),
        ("devices.kubevirt.io/iommufd", False),
        ("a.com/h200", True),
        ("a.com/t5", True),
        ("gpus", True),
        ("devices.kubevirt.io/pr-helper", True),
    ],
)
def test_an_entry_for_nothing_is_noted_not_refused(key: str, is_noted: bool) -> None:
    config = load_agent_config(TEXT.replace("a.com/t4: plugin", f"{key}: both").replace('"*": both', ""), "x")
    name = key.strip("'")
    text = f"dray.doors[{name}] concerns nothing: no kind or resource of that name is served"
    assert config.notes == ((text,) if is_noted else ())


def test_beside_kubevirt_its_own_devices_are_not_served() -> None:
    text = "dray: {role: beside-kubevirt, doors: {devices.kubevirt.io/kvm: dra}}"
    assert len(load_agent_config(text, "x").notes) == 1


def test_all_kinds_are_known() -> None:
    everything = "developerConfiguration: {featureGates: [IOMMUFD, PersistentReservation]}\ndray: {sim: {devices: [{name: gpu}]}}"
    made = kinds.Kinds(FakeClock()).drivers(served(load_agent_config(everything, "x")), everything=True)
    assert {driver.kind for driver in made} <= set(KINDS)
