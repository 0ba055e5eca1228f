from __future__ import annotations

import pytest

from dray.api.names import dns_label
from dray.drivers.naming import card_parts
from dray.drivers.nvidia.names import (
    Partition,
    counter_name,
    mig_name,
    mig_resource,
    partition_of,
    vfio_uuid,
)
from dray.hardware.nvml.facts import Placement


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("1g.5gb", "gpu-3-mig-1g5gb-19-2"),
        ("1g.18gb+me", "gpu-3-mig-1g18gb-me-19-2"),
        ("1g.24gb-me", "gpu-3-mig-1g24gb-me-19-2"),
        ("1g.24gb+me.all", "gpu-3-mig-1g24gb-meall-19-2"),
    ],
)
def test_a_part_is_named_by_its_place(profile: str, expected: str) -> None:
    name = mig_name(3, profile, 19, Placement(2, 1))
    assert name == expected
    assert dns_label(name) == []
    assert partition_of(name) == Partition(3, 19, 2)


@pytest.mark.parametrize(
    "name", ["gpu-0", "gpu-vfio-1", "gpu-0-mig-1g5gb-19", "gpu-0-mig-1g5gb-19-0/../x", ""]
)
def test_other_names_are_no_parts(name: str) -> None:
    assert partition_of(name) is None


def test_counters_are_named_after_capacities() -> None:
    assert [counter_name(name) for name in ("memory", "copyEngines", "ofaEngines")] == [
        "memory",
        "copy-engines",
        "ofa-engines",
    ]


def test_resources_of_profiles_are_as_nvidias_plugin_names_them() -> None:
    assert mig_resource("nvidia.com/gpu", "1g.18gb+me") == "nvidia.com/mig-1g.18gb.me"


def test_a_card_has_all_its_slices() -> None:
    parts = card_parts("0000:05:00.0", 4)
    assert parts[0] == "pci:0000:05:00.0"
    assert len(parts) == 9
    assert len(card_parts("0000:05:00.0", 12)) == 13


def test_the_uuid_for_vms_is_made_of_the_address() -> None:
    assert vfio_uuid("0000:05:00.0") == vfio_uuid("0000:05:00.0") != vfio_uuid("0000:06:00.0")
