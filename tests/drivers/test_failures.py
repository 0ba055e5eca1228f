from __future__ import annotations

import pytest

from dray.drivers.failures import Attempts, Failures, key_of
from dray.errors import HardwareError, InvariantError
from dray.hardware.change import BindDriver, CreateMdev, HostChange, RemoveMdev, SetVgpuProfile
from dray.hardware.change.executor import Applied
from dray.runtime.clock import FakeClock

ONE = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
TWO = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1002"


def test_failures_wait_twice_as_long_each_time_up_to_five_minutes() -> None:
    failures, now, waits = Failures(), 100.0, []
    for number in range(10):
        change = CreateMdev("card", "type", f"{ONE[:-1]}{number}")  # the UUID does not matter
        failures = failures.after(change, "no", now)
        failure = failures.waiting(("card", "type"), now)
        assert failure is not None and failure.tries == number + 1
        waits.append(failure.retry_at - now)
        now = failure.retry_at
        assert failures.waiting(("card", "type"), now) is None
    assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert not failures.without(change).by_key


def test_failures_of_a_card_say_nothing_about_others() -> None:
    failures = Failures().after(CreateMdev("card", "type", ONE), "no", 0).after(RemoveMdev(ONE), "busy", 0)
    assert failures.waiting(("card", "other"), 1) is failures.waiting(("other", "type"), 1) is None
    assert failures.waiting((TWO,), 1) is None and failures.waiting((ONE,), 1) is not None
    assert set(failures.without(RemoveMdev(ONE)).by_key) == {("card", "type")}


def test_what_fails_as_one() -> None:
    assert key_of(CreateMdev("card", "type", ONE)) == key_of(CreateMdev("card", "type", TWO))
    assert key_of(SetVgpuProfile("0000:41:00.4", 7)) != key_of(SetVgpuProfile("0000:41:00.4", 8))
    assert key_of(BindDriver("0000:41:00.4", "vfio-pci")) == ("0000:41:00.4",)


def test_of_two_the_one_that_waits_longer_counts() -> None:
    change = RemoveMdev(ONE)
    early, late = Failures().after(change, "early", 0), Failures().after(change, "late", 5)
    for joined in (early.joined(late), late.joined(early)):
        assert [failure.error for failure in joined.by_key.values()] == ["late"]
    other = Failures().after(RemoveMdev(TWO), "other", 0)
    assert set(early.joined(other).by_key) == {(ONE,), (TWO,)}


def test_attempts_remember_what_became_of_each() -> None:
    def refuse_two(change: HostChange) -> Applied:
        if change.device == TWO:
            raise HardwareError("no")
        return Applied(change, changed=True)

    attempts = Attempts(refuse_two, Failures().after(RemoveMdev(ONE), "before", 0), FakeClock())
    assert attempts.make(RemoveMdev(ONE)) is True and not attempts.failures.by_key
    assert attempts.make(RemoveMdev(TWO)) is None
    (failure,) = attempts.failures.by_key.values()
    assert (failure.error, failure.how_often) == ("no", "the first time")


def test_a_bug_is_no_failure() -> None:
    def break_down(change: HostChange) -> Applied:
        raise InvariantError("a bug")

    with pytest.raises(InvariantError):
        Attempts(break_down, Failures(), FakeClock()).make(RemoveMdev(ONE))
