"""Random cases over all gates: our allocator in the profile of a version and that version's own give the same answers, tier
by tier."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import pytest

from dray.allocation.cases import run_case
from dray.allocation.profiles import profile_named
from dray.allocation.selector import CompiledSelectors
from tests.allocation.dice import TIERS
from tests.allocation.generate import generate_case
from tests.allocation.odd_cases import odd_case
from tests.allocation.random_cases import random_case
from tests.campaign import campaign, seeds
from tests.go_oracle import Answer, Case
from tests.oracle.compare import Comparer, Report, compare, random_cases

SEEDS = seeds(2_000, 50_000, first=1_000_000)
COUNT = len(SEEDS)
ALL_GATES = TIERS["experimental"]


def agreed(
    cases: Iterable[Case],
    tier: str = "experimental",
    *,
    may_lack: float = 0.001,
    timeout: str = "20s",
    version: str = "1.36",
) -> Report:
    """The comparison, in which nothing may differ, and of all answers at most a share may not be comparable. Some honest cases
    take the Go allocator a second; odd ones may take it for ever."""
    profile = profile_named(f"k8s-{version}")

    def ours(case: Case) -> Answer:
        return run_case(case, CompiledSelectors, profile)

    report = compare(Comparer("allocation"), ours, cases, tier=tier, timeout=timeout, version=version)
    print(report)
    assert not report.labels, str(report)
    assert report.varying + report.left_out <= report.outcomes.total() * may_lack
    return report


@pytest.mark.parametrize("tier", TIERS)
def test_each_tier_agrees_with_its_counterpart(tier: str) -> None:
    outcomes = agreed(random_cases("allocation", SEEDS, tier=tier), tier).outcomes
    assert outcomes.total() == COUNT
    assert min(outcomes["allocated"], outcomes["none"]) > COUNT / 5
    assert len(outcomes) > 12, "few kinds of errors were met"


def test_a_second_generator_agrees() -> None:
    """Written apart from the first, with other domains."""
    outcomes = agreed(random_case(seed) for seed in SEEDS).outcomes
    assert min(outcomes["allocated"], outcomes["none"]) > COUNT / 5


def test_objects_that_no_api_server_would_take_agree() -> None:
    """Some of them make the Go allocator panic, which is an error in ours, or search without end."""
    outcomes = agreed((odd_case(seed) for seed in SEEDS[::2]), may_lack=0.04, timeout="1s").outcomes
    assert outcomes["allocated"] > COUNT / 20


def test_the_tier_that_the_gates_ask_for() -> None:
    """All sets of gates, each on a few cases with one pool: the stable tier walks pools in random order."""
    gates = [some for size in range(len(ALL_GATES) + 1) for some in combinations(ALL_GATES, size)]
    assert len(gates) == 128
    cases = (
        generate_case(seed, tier="stable") | {"tier": "auto", "features": list(some)}
        for at, some in enumerate(gates)
        for seed in range(at * 50, at * 50 + campaign(8, 50))
    )
    agreed(cases)


@pytest.mark.parametrize("tier", TIERS)
def test_each_tier_of_1_37_agrees(tier: str) -> None:
    cases = random_cases("allocation", SEEDS[::4], tier=tier)
    outcomes = agreed(cases, tier, version="1.37").outcomes
    assert min(outcomes["allocated"], outcomes["none"]) > COUNT / 20


def test_odd_objects_agree_with_1_37() -> None:
    cases = (odd_case(seed) for seed in SEEDS[::4])
    agreed(cases, may_lack=0.05, timeout="1s", version="1.37")
