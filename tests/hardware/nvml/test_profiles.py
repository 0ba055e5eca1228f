from __future__ import annotations

import pytest

from dray.hardware.nvml.profiles import profile_name
from dray.hardware.nvml.protocol import ProfileInfo
from dray.testing.nvml.machine import recording

GIB = 1 << 30


def info(slices: int, memory_mib: int, name: str = "", number: int = 77) -> ProfileInfo:
    return ProfileInfo(number, slices, 1, 1, 1, 0, 0, 0, 0, memory_mib, name)


@pytest.mark.parametrize("name", ["h200", "a100-mig", "eight-h100"])
def test_names_are_those_that_the_driver_gives(name: str) -> None:
    """Ours are computed, so that drivers without names have them too: here both are known."""
    cards = recording(name)
    with cards.open() as nvml:
        handle = nvml.handle(0)
        memory = nvml.memory(handle)
        found = {index: nvml.profile(handle, index) for index in range(11)}
        known = {index: one for index, one in found.items() if one is not None}
        assert len(known) == 7
        for index, one in known.items():
            assert f"MIG {profile_name(index, one, memory)}" == one.name


@pytest.mark.parametrize(
    ("index", "slices", "expected"),
    [
        (0x7, 1, "1g.24gb+me"),
        (0x8, 2, "2g.24gb+me"),
        (0xA, 1, "1g.24gb+gfx"),
        (0xD, 1, "1g.24gb-me"),
        (0xF, 1, "1g.24gb+me.all"),
        (0x9, 1, "1g.24gb"),
    ],
)
def test_variants_have_their_mark(index: int, slices: int, expected: str) -> None:
    assert profile_name(index, info(slices, 24 * 1024), 96 * GIB) == expected


def test_a_half_is_rounded_up() -> None:
    assert profile_name(2, info(3, 71424), 150754820096) == "3g.71gb"


def test_a_profile_that_is_newer_than_we_are_goes_by_its_own_name() -> None:
    assert profile_name(30, info(5, 90 * 1024, "MIG 5g.90gb+xx"), 180 * GIB) == "5g.90gb+xx"
    assert profile_name(30, info(5, 90 * 1024, "bad name"), 180 * GIB) == "5g.90gb-p77"


def test_memory_of_the_host_leaves_its_own() -> None:
    assert profile_name(4, info(7, 96 * 1024), None) == "7g.96gb"
