"""Turns are short and garbage waits while somebody thinks; afterwards all is as it was."""

from __future__ import annotations

import gc
import sys

import pytest

from dray.dashboard.telling.courtesy import WITHOUT_COLLECTION, Courtesy
from dray.runtime.clock import FakeClock


def test_as_it_was_when_the_last_one_is_done() -> None:
    courtesy, usual = Courtesy(FakeClock()), sys.getswitchinterval()
    with courtesy:
        with courtesy:
            assert not gc.isenabled()
        assert not gc.isenabled() and sys.getswitchinterval() < usual
    assert gc.isenabled() and sys.getswitchinterval() == usual


def test_after_a_mistake_too() -> None:
    courtesy = Courtesy(FakeClock())
    with pytest.raises(ZeroDivisionError), courtesy:
        print(1 / 0)
    assert gc.isenabled()


async def test_garbage_waits_for_a_few_seconds_at_most() -> None:
    clock = FakeClock()
    courtesy = Courtesy(clock)
    with courtesy:
        await clock.advance(WITHOUT_COLLECTION - 1)
        courtesy.go_on()
        assert not gc.isenabled()
        await clock.advance(2)
        with courtesy:  # others that come and go do not prolong it
            courtesy.go_on()
            assert gc.isenabled()
        assert gc.isenabled()


def test_who_has_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with Courtesy(FakeClock()):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
