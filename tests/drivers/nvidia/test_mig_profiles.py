from __future__ import annotations

import pytest

from dray.drivers.nvidia.mig_profiles import (
    all_amounts,
    amounts_of,
    capacities,
    card_counters,
    slice_capacities,
    takes_card,
    takes_part,
)
from dray.hardware.nvml.facts import Gpu, Placement
from dray.hardware.nvml.reading import read_gpus
from dray.testing.nvml.machine import recording


def card(name: str) -> Gpu:
    with recording(name).open() as nvml:
        return read_gpus(nvml).items[0]


@pytest.mark.parametrize("name", ["h200", "a100-mig", "eight-h100"])
def test_a_card_has_of_everything_the_most_that_a_part_has(name: str) -> None:
    gpu = card(name)
    biggest = max(gpu.profiles, key=lambda profile: profile.slices)
    assert all_amounts(gpu) == amounts_of(biggest)


def test_a_card_takes_all_its_counters() -> None:
    gpu = card("h200")
    assert takes_card(gpu, is_divisible=True)[0].counters == card_counters(gpu, is_divisible=True).counters
    assert list(card_counters(gpu, is_divisible=False).counters) == ["cards"]


def test_a_part_takes_the_slices_it_lies_on() -> None:
    gpu = card("a100-mig")
    profile = gpu.profile(9)
    assert profile is not None
    (taken,) = takes_part(gpu, profile, Placement(4, 4))
    assert taken.counter_set == "gpu-0-counter-set"
    slices = [name for name in taken.counters if name.startswith("memory-slice-")]
    assert slices == [f"memory-slice-{index}" for index in (4, 5, 6, 7)]


def test_sizes_are_written_with_binary_suffixes() -> None:
    found = capacities({"memory": 9856 << 20, "copyEngines": 2})
    assert {name: str(one.value) for name, one in found.items()} == {"copyEngines": "2", "memory": "9856Mi"}
    assert list(slice_capacities(Placement(2, 2))) == ["memorySlice2", "memorySlice3"]
