"""Devices that can be cut: counters and parts always say the same, and what is told of a device holds for its partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import pytest

from dray.api.field_errors import Path as FieldPath
from dray.api.quantity import Quantity
from dray.api.resource.slice import CounterSet, DeviceCapacity
from dray.api.taints import DeviceTaint
from dray.api.validation.devices import check_counter_set
from dray.drivers.contract import Device, Discovery, Health
from dray.drivers.sim import sim_drivers
from dray.drivers.sim.config import (
    SimConfig,
    SimDevices,
    SimFault,
    SimPartition,
    SimPolicy,
    SimPreStart,
    SimTaint,
)
from dray.drivers.sim.validation import validate_sim
from dray.hardware.host_root import HostRoot
from dray.runtime.clock import FakeClock
from dray.testing.host import Host
from tests.campaign import campaign, seeded

SMALL = SimPartition(profile="1g", count=7, memory=Quantity("10Gi"))
HALF = SimPartition(profile="3g", count=2, memory=Quantity("40Gi"))
GPU = SimDevices(name="gpu", count=2, resource_name="a.com/gpu", numa_nodes=2, partitions=(SMALL, HALF))


@pytest.fixture
def root(tmp_path: Path) -> HostRoot:
    Host(tmp_path).char_device("/dev/null", 1, 3)
    return HostRoot(tmp_path)


def look(root: HostRoot, *entries: SimDevices, faults: tuple[SimFault, ...] = ()) -> Discovery:
    (driver,) = sim_drivers(SimConfig(devices=entries, faults=faults), FakeClock())
    return driver.discover(root)


def by_id(found: Discovery) -> dict[str, Device]:
    return {device.id: device for device in found.devices}


def overdraws(sets: Iterable[CounterSet], devices: Iterable[Device]) -> bool:
    left = Counter(
        {(one.name, name): counter.value.value() for one in sets for name, counter in one.counters.items()}
    )
    for device in devices:
        for taken in device.consumes:
            left.subtract(
                {(taken.counter_set, name): one.value.value() for name, one in taken.counters.items()}
            )
    return any(value < 0 for value in left.values())


def test_a_device_and_what_it_can_be_cut_into(root: HostRoot) -> None:
    found = look(root, GPU)
    devices = by_id(found)
    partitions = [f"1g-{number}" for number in range(7)] + ["3g-0", "3g-1"]
    assert list(devices) == [
        f"gpu-{gpu}{end}" for gpu in (0, 1) for end in ["", *(f"-{one}" for one in partitions)]
    ]
    assert [device.name for device in found.devices] == list(devices)
    whole, small, half = devices["gpu-1"], devices["gpu-1-1g-6"], devices["gpu-1-3g-1"]
    assert small.capacity == {"memory": DeviceCapacity(value=Quantity("10Gi"))}
    assert (whole.resource, small.resource) == ("a.com/gpu", "a.com/gpu-1g")
    assert (small.numa_node, small.pcie_root, small.versions) == (1, "pci0000:01", whole.versions)
    told = {key: small.attributes[key] for key in ("memory", "model", "parent", "profile", "shape", "type")}
    assert told == {
        "memory": "10Gi",
        "model": "SimGPU-80",
        "parent": "gpu-1",
        "profile": "1g",
        "shape": "gpu",
        "type": "partition",
    }
    assert whole.attributes["type"] == "gpu"
    for key in ("serial", "uuid"):
        assert len({device.attributes[key] for device in found.devices}) == len(devices)
    assert half.hardware == tuple(f"sim:gpu-1/slice-{number}" for number in (4, 5, 6, 7))
    assert [sorted(one.counters) for one in half.consumes] == [[f"memory-slice-{n}" for n in (4, 5, 6, 7)]]


def test_counters_are_those_of_the_api(root: HostRoot) -> None:
    found = look(root, GPU)
    assert [one.name for one in found.counters] == ["gpu-0-slices", "gpu-1-slices"]
    assert [len(one.counters) for one in found.counters] == [8, 8]
    assert [fault for one in found.counters for fault in check_counter_set(one, FieldPath())] == []
    sets = {one.name: one.counters for one in found.counters}
    for device in found.devices:
        for taken in device.consumes:
            assert taken.counters.keys() <= sets[taken.counter_set].keys()


def test_what_overdraws_a_counter_is_what_has_a_part_in_common(root: HostRoot) -> None:
    """Else the scheduler would allow what the ledger refuses, or the other way round."""
    rng = seeded(5)
    for _ in range(campaign(20, 500)):
        cuts = tuple(
            SimPartition(
                profile=f"p{number}", count=rng.randint(1, 4), memory=Quantity(f"{rng.choice([5, 10, 20])}Gi")
            )
            for number in range(rng.randint(1, 3))
        )
        entry = SimDevices(name="gpu", count=2, resource_name="a.com/gpu", partitions=cuts)
        if validate_sim(SimConfig(devices=(entry,)), FieldPath()):
            continue
        found = look(root, entry)
        for one, other in combinations(found.devices, 2):
            assert overdraws(found.counters, (one, other)) == bool(set(one.parts) & set(other.parts))


def test_all_partitions_of_a_profile_fit_together(root: HostRoot) -> None:
    found = look(root, GPU)
    for profile in ("1g", "3g"):
        chosen = [device for device in found.devices if device.attributes.get("profile") == profile]
        assert not overdraws(found.counters, chosen)


def test_faults_of_a_device_are_its_partitions_too(root: HostRoot) -> None:
    ecc = SimTaint(key="a.com/ecc", value="double-bit", effect="NoExecute")
    slow = SimTaint(key="a.com/slow", effect="None")
    found = look(
        root,
        GPU,
        faults=(
            SimFault(device="gpu-0", reason="XID 79"),
            SimFault(device="gpu-1", taints=(ecc,)),
            SimFault(device="gpu-1-1g-0", taints=(slow, ecc)),
            SimFault(device="gpu-1-1g-1", health="Unhealthy", taints=(slow,), reason="XID 48"),
            SimFault(device="gpu-1-1g-2", gone=True),
        ),
    )
    devices = by_id(found)
    assert {device.reason for name, device in devices.items() if name.startswith("gpu-0")} == {"XID 79"}
    hard = DeviceTaint(key="a.com/ecc", value="double-bit", effect="NoExecute")
    soft = DeviceTaint(key="a.com/slow", effect="None")
    assert (devices["gpu-1"].health, devices["gpu-1"].taints) == (Health.HEALTHY, (hard,))
    assert devices["gpu-1-1g-0"].taints == (hard, soft)
    assert (devices["gpu-1-1g-1"].reason, devices["gpu-1-1g-1"].taints) == ("XID 48", (hard, soft))
    assert (devices["gpu-1-1g-3"].health, devices["gpu-1-1g-3"].taints) == (Health.HEALTHY, (hard,))
    assert "gpu-1-1g-2" not in devices


def test_a_device_that_is_gone_takes_all_with_it(root: HostRoot) -> None:
    found = look(root, GPU, faults=(SimFault(device="gpu-0", gone=True),))
    assert {name.rpartition("-1")[0] or name for name in by_id(found)}.isdisjoint({"gpu-0"})
    assert [one.name for one in found.counters] == ["gpu-1-slices"]


def test_device_plugins_serve_whole_devices_alone() -> None:
    acting = SimDevices(
        name="b", resource_name="a.com/b", pre_start=SimPreStart(action="reset"), partitions=(SMALL,)
    )
    plain, other = sim_drivers(SimConfig(devices=(GPU, acting)), FakeClock())
    assert (plain.resources, other.resources) == (("a.com/gpu",), ("a.com/b",))


def test_the_memory_of_the_attribute_counts_unless_a_capacity_says_more(root: HostRoot) -> None:
    told = [
        SimDevices(name="a", resource_name="x.io/a", attributes={"memory": "141Gi"}),
        SimDevices(name="b", resource_name="x.io/b", attributes={"memory": "a lot"}),
        SimDevices(name="c", resource_name="x.io/c", capacity={"memory": Quantity("16Gi")}),
        SimDevices(name="d", resource_name="x.io/d", shape="nic", capacity={"bandwidth": Quantity("100G")}),
    ]
    found = by_id(look(root, *told))
    amounts = {
        name: {key: str(one.value) for key, one in device.capacity.items()} for name, device in found.items()
    }
    assert amounts == {
        "a-0": {"memory": "141Gi"},
        "b-0": {"memory": "80Gi"},
        "c-0": {"memory": "16Gi"},
        "d-0": {"bandwidth": "100G"},
    }
    assert found["c-0"].attributes["memory"] == "16Gi"


def test_who_shares_a_capacity_shares_the_device(root: HostRoot) -> None:
    """Else the second claim for it would be refused as for a device that has an owner."""
    shared = {
        "a": SimPolicy(default=Quantity("10Gi"), step=Quantity("1Gi")),
        "b": SimPolicy(default=Quantity("10Gi"), min=Quantity("5Gi"), max=Quantity("20Gi")),
        "c": SimPolicy(default=Quantity("50Gi")),
        "d": SimPolicy(default=Quantity("1")),
    }
    entries = [
        SimDevices(name=name, resource_name=f"x.io/{name}", shared={"memory": policy})
        for name, policy in shared.items()
    ]
    given = SimDevices(name="e", resource_name="x.io/e", shares=3, shared={"memory": shared["a"]})
    found = by_id(look(root, *entries, given))
    assert [device.shares for device in found.values()] == [80, 16, 1, 1000, 3]
    policy = found["a-0"].capacity["memory"].request_policy
    assert policy is not None
    assert policy.valid_range is not None
    assert (policy.default, policy.valid_range.min) == (Quantity("10Gi"), Quantity("1Gi"))
