from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from dray.api import names
from dray.api.quantity import Quantity
from dray.api.resource.slice import DeviceCapacity
from dray.drivers.contract import Device, Health
from dray.drivers.sim import sim_drivers
from dray.drivers.sim.config import SimConfig, SimDevices, SimFault, SimPreStart
from dray.hardware.host_root import HostRoot
from dray.runtime.clock import FakeClock, SystemClock
from dray.testing.host import Host


def entry(name: str = "gpu", shape: str = "gpu", count: int = 8, **fields: object) -> SimDevices:
    given = {"name": name, "shape": shape, "count": count, "resource_name": f"a.com/{name}", **fields}
    return SimDevices(**given)  # type: ignore[arg-type]


@pytest.fixture
def root(tmp_path: Path) -> HostRoot:
    Host(tmp_path).char_device("/dev/null", 1, 3)
    return HostRoot(tmp_path)


def found(root: HostRoot, *entries: SimDevices) -> tuple[Device, ...]:
    (driver,) = sim_drivers(SimConfig(devices=entries), FakeClock())
    return driver.discover(root).devices


def test_on_this_very_machine() -> None:
    (driver,) = sim_drivers(SimConfig(devices=(entry(),)), SystemClock())
    look = driver.discover(HostRoot(Path("/")))
    assert [device.health for device in look.devices] == [Health.HEALTHY] * 8
    assert (look.problems, look.looked_at, look.watch, look.again_in) == ((), ("/dev/null",), (), None)


def test_one_device_in_full(root: HostRoot) -> None:
    *_, last = found(
        root, entry(shares=4, numa_nodes=2, pcie_roots=4, attributes={"model": "H200", "rank": 1})
    )
    assert last == Device(
        id="gpu-7",
        kind="sim",
        resource="a.com/gpu",
        health=Health.HEALTHY,
        label="H200",
        numa_node=1,
        pcie_root="pci0000:03",
        attributes={
            "memory": "80Gi",
            "model": "H200",
            "rank": 1,
            "serial": "SIM-GPU-7",
            "shape": "gpu",
            "type": "gpu",
            "uuid": last.attributes["uuid"],
        },
        paths=("/dev/null",),
        watch=("/dev/null",),
        shares=4,
        addresses=("gpu-7",),
        permissions="rw",
        name="gpu-7",
        versions={"driverVersion": "1.0.0"},
        capacity={"memory": DeviceCapacity(value=Quantity("80Gi"))},
        hardware=("sim:gpu-7",),
    )
    assert last.share_ids == ("gpu-7-0", "gpu-7-1", "gpu-7-2", "gpu-7-3")


@pytest.mark.parametrize("shape", ["gpu", "nic", "usb"])
def test_every_device_of_a_shape_is_one_of_its_own(root: HostRoot, shape: str) -> None:
    devices = found(root, entry(shape=shape, count=20))
    identities = {"gpu": ("serial", "uuid"), "nic": ("serial", "mac"), "usb": ("serial", "port")}[shape]
    for key in identities:
        assert len({device.attributes[key] for device in devices}) == 20
    assert all(names.attribute_id(key) == [] for device in devices for key in device.attributes)
    assert all(device.attributes["model"] for device in devices)


@pytest.mark.parametrize(
    ("count", "nodes", "roots"),
    [(8, 2, 4), (8, 2, 8), (7, 2, 4), (3, 2, 2), (2, 4, 8), (100, 5, 15), (1, 1, 1)],
)
def test_spread_is_even_and_a_root_is_on_one_node(root: HostRoot, count: int, nodes: int, roots: int) -> None:
    devices = found(root, entry(count=count, numa_nodes=nodes, pcie_roots=roots))
    sizes = [len(list(group)) for _, group in groupby(device.numa_node for device in devices)]
    assert len(sizes) == min(count, nodes)
    assert max(sizes) - min(sizes) <= 1
    assert len({device.pcie_root for device in devices}) == min(count, roots)
    on = {(device.pcie_root, device.numa_node) for device in devices}
    assert len(on) == len({pcie_root for pcie_root, _ in on})


@pytest.mark.parametrize(
    ("fields", "numa_node", "pcie_root"),
    [
        ({}, 0, "pci0000:00"),
        ({"shape": "usb"}, None, None),
        ({"shape": "usb", "numa_nodes": 1}, 0, "pci0000:00"),
        ({"numa_nodes": 0}, None, "pci0000:00"),
        ({"numa_nodes": 0, "pcie_roots": 0}, None, None),
    ],
)
def test_places_by_default(
    root: HostRoot, fields: dict[str, object], numa_node: int | None, pcie_root: str | None
) -> None:
    (device,) = found(root, entry(count=1, **fields))  # type: ignore[arg-type]
    assert (device.numa_node, device.pcie_root) == (numa_node, pcie_root)


def test_the_largest_config_has_short_unique_ids(root: HostRoot) -> None:
    devices = found(root, entry("x" * 40, count=5_000, shares=10), entry("b", count=50_000))
    ids = [share for device in devices for share in device.share_ids]
    assert len(set(ids)) == len(ids) == 100_000
    assert max(map(len, ids)) <= 63


def test_without_its_node_a_device_is_unhealthy(tmp_path: Path) -> None:
    (device,) = found(HostRoot(tmp_path), entry(count=1))
    assert (device.health, device.reason) == (Health.UNHEALTHY, "/dev/null does not exist")


async def test_a_scripted_day(root: HostRoot) -> None:
    config = SimConfig(
        devices=(entry(count=3),),
        faults=(
            SimFault(device="gpu-0", after_seconds=5, for_seconds=10, reason="XID 79"),
            SimFault(device="gpu-1", after_seconds=10, for_seconds=1, gone=True),
            SimFault(device="gpu-2", while_file="/run/dray/gpu-2"),
        ),
    )
    clock = FakeClock()
    await clock.advance(100)  # the script begins with the driver, not with the clock
    (driver,) = sim_drivers(config, clock)
    days = []
    for _ in range(5):
        look = driver.discover(root)
        assert look == driver.discover(root), "equal time, equal devices"
        assert look.watch == ("/run/dray",)
        bad = {device.id: device.reason for device in look.devices if device.health is Health.UNHEALTHY}
        days.append((clock.monotonic() - 100, len(look.devices), bad, look.again_in))
        await clock.advance(look.again_in or 0)
    assert days == [
        (0, 3, {}, 5),
        (5, 3, {"gpu-0": "XID 79"}, 5),
        (10, 2, {"gpu-0": "XID 79"}, 1),
        (11, 3, {"gpu-0": "XID 79"}, 4),
        (15, 3, {}, None),
    ]


async def test_the_script_goes_on_when_the_config_changes(root: HostRoot) -> None:
    faults = (SimFault(device="gpu-0", after_seconds=5, reason="XID 79"),)
    clock = FakeClock()
    (before,) = sim_drivers(SimConfig(devices=(entry(count=1),), faults=faults), clock)
    await clock.advance(4)
    changed = SimConfig(devices=(entry(count=2),), faults=faults)
    (after,) = sim_drivers(changed, clock, before.record)
    assert after.discover(root).again_in == 1
    assert sim_drivers(changed, clock)[0].discover(root).again_in == 5


def test_equal_configs_make_equal_drivers() -> None:
    config = SimConfig(devices=(entry(attributes={"model": "H200"}),))
    (one,), (other,) = sim_drivers(config, FakeClock()), sim_drivers(config, SystemClock())
    assert one == other
    assert hash(one) == hash(other)
    (acting,) = sim_drivers(SimConfig(devices=(entry(pre_start=SimPreStart(action="reset")),)), FakeClock())
    assert acting != one
