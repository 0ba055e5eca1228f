"""Explanations of searches that take too long say so, and claim nothing."""

from __future__ import annotations

import pytest

from dray.allocation.cluster.simulate import simulate
from dray.allocation.cluster.situation import Situation
from dray.allocation.cluster.workloads import workloads_of
from dray.allocation.explanation.documents import reasons_document
from dray.allocation.explanation.explain import Explanation, explain_workload
from dray.allocation.explanation.nearest import NearestMisses
from dray.allocation.explanation.refusal import Explainer
from dray.cli.refusal_view import reasons_lines
from tests.allocation.dumps import claims, holding, situation, slices
from tests.allocation.world import Json, claim, device, piece, request

TAINT = {"key": "k", "effect": "NoSchedule"}
FITS, NOT = claim(request()), claim(request(3))


class Ticks:
    """A clock that goes on by a second with every look at it, from the `first` look on."""

    def __init__(self, first: int = 0) -> None:
        self._looks = -first

    def now(self) -> float:
        self._looks += 1
        return float(max(self._looks, 0))


def world(asked: Json, devices: int = 128) -> Situation:
    made = [device(f"d{number}", attributes={"n": {"int": number}}) for number in range(devices)]
    return situation(slices(piece(*made)), claims(asked))


def explained(one: Situation) -> Explanation:
    workload = workloads_of(one.cluster)[0]
    return explain_workload(one, workload, one.cluster.nodes, one.other())


def test_a_node_that_was_stopped_is_not_one_that_does_not_fit() -> None:
    stopped = explained(world(FITS).within(1.5, Ticks().now))
    assert stopped.verdict.stopped_on == ("node-1",) and stopped.verdict.fits_on == ()
    assert stopped.difference is None
    (group,) = stopped.reasons.groups
    assert group.refusal.reason.startswith("the search for devices was stopped after 1.5 s: ")
    assert stopped.reasons.misses == () == stopped.reasons.changes


def test_with_time_nothing_is_stopped() -> None:
    got = explained(world(FITS).within(10, lambda: 0.0))
    assert got.verdict.stopped_on == () and got.verdict.fits_on == ("node-1",)
    refused = explained(world(NOT, 2).within(10, lambda: 0.0))
    assert refused.verdict.stopped_on == () and not refused.reasons.is_cut_off
    assert refused.reasons.changes


def test_changes_that_were_not_tried_to_the_end_are_not_denied() -> None:
    one = world(NOT, 2)
    slow = explained(one.within(10, lambda: 0.0))
    document = reasons_document(slow.reasons, "correct", "experimental")
    assert document["changesCutOff"] is False
    cut = type(slow.reasons)(slow.reasons.groups, is_cut_off=True)
    text = "\n".join(reasons_lines(cut, colour=False))
    assert "there may be others" in text and "No change of one thing" not in text
    assert reasons_document(cut, "correct", "experimental")["changesCutOff"] is True


def test_the_nearest_of_those_looked_at_is_not_told_as_the_nearest() -> None:
    one = world(claim(request(1, 'device.attributes["driver-a"].n == 1000')))
    node, asked = one.cluster.nodes[0], workloads_of(one.cluster)[0].pending
    refusal = Explainer(one.allocator, {}).explain(node, asked)

    def found(some: Situation) -> int:
        explainer = Explainer(some.allocator, {})
        nearest = NearestMisses(some.allocator, some.selectors, some.features, explainer)
        return len(nearest.find(node, asked, refusal))

    assert found(one) > 0
    assert found(one.within(1.5, Ticks().now)) == 0


@pytest.mark.parametrize("seconds", [0.5, 1e9])
def test_a_simulation_says_which_node_was_stopped(seconds: float) -> None:
    one = world(claim(request(1, deviceClassName="class-b"))).within(seconds, Ticks().now)
    got = simulate(one, workloads_of(one.cluster)[0], one.cluster.nodes, 1)
    assert got.fits == 0
    assert got.first is not None and got.first.shortage is not None
    assert ("was stopped" in str(got.first.shortage)) is (seconds < 1)


def test_what_was_tried_in_time_is_told_and_that_more_was_not_tried() -> None:
    """However soon the time is over: each change that is told helps, and where some are left out that is said."""
    held = tuple(holding(name, f"d{number}") for number, name in enumerate("ab"))
    made = [device(f"d{number}", taints=[] if number < 3 else [TAINT]) for number in range(5)]
    one = situation(slices(piece(*made)), claims(claim(request(2)), *held))
    whole = explained(one).reasons.changes
    helping = {edit.text for change in whole for edit in (*change.edits, *change.choices)}
    told = [explained(one.within(1.5, Ticks(first).now)).reasons for first in range(60)]
    for reasons in told:
        assert {
            edit.text for change in reasons.changes for edit in (*change.edits, *change.choices)
        } <= helping
        assert reasons.is_cut_off or reasons.changes in ((), whole)
    assert any(one.is_cut_off and one.changes for one in told) and told[-1].changes == whole
