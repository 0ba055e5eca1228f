from __future__ import annotations

from dray.hardware.nvml.facts import Placement


def test_a_placement_names_its_slices() -> None:
    assert list(Placement(4, 4).slices) == [4, 5, 6, 7]
