"""A selector tried on many devices."""

from __future__ import annotations

from dray.allocation.budget import Budget
from dray.allocation.features import Features
from dray.allocation.selector_trial import try_selector
from dray.api.codec import view
from dray.api.resource.slice import ResourceSlice
from tests.allocation.world import device, piece
from tests.counting import Calls

TEN = "[1,2,3,4,5,6,7,8,9,10]"


def loops(names: str) -> str:
    """Ten times as much to do for each name."""
    return "".join(f"{TEN}.all({name}, " for name in names) + "true" + ")" * len(names)


def work(text: str, devices: ResourceSlice) -> int:
    with Calls() as calls:
        try_selector(text, [devices], Features())
    return calls.count


def test_a_costly_text_runs_once_for_each_distinct_reading() -> None:
    devices = [device(f"d-{number}", attributes={"n": {"int": number}}) for number in range(100)]
    one = view(piece(*devices), ResourceSlice)
    alone = view(piece(devices[0]), ResourceSlice)
    assert work(loops("abcd"), one) < 2 * work(loops("abcd"), alone)
    trial = try_selector(loops("abcdefg"), [one], Features())
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
    trial = try_selector(bomb, [view(piece(*devices), ResourceSlice)], Features())
    assert [one.match for one in trial.outcomes[:6]] == [False] * 6
    assert {one.error for one in trial.outcomes[6:9]} == {"operation cancelled: actual cost limit exceeded"}
    assert {one.error for one in trial.outcomes[9:]} == {"not run: it cost too much on 3 devices before"}


def test_devices_that_are_left_when_the_time_is_over_have_no_answer() -> None:
    """The readings differ, and each takes some ten thousand steps: the clock moves a second a look."""
    ticks = iter(range(1000))
    budget = Budget(40.0, lambda: float(next(ticks)))
    devices = [device(f"d-{number}", attributes={"n": {"int": number}}) for number in range(20)]
    text = 'lists.range(3000).all(x, string(x) != "") && device.attributes["driver-a"].n >= 0'
    trial = try_selector(text, [view(piece(*devices), ResourceSlice)], Features(), budget)
    assert trial.outcomes[0].match is True
    left = {(one.match, one.error, one.cost) for one in trial.outcomes if one.match is None}
    assert left == {(None, "stopped after 40 s: whether the selector matches here is not known", None)}
