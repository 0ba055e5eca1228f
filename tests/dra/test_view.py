from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dray.allocation.capacity import CapacityCheck, fits
from dray.allocation.profiles import profile_named
from dray.api.meta import ObjectMeta
from dray.api.quantity import Quantity
from dray.api.resource.claim import CapacityRequirements
from dray.api.resource.slice import (
    CapacityRequestPolicy,
    Counter,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from dray.api.resource.slice import Device as PoolDevice
from dray.api.taints import DeviceTaint
from dray.dra.slices.view import pci_address, pool_devices
from dray.drivers.contract import Device, Health
from tests.dra.pools import DRIVER, NODE, faults_of, found_device

STANDARD = "resource.kubernetes.io"


def only(device: Device) -> PoolDevice:
    (shown,) = pool_devices([device], DRIVER).items
    check(shown)
    return shown


def check(*devices: PoolDevice) -> None:
    """A server takes a slice with these."""
    spec = ResourceSliceSpec(
        driver=DRIVER,
        pool=ResourcePool(name=NODE.name, generation=1, resource_slice_count=1),
        node_name=NODE.name,
        devices=devices,
    )
    assert faults_of(ResourceSlice(metadata=ObjectMeta(generate_name="s-"), spec=spec)) == []


def test_attributes_are_typed() -> None:
    shown = only(
        found_device(
            attributes={"vendor": "10de", "lanes": 16, "sriov": False},
            versions={"driverVersion": "580.1.2"},
            numa_node=0,
            pcie_root="pci0000:00",
        )
    )
    assert shown.attributes == {
        "driverVersion": DeviceAttribute(version_value="580.1.2"),
        "lanes": DeviceAttribute(int_value=16),
        "resource": DeviceAttribute(string_value="vendor.com/dev"),
        f"{STANDARD}/numaNode": DeviceAttribute(int_value=0),
        f"{STANDARD}/pcieRoot": DeviceAttribute(string_value="pci0000:00"),
        "sriov": DeviceAttribute(bool_value=False),
        "vendor": DeviceAttribute(string_value="10de"),
    }
    assert list(shown.attributes) == sorted(shown.attributes)


@pytest.mark.parametrize(
    ("device", "address"),
    [
        (found_device(attributes={"address": "0000:05:00.0"}), "0000:05:00.0"),
        (found_device(hardware=("pci:0000:06:00.1",)), "0000:06:00.1"),
        # A group: its leader is the address.
        (
            found_device(
                attributes={"address": "0000:05:00.0"}, hardware=("pci:0000:05:00.0", "pci:0000:05:00.1")
            ),
            "0000:05:00.0",
        ),
        (found_device(hardware=("pci:0000:05:00.0", "pci:0000:05:00.1")), None),
        (found_device(attributes={"address": "1:4"}), None),
        (found_device(hardware=("pci:../../etc",)), None),
    ],
)
def test_the_pci_address(device: Device, address: str | None) -> None:
    assert pci_address(device) == address
    found = only(device).attributes.get(f"{STANDARD}/pciBusID")
    assert (found.string_value if found else None) == address


def test_an_attribute_of_the_kind_beats_ours() -> None:
    shown = only(found_device(numa_node=1, attributes={f"{STANDARD}/numaNode": 3}))
    assert shown.attributes[f"{STANDARD}/numaNode"].int_value == 3


def test_of_two_attributes_of_one_name_the_version_stays() -> None:
    shown = only(
        found_device(attributes={"v": "x"}, versions={"v": "1.0.0"}, capacity={"v": DeviceCapacity()})
    )
    assert shown.attributes["v"] == DeviceAttribute(version_value="1.0.0")
    assert set(shown.capacity) == {"v"}


@pytest.mark.parametrize(
    "fields",
    [
        {"attributes": {"has-dash": "x"}},
        {"attributes": {"n" * 33: "x"}},
        {"attributes": {"long": "x" * 65}},
        {"attributes": {"wide": "é" * 33}},
        {"attributes": {"bytes": "\udc80"}},
        {"attributes": {"n\udc80": "x"}},
        {"attributes": {"number": 2**63}},
        {"versions": {"version": "not a version"}},
        {"capacity": {"has-dash": DeviceCapacity(value=Quantity("1"))}},
        {"capacity": {"memory": DeviceCapacity(request_policy=CapacityRequestPolicy(default=Quantity("1")))}},
        {"resource": f"vendor.com/{'x' * 60}"},
    ],
)
def test_what_the_api_does_not_take_is_left_out_and_told(fields: dict[str, Any]) -> None:
    found = pool_devices([found_device(**{"resource": "", **fields})], DRIVER)
    check(*found.items)
    assert [(dict(one.attributes), dict(one.capacity)) for one in found.items] == [({}, {})]
    (problem,) = found.problems
    assert problem.path.startswith("d0.")
    assert problem.message.isascii()


def test_too_many_attributes() -> None:
    device = found_device(
        attributes={f"a{i:02}": i for i in range(40)},
        versions={"v": "1.0.0"},
        capacity={"memory": DeviceCapacity(value=Quantity("1Gi"))},
        numa_node=1,
    )
    (shown,), (problem,) = (found := pool_devices([device], DRIVER)).items, found.problems
    check(shown)
    assert set(shown.capacity) == {"memory"}
    assert {"resource", "v", f"{STANDARD}/numaNode", "a00", "a27"} <= shown.attributes.keys()
    assert "a28" not in shown.attributes
    assert "a28, a29" in problem.message


@pytest.mark.parametrize("count", [1, 2, 7])
def test_shares(count: int) -> None:
    memory = {"memory": DeviceCapacity(value=Quantity("10Gi"))}
    shown = only(found_device(shares=count, capacity=memory))
    assert shown.allow_multiple_allocations
    rules = CapacityCheck(profile_named("k8s-1.36"))
    taken = rules.amounts(None, DRIVER, shown)
    assert taken == {"shares": Quantity("1"), "memory": Quantity("0")}
    unit = {"shares": 10**9}
    assert fits(taken, shown, {name: amount * (count - 1) for name, amount in unit.items()})
    assert not fits(taken, shown, {name: amount * count for name, amount in unit.items()})
    asked = CapacityRequirements(requests={"shares": Quantity.from_int(count), "memory": Quantity("4Gi")})
    assert rules.amounts(asked, DRIVER, shown) == asked.requests
    more = CapacityRequirements(requests={"shares": Quantity.from_int(count + 1)})
    assert rules.amounts(more, DRIVER, shown) is None


def test_a_device_for_one_owner_has_no_shares() -> None:
    shown = only(found_device())
    assert (shown.allow_multiple_allocations, shown.capacity) == (None, {})


def test_no_shares_at_all() -> None:
    found = pool_devices([found_device(shares=0)], DRIVER)
    assert found.items == ()
    assert "no shares" in found.problems[0].message


def test_an_unhealthy_device_is_tainted_with_the_reason() -> None:
    reason = "/dev/vfio/12 does not exist: " + "load the module " * 10
    (taint,) = only(found_device(health=Health.UNHEALTHY, reason=reason)).taints
    assert (taint.key, taint.effect) == (f"{DRIVER}/unhealthy", "NoSchedule")
    assert taint.value.startswith("dev-vfio-12-does-not-exist-load-the-module")
    assert taint.time_added is None
    assert only(found_device(health=Health.UNHEALTHY)).taints[0].value == ""


def test_a_kind_may_say_itself_how_unhealthy() -> None:
    own = DeviceTaint(key=f"{DRIVER}/unhealthy", value="xid-79", effect="NoExecute")
    assert only(found_device(health=Health.UNHEALTHY, taints=(own,))).taints == (own,)


def test_taints_are_dated_in_whole_seconds() -> None:
    moment = datetime(2030, 1, 1, 12, 0, 0, 987654, tzinfo=UTC)
    own = DeviceTaint(key="a/b", effect="NoSchedule", time_added=moment)
    (taint,) = only(found_device(taints=(own,))).taints
    assert taint.time_added == moment - timedelta(microseconds=987654)


def test_the_strongest_taints_stay_where_there_are_too_many() -> None:
    weak = tuple(DeviceTaint(key=f"a/w{i:02}", effect="None") for i in range(16))
    strong = (DeviceTaint(key="z/gone", effect="NoExecute"),)
    found = pool_devices([found_device(health=Health.UNHEALTHY, taints=weak + strong)], DRIVER)
    check(*found.items)
    assert [taint.effect for taint in found.items[0].taints[:3]] == ["NoExecute", "NoSchedule", "None"]
    assert "a/w14, a/w15" in found.problems[0].message


@pytest.mark.parametrize(
    ("taint", "shown"),
    [
        (DeviceTaint(key="no key", effect="NoSchedule"), (f"{DRIVER}/tainted", "", "NoSchedule")),
        (DeviceTaint(key="a/b", value="no value!", effect="None"), ("a/b", "no-value", "None")),
        (DeviceTaint(key="a/b", effect="Sometimes"), ("a/b", "", "NoSchedule")),
        (
            DeviceTaint(key="\udc80", value="\udc80", effect="NoSchedule"),
            (f"{DRIVER}/tainted", "", "NoSchedule"),
        ),
    ],
)
def test_a_taint_that_is_none_still_keeps_pods_away(taint: DeviceTaint, shown: tuple[str, str, str]) -> None:
    found = pool_devices([found_device(taints=(taint,))], DRIVER)
    check(*found.items)
    (one,) = found.items[0].taints
    assert (one.key, one.value, one.effect) == shown
    assert len(found.problems) == 1


def test_a_device_that_cannot_be_told_leaves_the_others_alone() -> None:
    draws = DeviceCounterConsumption(counter_set="No Set", counters={"slots": Counter()})
    bad = [
        found_device("a", name="../a"),
        found_device("b", consumes=(draws,)),
        found_device("c", name="twice"),
        found_device("d", name="twice"),
    ]
    found = pool_devices([*bad, found_device("e")], DRIVER)
    check(*found.items)
    assert [one.name for one in found.items] == ["e", "twice"]
    assert sorted(problem.path for problem in found.problems) == ["../a", "b", "twice"]
    assert "d is left out" in found.problems[-1].message


def test_the_order_of_the_devices_does_not_matter() -> None:
    devices = [
        found_device(f"0000:0{i}:00.0", attributes={"b": 1, "a": 2}, shares=i or None) for i in range(9)
    ]
    wanted = pool_devices(devices, DRIVER)
    assert [one.name for one in wanted.items] == sorted(one.name for one in wanted.items)
    random.Random(1).shuffle(devices)
    assert pool_devices(devices, DRIVER) == wanted
