"""Slices of a campaign: together they are the whole, apart they share no seed."""

from __future__ import annotations

import pytest

from tests.campaign import Plan

WHOLE = Plan(is_long=True)


def test_usually_few_cases_and_always_the_same() -> None:
    plan = Plan.read({})
    assert (plan.count(20, 2000), list(plan.seeds(3, 300))) == (20, [0, 1, 2])
    assert plan.chance(7).random() == plan.chance(7).random()


def test_slices_are_the_whole_and_share_nothing() -> None:
    slices = [Plan(is_long=True, share=share, shares=7) for share in range(1, 8)]
    tried = [seed for one in slices for seed in one.seeds(3, 300)]
    assert len(tried) == len(set(tried))
    assert set(tried) >= set(WHOLE.seeds(3, 300))
    assert len({one.chance("kills").random() for one in slices}) == 7


def test_a_thin_slice_has_at_least_the_usual_cases() -> None:
    assert Plan(is_long=True, share=900, shares=1000).count(20, 2000) == 20


def test_a_step_is_not_shared_out() -> None:
    assert Plan(is_long=True, share=2, shares=24).count(8, 1) == 1


def test_another_seed_gives_other_cases_as_many_as_usual() -> None:
    usual, other = Plan(), Plan.read({"DRAY_SEED": "1000", "DRAY_SLICE": "", "DRAY_CAMPAIGN": ""})
    assert other.count(20, 2000) == 20
    assert not set(usual.seeds(20, 2000)) & set(other.seeds(20, 2000))
    assert usual.chance(7).random() != other.chance(7).random()
    assert other.seeds(2, 2, first=500) == range(1500, 1502)


@pytest.mark.parametrize("name", ["DRAY_SLICE", "DRAY_SEED"])
@pytest.mark.parametrize("text", ["x", "0/3", "4/3", "1/", "-1", "1.5"])
def test_nonsense_is_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"{name}=.*use"):
        Plan.read({name: text})
