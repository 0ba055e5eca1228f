from __future__ import annotations

import pytest

from dray.hardware.nvml.facts import Placement, short_bus_id


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:00:06.0", "0000:00:06.0"),
        ("00000001:AF:1D.3", "0001:af:1d.3"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("0000:05:00.0", "0000:05:00.0"),
        ("", None),
        ("0000:05:00", None),
        ("../../../0000:05:00.0", None),
    ],
)
def test_bus_ids_are_as_sysfs_writes_them(text: str, expected: str | None) -> None:
    assert short_bus_id(text) == expected


def test_a_placement_names_its_slices() -> None:
    assert list(Placement(4, 4).slices) == [4, 5, 6, 7]
