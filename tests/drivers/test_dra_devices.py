"""What the kinds tell DRA: valid in a ResourceSlice, and as docs/reference/dra-devices.md has it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dray.api.field_errors import Path as FieldPath
from dray.api.quantity import Quantity
from dray.api.validation.devices import check_device
from dray.dra.names import driver_name
from dray.dra.slices.view import pool_devices
from dray.drivers.contract import Device, Driver
from dray.drivers.generic import GenericDriver
from dray.drivers.generic.config import GenericConfig, GenericDevice
from dray.drivers.sim import sim_drivers
from dray.drivers.sim.config import SimConfig, SimDevices, SimPartition, SimPolicy
from dray.hardware.host_root import HostRoot
from dray.runtime.clock import FakeClock
from tests.cases import read_rows
from tests.drivers.machine import DRIVERS, build

KINDS = sorted(DRIVERS)
PAGE = Path("docs/reference/dra-devices.md")
COLUMNS = ("kind", "driver", "class", "names", "attributes", "capacities", "parts")
SIM = SimConfig(
    devices=(
        SimDevices(
            name="big",
            count=2,
            resource_name="x.io/big",
            partitions=(SimPartition(profile="1g", count=7, memory=Quantity("10Gi")),),
        ),
        SimDevices(
            name="part",
            resource_name="x.io/part",
            shared={"memory": SimPolicy(default=Quantity("10Gi"), step=Quantity("1Gi"))},
        ),
    )
)


def found(kind: str, path: Path) -> list[Device]:
    """Devices of a kind with all that they can tell."""
    machine = build(path)
    machine.host.usb("1-3", vendor="46f4", product="0001", serial="7", manufacturer="QEMU", name="Disk")
    more: dict[str, Driver] = {
        "generic": GenericDriver(GenericConfig((GenericDevice("null", "/dev/null"),))),
        "sim": sim_drivers(SIM, FakeClock())[0],
    }
    devices = list(DRIVERS[kind].discover(machine.root).devices)
    return devices + (list(more[kind].discover(HostRoot(Path("/"))).devices) if kind in more else [])


def rows() -> dict[str, dict[str, str]]:
    found = [dict(zip(COLUMNS, cells, strict=False)) for cells in read_rows(PAGE)]
    return {row["kind"].strip("`"): row for row in found if len(row) == len(COLUMNS)}


def patterns(cell: str) -> str:
    parts = [re.sub(r"<[^>]+>", ".+", re.escape(one)) for one in re.findall(r"`([^`]+)`", cell)]
    return "|".join(parts)


@pytest.mark.parametrize("kind", KINDS)
def test_devices_are_valid_in_a_slice(kind: str, tmp_path: Path) -> None:
    devices = found(kind, tmp_path)
    shown = pool_devices(devices, driver_name(kind, "dray.internal"))
    assert shown.problems == ()
    assert {one.name for one in shown.items} == {device.name for device in devices}
    assert len(shown.items) == len(devices)
    for one, device in zip(shown.items, sorted(devices, key=lambda one: one.name), strict=True):
        assert check_device(one, None, FieldPath(), has_place=False) == []
        assert one.attributes.keys() >= device.attributes.keys() | device.versions.keys()
        assert one.capacity.keys() >= device.capacity.keys()
        assert device.hardware == device.parts
    per_look = DRIVERS[kind].discover(build(tmp_path / "other").root).devices
    assert len({device.name for device in per_look}) == len(per_look)


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_says_what_a_kind_tells(kind: str, tmp_path: Path) -> None:
    devices, row = found(kind, tmp_path), rows()[kind]
    assert row["driver"] == f"`{driver_name(kind, 'dray.internal')}`"
    assert row["class"].split(", ")[0] == row["driver"]
    types = {bool: "bool", int: "int", str: "string"}
    told = {name: types[type(value)] for device in devices for name, value in device.attributes.items()}
    told |= {name: "version" for device in devices for name in device.versions}
    assert told == dict(re.findall(r"`([^`]+)`: (\w+)", row["attributes"]))
    capacities = {name for device in devices for name in device.capacity}
    assert capacities == set(re.findall(r"`([^`]+)`", row["capacities"]))
    assert [device.name for device in devices if not re.fullmatch(patterns(row["names"]), device.name)] == []
    parts = [part for device in devices for part in device.parts]
    assert [part for part in parts if not re.fullmatch(patterns(row["parts"]), part)] == []


def test_the_page_has_every_kind() -> None:
    assert sorted(rows()) == sorted({*KINDS, "nvidia"})
    assert rows()["nvidia"]["driver"] == f"`{driver_name('nvidia', 'dray.internal')}`"


@pytest.mark.parametrize("kind", KINDS)
def test_exclusive_devices_of_a_kind_have_no_part_in_common(kind: str, tmp_path: Path) -> None:
    devices = DRIVERS[kind].discover(build(tmp_path).root).devices
    parts = [part for device in devices if device.shares is None for part in device.parts]
    assert len(set(parts)) == len(parts)


def test_what_kubevirt_reads(tmp_path: Path) -> None:
    """An instance does not tell its parent's place: a VM would get the whole card."""
    bus_id = "resource.kubernetes.io/pciBusID"
    whole = pool_devices(found("pci", tmp_path / "a"), "pci.dray.internal").items
    assert all(one.attributes[bus_id] == one.attributes["address"] for one in whole)
    slices = pool_devices(found("mdev", tmp_path / "b"), "mdev.dray.internal").items
    assert [one.name for one in slices] == [
        f"mdev-{one.attributes['mdevUUID'].string_value}" for one in slices
    ]
    assert not any(bus_id in one.attributes for one in slices)
