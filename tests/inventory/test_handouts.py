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
