from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from dray.api.resource.slice import Device, ResourceSliceSpec
from dray.api.taints import DeviceTaint
from dray.dra.slices.dropped import dropped_features, offerable
from dray.dra.slices.layout import SliceContents
from tests.dra.pools import counter_set, pool_device

WHOLE = Device(
    name="d",
    taints=(DeviceTaint(key="a/b", effect="NoSchedule"),),
    consumes_counters=pool_device("d", counters=["g"]).consumes_counters,
    binding_conditions=("a/ready",),
    binding_failure_conditions=("a/failed",),
    allow_multiple_allocations=True,
)


@pytest.mark.parametrize(
    ("lost", "gates"),
    [
        ({}, ()),
        ({"taints": ()}, ("DRADeviceTaints",)),
        ({"consumes_counters": ()}, ("DRAPartitionableDevices",)),
        (
            {"binding_conditions": (), "binding_failure_conditions": ()},
            ("DRADeviceBindingConditions",),
        ),
        ({"allow_multiple_allocations": None}, ("DRAConsumableCapacity",)),
        ({"taints": (), "consumes_counters": ()}, ("DRADeviceTaints", "DRAPartitionableDevices")),
        ({"name": "other"}, ("unknown",)),
    ],
)
def test_fields_of_devices(lost: dict[str, object], gates: tuple[str, ...]) -> None:
    stored = msgspec.structs.replace(WHOLE, **lost)
    specs = [ResourceSliceSpec(devices=(pool_device("other"), one)) for one in (WHOLE, stored)]
    assert dropped_features(*specs) == gates


def test_counters() -> None:
    sent = ResourceSliceSpec(shared_counters=(counter_set("g"),))
    assert dropped_features(sent, ResourceSliceSpec()) == ("DRAPartitionableDevices",)
    assert dropped_features(sent, sent) == ()


def test_what_a_server_adds_is_not_lost() -> None:
    """It dates taints, and knows no empty lists."""
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    dated = msgspec.structs.replace(
        WHOLE, taints=(msgspec.structs.replace(WHOLE.taints[0], time_added=moment),)
    )
    assert dropped_features(ResourceSliceSpec(devices=(WHOLE,)), ResourceSliceSpec(devices=(dated,))) == ()
    assert dropped_features(ResourceSliceSpec(devices=()), ResourceSliceSpec()) == ()


def test_what_may_be_offered_without_a_feature() -> None:
    plain, tainted, part = pool_device("a"), pool_device("b", taint="gone"), pool_device("c", counters=["g"])
    told = Device(name="d", taints=(DeviceTaint(key="a/b", effect="None"),))
    whole = SliceContents((plain, tainted, part, told), (counter_set("g"),))
    assert offerable(whole, ()) == whole
    assert offerable(whole, ["DRAConsumableCapacity", "unknown"]) == whole
    assert offerable(whole, ["DRADeviceTaints"]) == SliceContents((plain, part, told), whole.counters)
    assert offerable(whole, ["DRAPartitionableDevices"]) == SliceContents((plain, tainted, told))
