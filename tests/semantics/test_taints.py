"""Which rules taint a device, how long a taint is tolerated, and what it says of the device's health."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dray.api.codec.json_codec import view
from dray.api.resource.slice import ResourceSlice
from dray.api.resource.taint_rule import DeviceTaintRule
from dray.api.taints import DeviceTaint, DeviceToleration
from dray.drivers.nvidia import health as nvidia
from dray.semantics.taints import (
    HELD_BY_CLAIM,
    HELD_BY_PLUGIN,
    device_health,
    eviction_grace,
    selects,
    with_taint_rules,
)
from tests.allocation.world import device, devices, piece


def rule(name: str, selector: dict[str, str] | None, key: str = "k") -> DeviceTaintRule:
    spec: dict[str, Any] = {"taint": {"key": key, "effect": "NoSchedule"}}
    if selector is not None:
        spec["deviceSelector"] = selector
    return view({"metadata": {"name": name}, "spec": spec}, DeviceTaintRule)


SLICES = [
    view(one, ResourceSlice)
    for one in (
        piece(device("a", taints=[{"key": "own", "effect": "NoExecute"}]), device("b")),
        piece(*devices("a"), driver="driver-b", name="s2"),
    )
]


def tainted(slices: tuple[ResourceSlice, ...]) -> list[str]:
    return [
        f"{one.spec.driver[-1]}{one_device.name}:{taint.key}"
        for one in slices
        for one_device in one.spec.devices or ()
        for taint in one_device.taints
    ]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, ["aa:own", "aa:k", "ab:k", "ba:k"]),
        ({"driver": "driver-b"}, ["aa:own", "ba:k"]),
        ({"pool": "pool-9"}, ["aa:own"]),
        ({"device": "a"}, ["aa:own", "aa:k", "ba:k"]),
        ({"driver": "driver-a", "pool": "pool-1", "device": "b"}, ["aa:own", "ab:k"]),
        (None, ["aa:own"]),
    ],
)
def test_which_devices(selector: dict[str, str] | None, expected: list[str]) -> None:
    one = rule("r", selector)
    assert tainted(with_taint_rules(SLICES, [one])) == expected
    places = [("driver-a", "pool-1", "a"), ("driver-a", "pool-1", "b"), ("driver-b", "pool-1", "a")]
    chosen = [f"{driver[-1]}{name}:k" for driver, pool, name in places if selects(one, driver, pool, name)]
    assert chosen == [each for each in expected if each.endswith(":k")]


def test_a_rule_without_selector_as_the_scheduler_reads_it() -> None:
    got = with_taint_rules(SLICES, [rule("r", None)], bare_selects_all=True)
    assert tainted(got) == ["aa:own", "aa:k", "ab:k", "ba:k"]
    assert selects(rule("r", None), "driver-a", "pool-1", "a", bare_selects_all=True)


def test_rules_by_name_and_slices_that_stay_the_same_object() -> None:
    got = with_taint_rules(SLICES, [rule("z", {"device": "b"}, "last"), rule("y", {"device": "b"}, "first")])
    assert tainted(got) == ["aa:own", "ab:first", "ab:last"]
    assert got[1] is SLICES[1]
    assert with_taint_rules(SLICES, []) == tuple(SLICES)


@pytest.mark.parametrize(
    ("taints", "health"),
    [
        ([], "healthy"),
        (["example.com/unhealthy:NoSchedule"], "unhealthy"),
        (["example.com/unhealthy:NoExecute"], "unhealthy"),
        (["example.com/unhealthy:None"], "healthy"),
        (["example.com/unhealthy:Someday"], "healthy"),
        (["unhealthy:NoSchedule"], "unhealthy"),
        (["example.com/not-unhealthy:NoSchedule"], "tainted"),
        (["fans:NoSchedule"], "tainted"),
        (["fans:None"], "healthy"),
        (["fans:NoSchedule", "example.com/unhealthy:NoSchedule"], "unhealthy"),
        (["fans:NoSchedule", "example.com/unhealthy:None"], "tainted"),
        ([f"{nvidia.XID}:NoSchedule"], "unhealthy"),
        ([f"{nvidia.XID}:None"], "healthy"),
        ([f"{nvidia.LOST}:NoSchedule"], "unhealthy"),
        ([f"{nvidia.RECOVERY}:NoSchedule"], "unhealthy"),
        ([f"{nvidia.UNMONITORED}:None"], "healthy"),
        ([f"example.com/{HELD_BY_PLUGIN}:NoSchedule", f"example.com/{HELD_BY_CLAIM}:NoSchedule"], "healthy"),
        ([f"example.com/{HELD_BY_PLUGIN}:NoSchedule", "fans:NoExecute"], "tainted"),
    ],
)
def test_health(taints: list[str], health: str) -> None:
    told = [DeviceTaint(key=key, effect=effect) for key, _, effect in (one.rpartition(":") for one in taints)]
    assert device_health(told) == health


def _toleration(effect: str, seconds: int | None) -> DeviceToleration:
    return DeviceToleration(key="k", operator="Exists", effect=effect, toleration_seconds=seconds)


@pytest.mark.parametrize(
    ("tolerations", "documented", "kubernetes"),
    [
        ([], 0, 0),
        ([("", 60), ("", 90)], 60, 0),
        ([("", None)], None, 0),
        ([("NoExecute", 60), ("NoExecute", 30)], 30, 30),
        ([("NoExecute", -5), ("NoExecute", 30)], 0, 0),
        ([("NoExecute", 60), ("NoExecute", None)], None, None),
        ([("NoSchedule", None)], 0, 0),
        ([("NoExecute", 2**63 - 1)], None, None),
    ],
)
def test_grace_before_eviction(
    tolerations: list[tuple[str, int | None]], documented: int | None, kubernetes: int | None
) -> None:
    taint = DeviceTaint(key="k", effect="NoExecute")
    every = [_toleration(*one) for one in tolerations]
    for ignored, seconds in ((False, documented), (True, kubernetes)):
        expected = None if seconds is None else timedelta(seconds=seconds)
        assert eviction_grace(taint, every, bare_toleration_ignored=ignored) == expected
