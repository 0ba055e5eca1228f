from __future__ import annotations

import pytest

from dray.errors import ConflictError
from dray.inventory.handouts import MEMORY, Handouts
from dray.runtime.clock import FakeClock


async def test_what_was_given_is_not_taken_for_a_while() -> None:
    clock = FakeClock()
    handouts = Handouts(clock)
    handouts.give(["/dev/vfio/7"])
    assert not handouts.take(["/dev/vfio/7"])
    assert handouts.take(["/dev/vfio/8"])
    await clock.advance(MEMORY)
    assert handouts.take(["/dev/vfio/7"])


async def test_what_is_being_taken_is_not_given() -> None:
    handouts = Handouts(FakeClock())
    with handouts.taking():
        assert handouts.take(["/dev/vfio/7"])
        with pytest.raises(ConflictError, match="/dev/vfio/7"):
            handouts.give(["/dev/kvm", "/dev/vfio/7"])
        handouts.give(["/dev/kvm"])
    handouts.give(["/dev/vfio/7"])


async def test_what_was_given_is_new_for_ten_seconds_and_kept_for_two_minutes() -> None:
    clock = FakeClock()
    handouts = Handouts(clock)
    handouts.give(["/dev/vfio/7"])
    assert handouts.is_new(["/dev/kvm", "/dev/vfio/7"]) and not handouts.is_new(["/dev/kvm"])
    await clock.advance(9.5)
    assert handouts.is_new(["/dev/vfio/7"])
    await clock.advance(0.5)
    assert not handouts.is_new(["/dev/vfio/7"])
    await clock.advance(109.5)
    assert not handouts.take(["/dev/vfio/7"])
    await clock.advance(0.5)
    assert handouts.take(["/dev/vfio/7"])


async def test_what_was_given_long_ago_is_forgotten() -> None:
    clock = FakeClock()
    handouts = Handouts(clock)
    for number in range(10):
        handouts.give([f"/dev/vfio/{number}"])
        await clock.advance(0.7 * MEMORY)
    assert list(handouts._given) == ["/dev/vfio/8", "/dev/vfio/9"]
