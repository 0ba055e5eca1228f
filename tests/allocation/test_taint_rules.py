from __future__ import annotations

from typing import Any

import pytest

from dray.allocation.taint_rules import with_taint_rules
from dray.api.codec.json_codec import view
from dray.api.resource.slice import ResourceSlice
from dray.api.resource.taint_rule import DeviceTaintRule
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
    assert tainted(with_taint_rules(SLICES, [rule("r", selector)])) == expected


def test_a_rule_without_selector_as_the_scheduler_reads_it() -> None:
    got = with_taint_rules(SLICES, [rule("r", None)], bare_rule_taints_all=True)
    assert tainted(got) == ["aa:own", "aa:k", "ab:k", "ba:k"]


def test_rules_by_name_and_slices_that_stay_the_same_object() -> None:
    got = with_taint_rules(SLICES, [rule("z", {"device": "b"}, "last"), rule("y", {"device": "b"}, "first")])
    assert tainted(got) == ["aa:own", "ab:first", "ab:last"]
    assert got[1] is SLICES[1]
    assert with_taint_rules(SLICES, []) == tuple(SLICES)
