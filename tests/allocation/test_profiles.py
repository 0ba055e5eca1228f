"""The quirks that are not tested with their module, and the table in the reference."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from dray.allocation.profiles import (
    CORRECT,
    KUBERNETES_1_36,
    KUBERNETES_1_37,
    PROFILES,
    Profile,
    profile_named,
    profile_of_server,
)
from dray.errors import InvalidError
from tests.allocation.world import (
    PARTITIONS,
    case,
    claim,
    counters,
    device,
    devices,
    every,
    fault,
    picks,
    piece,
    request,
)

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "allocator.md"
SWITCHES = [field.name for field in fields(Profile) if field.name != "name"]


def test_correct_has_no_quirk_and_1_36_has_all() -> None:
    assert not any(getattr(CORRECT, name) for name in SWITCHES)
    assert all(getattr(KUBERNETES_1_36, name) for name in SWITCHES)


def test_the_reference_tells_what_each_profile_does() -> None:
    rows = re.findall(r"^\| .*\| `(\w+)` \| (\w+) \| (\w+) \| (\w+) \|$", REFERENCE.read_text(), re.MULTILINE)
    words = {True: "yes", False: "no"}
    expected = [(name, *(words[getattr(one, name)] for one in PROFILES.values())) for name in SWITCHES]
    assert rows == expected


def test_names() -> None:
    assert profile_named("correct") is CORRECT
    with pytest.raises(InvalidError, match=r"no profile 'best': there are k8s-1\.36, k8s-1\.37, correct"):
        profile_named("best")


@pytest.mark.parametrize("profile", list(PROFILES))
def test_q5_counter_slices_of_other_nodes(profile: str) -> None:
    """The counter slice alone makes an unfinished pool of node-2 one of this node's, and All fails."""
    far = counters(set_1={"mem": "1"}, of=3, name="far")
    far["spec"] |= {"nodeName": "node-2", "driver": "driver-b"}
    given = case([piece(*devices("one")), far], claim(every()), features=(PARTITIONS,))
    if profile == "k8s-1.36":
        assert "resource pool driver-b/pool-1 is currently being updated" in fault(given)
    else:
        assert picks(given, profile) == ["req-0=one"]


@pytest.mark.parametrize("profile", list(PROFILES))
def test_q5_counters_on_another_node_s_slice_still_count(profile: str) -> None:
    slices = [
        piece(
            device("a", consumesCounters=[{"counterSet": "set-1", "counters": {"mem": {"value": "2"}}}]), of=2
        ),
        counters(set_1={"mem": "1"}),
    ]
    slices[1]["spec"]["nodeName"] = "node-2"
    given = case(slices, claim(request()), features=(PARTITIONS,))
    assert picks(given, profile) is None
    slices[1]["spec"]["sharedCounters"][0]["counters"]["mem"]["value"] = "2"
    assert picks(given, profile) == ["req-0=a"]


@pytest.mark.parametrize("profile", list(PROFILES))
def test_q9_newer_generation_elsewhere(profile: str) -> None:
    elsewhere = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gone", "operator": "Exists"}]}]}
    newer = piece(*devices("two"), name="s2", generation=2, nodeSelector=elsewhere)
    given = case([piece(*devices("one")), newer], claim(request()))
    assert picks(given, profile) == (None if profile == "correct" else ["req-0=one"])


@pytest.mark.parametrize("profile", list(PROFILES))
def test_q15_all_and_a_pool_that_is_none_of_its_business(profile: str) -> None:
    unfinished = piece(*devices("b"), driver="driver-b", name="s2", of=2)
    given = case([piece(*devices("one")), unfinished], claim(every()))
    if profile == "correct":
        assert picks(given, profile) == ["req-0=one"]
    else:
        assert "driver-b/pool-1 is currently being updated" in fault(given, profile)


def test_q15_all_and_a_pool_that_is() -> None:
    unfinished = piece(*devices("two"), pool="pool-2", name="s2", of=2)
    given = case([piece(*devices("one")), unfinished], claim(every()))
    assert "driver-a/pool-2 is currently being updated" in fault(given, "correct")
    empty = piece(driver="driver-b", name="s3", of=2, devices=[])
    assert "driver-b/pool-1 is" in fault(case([empty], claim(every())), "correct")


@pytest.mark.parametrize(
    ("minor", "profile", "is_guess"),
    [
        ("36", KUBERNETES_1_36, False),
        ("37+", KUBERNETES_1_37, False),
        ("34", KUBERNETES_1_36, True),
        ("40", KUBERNETES_1_37, True),
    ],
)
def test_the_profile_of_a_server(minor: str, profile: Profile, is_guess: bool) -> None:
    found, note = profile_of_server("1", minor)
    assert (found, bool(note)) == (profile, is_guess)
    assert profile_of_server("2", "0")[1] and profile_of_server("", "")[1]
