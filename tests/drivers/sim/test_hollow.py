from __future__ import annotations

from pathlib import Path
from typing import Any

from dray.api.quantity import Quantity
from dray.drivers.contract import Device, Health
from dray.drivers.nvidia import nvidia_driver
from dray.drivers.nvidia.config import NvidiaConfig
from dray.drivers.sim.config import SimTaint
from dray.drivers.sim.hollow import hollow_pools
from dray.drivers.sim.profile import HollowDevices, HollowFault, HollowGroup, HollowPartition
from dray.hardware.host_root import HostRoot
from dray.runtime.clock import SystemClock
from dray.testing.host import Host
from dray.testing.nvml.machine import GpuMachine, recording
from dray.up.fleet.profile_file import load_profile

DRIVER = "gpu.example.com"


def group(*entries: HollowDevices, **fields: Any) -> HollowGroup:
    return HollowGroup(name="n", count=3, devices=entries, **fields)


def devices(one: HollowGroup, number: int = 0) -> dict[str, Device]:
    return {device.name: device for pool in hollow_pools(one, number) for device in pool.devices}


def test_every_device_says_that_it_is_simulated() -> None:
    found = devices(group(HollowDevices(driver=DRIVER, count=2, product="P")))
    assert [one.attributes["simulated"] for one in found.values()] == [True, True]
    assert {one.attributes["productName"] for one in found.values()} == {"P"}


def test_devices_are_spread_in_blocks_and_have_addresses_of_their_own() -> None:
    gpus = HollowDevices(driver=DRIVER, count=8, numa_nodes=2, pcie_roots=4)
    nics = HollowDevices(driver="nic.example.com", name="nic", count=4, numa_nodes=2, pcie_roots=4)
    found = devices(group(gpus, nics))
    assert [found[f"gpu-{number}"].numa_node for number in range(8)] == [0] * 4 + [1] * 4
    assert found["gpu-2"].pcie_root == found["gpu-3"].pcie_root == found["nic-1"].pcie_root == "pci0000:40"
    addresses = [one.attributes["resource.kubernetes.io/pciBusID"] for one in found.values()]
    assert len(set(addresses)) == 12
    assert found["gpu-3"].attributes["resource.kubernetes.io/pciBusID"] == "0000:41:01.0"


def test_without_places_nothing_is_told_of_them() -> None:
    (one,) = devices(group(HollowDevices(driver=DRIVER))).values()
    assert (one.numa_node, one.pcie_root) == (None, None)
    assert "resource.kubernetes.io/pciBusID" not in one.attributes


def test_uuids_differ_between_nodes_and_stay() -> None:
    made = group(HollowDevices(driver=DRIVER, count=2, attributes={"fabric": "{node}-x"}))
    first, second = devices(made, 0), devices(made, 1)
    uuids = {one.attributes["uuid"] for one in (*first.values(), *second.values())}
    assert len(uuids) == 4
    assert devices(made, 0) == first
    assert (first["gpu-0"].attributes["fabric"], second["gpu-0"].attributes["fabric"]) == ("n-0-x", "n-1-x")


def test_entries_of_one_driver_are_one_pool() -> None:
    entries = [HollowDevices(driver=DRIVER, name=name) for name in ("a", "b")]
    (pool,) = hollow_pools(group(*entries), 0)
    assert [one.name for one in pool.devices] == ["a-0", "b-0"]


def test_faults_make_a_device_unhealthy_or_tainted_with_its_partitions() -> None:
    entry = HollowDevices(
        driver=DRIVER,
        count=2,
        capacity={"memory": Quantity("2Gi")},
        memory_slices=2,
        partitions=(HollowPartition(profile="1g", starts=(0, 1), capacity={"memory": Quantity("1Gi")}),),
    )
    faults = (
        HollowFault(device="gpu-0", first=1, reason="it burns"),
        HollowFault(device="gpu-1", taints=(SimTaint(key="a/b", effect="NoSchedule"),)),
    )
    sick, tainted = (devices(group(entry, faults=faults), number) for number in (1, 0))
    assert {name for name, one in sick.items() if one.health is Health.UNHEALTHY} == {
        "gpu-0",
        "gpu-0-mig-1g-0-0",
        "gpu-0-mig-1g-0-1",
    }
    assert sick["gpu-0"].reason == "it burns"
    assert all(one.health is Health.HEALTHY for one in tainted.values())
    assert [name for name, one in tainted.items() if one.taints] == [
        "gpu-1",
        "gpu-1-mig-1g-0-0",
        "gpu-1-mig-1g-0-1",
    ]


def test_a_fault_without_a_reason_has_one() -> None:
    found = devices(group(HollowDevices(driver=DRIVER), faults=(HollowFault(device="gpu-0"),)))
    assert found["gpu-0"].reason == "simulated fault"


def test_the_mig_profile_offers_what_the_nvidia_kind_finds_on_an_h200(tmp_path: Path) -> None:
    """Names, capacities, counters and consumption of a card and all its parts, one by one."""
    machine = GpuMachine(Host(tmp_path), recording("h200"))
    config = NvidiaConfig(dynamic_mig=True)
    driver = nvidia_driver(config, SystemClock(), open_session=machine.cards.open)
    try:
        real = driver.discover(HostRoot(tmp_path))
    finally:
        driver.monitor.close()
    (pool,) = hollow_pools(load_profile("h200x8-mig").groups[0], 0)
    ours = {one.name: one for one in pool.devices if f"{one.name}-".startswith("gpu-0-")}
    assert len(pool.devices) == 8 * len(real.devices)
    for theirs in real.devices:
        one = ours.pop(theirs.name)
        assert (one.capacity, one.consumes) == (theirs.capacity, theirs.consumes)
        for key in ("type", "profile", "productName", "architecture", "brand"):
            assert one.attributes.get(key) == theirs.attributes.get(key)
        assert one.versions == theirs.versions
    assert not ours
    assert pool.counters[0] == real.counters[0]
