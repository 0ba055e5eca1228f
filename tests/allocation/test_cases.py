from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.allocation.cases import device_id, run_case
from dray.allocation.profiles import profile_named
from dray.allocation.selector import CompiledSelectors
from dray.errors import InvalidError
from tests.allocation.stand_in import StandIn
from tests.allocation.world import answer, case, claim, devices, fault, piece, request
from tests.cases import read_cases
from tests.oracle.outcomes import allocation_view

RECORDED = read_cases(Path(__file__).parent / "cases" / "recorded.jsonl")
RANDOM = read_cases(Path(__file__).parent / "cases" / "random.jsonl")


def masked(results: Any) -> Any:
    """Share IDs are random in both."""
    if isinstance(results, dict):
        return {key: "*" if key == "shareID" else masked(value) for key, value in results.items()}
    return [masked(one) for one in results] if isinstance(results, list) else results


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: str(recorded["name"]))
@pytest.mark.parametrize("tier", ["experimental", "auto"])
def test_recorded_answers(recorded: dict[str, Any], tier: str) -> None:
    got = run_case(recorded | {"tier": tier}, CompiledSelectors)
    assert got["name"] == recorded["name"]
    assert masked(got["results"]) == masked(recorded["results"])
    wanted = " ".join(recorded["error"].split())
    if "not found" in wanted:
        wanted, got["error"] = wanted.split(": ")[1], got["error"].split(": ")[1]
    assert got["error"].startswith(wanted.split("ERROR: ")[0]) and bool(got["error"]) == bool(wanted)


def test_all_are_there() -> None:
    assert len(RECORDED) == 101


def test_random_answers() -> None:
    """The oracle's answers, in all tiers."""
    assert len(RANDOM) == 500 and {one["tier"] for one in RANDOM} == {"stable", "incubating", "experimental"}
    for one in RANDOM:
        assert allocation_view(run_case(one, CompiledSelectors)) == allocation_view(one["answer"]), one[
            "name"
        ]


def test_recorded_answers_without_cel() -> None:
    """What the other tests stand on: the stand-in for selectors answers these like the real ones."""
    for one in RECORDED:
        assert allocation_view(run_case(one, StandIn)) == allocation_view(one), one["name"]


def test_nulls_are_nothing() -> None:
    empty = dict.fromkeys(
        ("features", "classes", "slices", "claims", "allocatedDevices", "allocatedCapacity")
    )
    assert run_case({"name": "n", **empty}, StandIn) == {"name": "n", "results": [], "error": ""}


def test_objects_that_cannot_be_read_are_the_case_s_error() -> None:
    got = run_case({"name": "n", "slices": [{"spec": {"pool": {"generation": "x"}}}]}, StandIn)
    assert "generation" in got["error"] and got["results"] is None


def test_unknown_tier_and_feature() -> None:
    given = case([piece(*devices("one"))], claim(request()))
    assert "no tier 'gold'" in answer(given | {"tier": "gold"})["error"]
    assert "unknown feature 'DRAMagic'" in answer(given | {"features": ["DRAMagic"]})["error"]


@pytest.mark.parametrize(("tier", "fits"), [("stable", False), ("incubating", True), ("experimental", True)])
def test_the_stable_tier_tells_selectors_nothing_of_shares(tier: str, fits: bool) -> None:
    shared = [piece(*devices("one", allowMultipleAllocations=True))]
    given = case(shared, claim(request(1, "device.allowMultipleAllocations"))) | {"tier": tier}
    got = run_case(given, CompiledSelectors)
    assert (got["results"] is not None, got["error"]) == (fits, "")


@pytest.mark.parametrize(("profile", "fits"), [("k8s-1.36", False), ("k8s-1.37", True), ("correct", True)])
def test_list_attributes_without_their_gate(profile: str, fits: bool) -> None:
    slices = [piece(*devices("one", attributes={"x": {"ints": [1]}}))]
    given = case(slices, claim(request(1, 'device.attributes["driver-a"].x.exists(v, v == 1)')))
    got = run_case(given, CompiledSelectors, profile_named(profile))
    assert (got["results"] is not None, bool(got["error"])) == (fits, not fits)


def test_device_ids() -> None:
    assert device_id("d.example/a/b/dev") == ("d.example", "a/b", "dev")
    with pytest.raises(InvalidError, match="DRIVER/POOL/DEVICE"):
        device_id("driver/device")


def test_a_share_in_use_has_an_id_after_its_device() -> None:
    given = case([piece(*devices("one"))], claim(request()), allocatedSharedDeviceIDs=["driver-a"])
    assert fault(given) == "no share ID in 'driver-a'"
