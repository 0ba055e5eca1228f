from __future__ import annotations

from typing import Any

import pytest

from dray.api.codec import view
from dray.api.field_errors import Path
from dray.drivers.sim.profile import SimProfile
from dray.drivers.sim.profile_validation import MAX_NODES, validate_profile

Json = dict[str, Any]
PART: Json = {"profile": "1g", "starts": [0, 1], "capacity": {"memory": "1Gi"}}


def faults(document: Json) -> list[str]:
    return [one.field for one in validate_profile(view(document, SimProfile), Path())]


def group(**fields: Any) -> Json:
    return {"groups": [{"name": "n", **fields}]}


def entry(**fields: Any) -> Json:
    return group(devices=[{"driver": "d.example.com", **fields}])


def test_nothing_is_a_profile() -> None:
    assert faults({}) == []


def test_a_whole_one_has_no_faults() -> None:
    document = {
        "local": {"devices": [{"name": "gpu"}]},
        "classes": [{"name": "gpu", "expression": "true"}],
        **group(
            count=3,
            labels={"a": "b"},
            zones=["z"],
            capacity={"cpu": "1"},
            resources={"a.example/b": 1},
            devices=[
                {
                    "driver": "d.example.com",
                    "count": 4,
                    "numaNodes": 2,
                    "pcieRoots": 2,
                    "capacity": {"memory": "2Gi"},
                    "memorySlices": 2,
                    "partitions": [PART],
                }
            ],
            faults=[{"device": "gpu-3-mig-1g-0-1", "first": 2}],
        ),
    }
    assert faults(document) == []


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"local": {"devices": [{"name": ""}]}}, "local.devices[0].name"),
        ({"classes": [{"name": "", "expression": "true"}]}, "classes[0].name"),
        ({"classes": [{"name": "a"}]}, "classes[0].expression"),
        ({"classes": [{"name": "a", "expression": "true"}] * 2}, "classes[1]"),
        (group(name=""), "groups[0].name"),
        (group(name="N"), "groups[0].name"),
        (group(name="n" * 62), "groups[0].name"),
        (group(count=0), "groups[0].count"),
        (group(count=MAX_NODES + 1), "groups[0].count"),
        ({"groups": [{"name": "a"}, {"name": "a"}]}, "groups[1]"),
        ({"groups": [{"name": "a", "count": MAX_NODES}, {"name": "b"}]}, "groups"),
        (group(labels={"a b": ""}), "groups[0].labels[a b]"),
        (group(labels={"dray.internal/hollow": "no"}), "groups[0].labels[dray.internal/hollow]"),
        (group(zones=["a b"]), "groups[0].zones[0]"),
        (group(capacity={"cpu": "-1"}), "groups[0].capacity[cpu]"),
        (group(resources={"gpu": 1}), "groups[0].resources[gpu]"),
        (group(resources={"a.example/b": -1}), "groups[0].resources[a.example/b]"),
        (
            group(resources={"a.example/b": 1}, capacity={"a.example/b": "1"}),
            "groups[0].resources[a.example/b]",
        ),
        (group(devices=[{}]), "groups[0].devices[0].driver"),
        (entry(name="A"), "groups[0].devices[0].name"),
        (entry(count=0), "groups[0].devices[0].count"),
        (entry(count=257), "groups[0].devices[0].count"),
        (entry(numaNodes=-1), "groups[0].devices[0].numaNodes"),
        (entry(numaNodes=4, pcieRoots=2), "groups[0].devices[0].pcieRoots"),
        (entry(pcieRoots=3), "groups[0].devices[0].pcieRoots"),
        (entry(count=33, pcieRoots=1), "groups[0].devices[0].pcieRoots"),
        (entry(attributes={"simulated": False}), "groups[0].devices[0].attributes[simulated]"),
        (entry(capacity={"memory": "-1"}), "groups[0].devices[0].capacity[memory]"),
        (entry(memorySlices=2), "groups[0].devices[0].memorySlices"),
        (entry(partitions=[PART], capacity={"memory": "1Gi"}), "groups[0].devices[0].memorySlices"),
        (group(faults=[{"device": "gpu-0"}]), "groups[0].faults[0].device"),
        (group(faults=[{}]), "groups[0].faults[0].device"),
    ],
)  # fmt: skip
def test_a_fault_is_told_at_its_field(document: Json, field: str) -> None:
    assert faults(document)[0] == field


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"profile": ""}, "profile"),
        ({"starts": []}, "starts"),
        ({"starts": [2]}, "starts[0]"),
        ({"slices": 2}, "starts[1]"),
        ({"slices": 3}, "slices"),
        ({"type": "MIG"}, "type"),
        ({"capacity": {"cores": "1"}}, "capacity[cores]"),
        ({"capacity": {"memory": "3Gi"}}, "capacity[memory]"),
        ({"profile": "p" * 60}, "profile"),
    ],
)
def test_faults_of_partitions(part: Json, field: str) -> None:
    document = entry(memorySlices=2, capacity={"memory": "2Gi"}, partitions=[PART | part])
    assert faults(document)[0] == f"groups[0].devices[0].partitions[0].{field}"


def test_two_devices_of_a_node_never_have_one_name() -> None:
    twice = group(devices=[{"driver": "d.example.com"}, {"driver": "e.example.com"}])
    assert faults(twice) == ["groups[0].devices[1].name"]


def test_a_fault_needs_a_node_and_taints_that_are_legal() -> None:
    devices = [{"driver": "d.example.com"}]
    wrong = {"device": "gpu-0", "first": 1, "taints": [{"key": "", "effect": "Never"}]}
    found = faults(group(devices=devices, faults=[wrong]))
    assert found[0] == "groups[0].faults[0].first"
    assert "groups[0].faults[0].taints[0].effect" in found
