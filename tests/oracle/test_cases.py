"""The committed cases are those of the generators, and cover what they are for. Needs no Go."""

from __future__ import annotations

from collections import Counter

from tests.allocation.dice import TIERS
from tests.allocation.generate import generate_case
from tests.cases import read_cases
from tests.cel.generate import generate_selector_case
from tests.oracle.corpus import ALLOCATION, SELECTOR, TIER_SIZES
from tests.oracle.outcomes import ALLOCATION_ERRORS, allocation_outcome, selector_outcome
from tests.oracle.shrink import shrink

MOST_BYTES = 1_500_000


def test_allocator_cases_are_those_of_the_generator() -> None:
    for case in read_cases(ALLOCATION):
        seed = int(case["name"].rpartition("-")[2])
        assert case == generate_case(seed, tier=case["tier"]) | {"answer": case["answer"]}


def test_selector_cases_are_those_of_the_generator() -> None:
    for case in read_cases(SELECTOR):
        made = generate_selector_case(int(case["name"].rpartition("-")[2]))
        assert case == made | {"answer": case["answer"]}


def test_allocator_cases_cover_tiers_features_and_outcomes() -> None:
    found = read_cases(ALLOCATION)
    assert Counter(case["tier"] for case in found) == TIER_SIZES
    assert {feature for case in found for feature in case["features"]} == set(TIERS["experimental"])
    outcomes = Counter(allocation_outcome(case["answer"]) for case in found)
    assert outcomes["allocated"] >= 200
    assert outcomes["none"] >= 100
    never = {"unreadable case", "panic", "aborted", "no tier", "count too large"}
    assert {f"error: {kind}" for _, kind in ALLOCATION_ERRORS} - set(outcomes) == {
        f"error: {kind}" for kind in never
    }


def test_selector_cases_cover_outcomes() -> None:
    outcomes = Counter(selector_outcome(case["answer"]).partition(":")[0] for case in read_cases(SELECTOR))
    assert outcomes.total() == 500
    assert min(outcomes["match"], outcomes["error"], outcomes["compile error"]) >= 50


def test_files_stay_small() -> None:
    assert max(ALLOCATION.stat().st_size, SELECTOR.stat().st_size) < MOST_BYTES


def test_a_case_is_made_as_small_as_the_difference_allows() -> None:
    case = generate_selector_case(1) | {
        "expression": 'cel.bind(x, [1, 2], x.exists(y, y == 2)) || "a".trim() == "a"'
    }
    small = shrink(case, lambda part: "trim" in part["expression"])
    assert small["expression"] == "trim"
    assert small["device"] == {"driver": case["device"]["driver"]}
