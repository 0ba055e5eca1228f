"""A selector tried on many devices."""

from __future__ import annotations

import time

from dray.allocation.features import Features
from dray.allocation.selector_trial import try_selector
from dray.api.codec import view
from dray.api.resource.slice import ResourceSlice
from tests.allocation.world import device, piece

TEN = "[1,2,3,4,5,6,7,8,9,10]"


def test_a_costly_text_runs_once_for_each_distinct_reading() -> None:
    bomb = "".join(f"{TEN}.all({name}, " for name in "abcdefg") + "true" + ")" * 7
    devices = [device(f"d-{number}", attributes={"n": {"int": number}}) for number in range(100)]
    one = view(piece(*devices), ResourceSlice)
    start = time.perf_counter()
    trial = try_selector(bomb, [one], Features())
    assert time.perf_counter() - start < 10
    assert trial.is_too_complex
    assert {outcome.error for outcome in trial.outcomes} == {
        "operation cancelled: actual cost limit exceeded"
    }
    by_number = try_selector('device.attributes["driver-a"].n == 7', [one], Features())
    assert [one.device for one in by_number.outcomes if one.match] == ["d-7"]


def test_a_text_that_costs_too_much_is_not_run_on_every_device() -> None:
    """The readings differ, so each device would be asked; 80 loops in each other are cut off on every one of them."""
    inner = 'device.attributes["driver-a"].n > 5'
    bomb = "".join(f"[1, 2].all(x{depth}, " for depth in range(80)) + inner + ")" * 80
    devices = [device(f"d-{number}", attributes={"n": {"int": number}}) for number in range(100)]
    start = time.perf_counter()
    trial = try_selector(bomb, [view(piece(*devices), ResourceSlice)], Features())
    assert time.perf_counter() - start < 10
    assert [one.match for one in trial.outcomes[:6]] == [False] * 6
    assert {one.error for one in trial.outcomes[6:9]} == {"operation cancelled: actual cost limit exceeded"}
    assert {one.error for one in trial.outcomes[9:]} == {"not run: it cost too much on 3 devices before"}
