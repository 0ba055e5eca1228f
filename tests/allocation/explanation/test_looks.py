"""How devices look whatever is asked, kept as long as their slices."""

from __future__ import annotations

from dray.allocation.explanation.looks import Looks
from dray.api.codec import view
from dray.api.resource.slice import ResourceSlice
from tests.allocation.world import Json, device, piece


def made(*devices: Json) -> ResourceSlice:
    return view(piece(*devices), ResourceSlice)


def test_devices_that_look_the_same_have_one_look() -> None:
    looks = Looks()
    small = {"memory": {"value": "1Gi"}}
    one, two = made(device("a", capacity=small), device("b")), made(device("c", capacity=small))
    first, second = looks.of(one)
    assert first is not second
    assert looks.of(two) == (first,)
    assert looks.of(one) == (first, second)


def test_a_slice_in_the_place_of_another_is_looked_at_anew() -> None:
    looks = Looks()
    for number in range(1000):  # the memory of one that is gone is soon another's
        one = made(*[device(f"gpu-{each}") for each in range(number % 4)])
        assert len(looks.of(one)) == number % 4
        assert len(looks) == 1


def test_nothing_is_kept_of_slices_that_are_gone() -> None:
    looks = Looks()
    every = [made(device(f"gpu-{number}")) for number in range(100)]
    kept = [looks.of(one) for one in every]
    assert len(looks) == 100
    assert len({look for (look,) in kept}) == 1
    del every
    assert len(looks) == 0
