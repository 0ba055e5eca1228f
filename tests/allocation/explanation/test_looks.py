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


def test_lists_of_versions_that_are_well_formed_and_not() -> None:
    """Without list attributes no selector can say anything about either, with them about the first only."""
    lists = (["1.0.0", "2.0.0"], ["1.0.0", "v2"], ["1.1.0"])
    one = made(*[device(f"d{n}", attributes={"v": {"versions": each}}) for n, each in enumerate(lists)])
    good, bad, other = Looks().of(one)
    assert good is not bad and good is other


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
