from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dray.drivers.failures import Failures
from dray.drivers.pci.profiles import ProfilePlan, ProfileRule, ProfileView, plan_profiles
from dray.errors import InvalidError
from dray.hardware.change import SetVgpuProfile
from dray.hardware.pci import PciFunction, Sriov
from dray.hardware.vgpu import VgpuFunction, VgpuType

CARD = PciFunction("0000:41:00.0", "10de", "2335", "030200", driver="nvidia", sriov=Sriov(16))
OFFER = (VgpuType(1414, "NVIDIA H200X-1-18C"), VgpuType(1428, "NVIDIA H200X-141C"))
ALL = ProfileRule(1414, id="10DE:2335")


def vf(number: int, current: int | None = None, *, card: str = "0000:41:00.0") -> PciFunction:
    return PciFunction(
        f"0000:41:00.{number}",
        "10de",
        "2335",
        "030200",
        driver="nvidia",
        physical_function=card,
        is_vgpu=True,
        vgpu_profile=None if current is None else str(current),
    )


def view(*functions: PciFunction, held: tuple[str, ...] = (), offer: Any = OFFER) -> ProfileView:
    vgpus = {f.address: VgpuFunction(f.address, f.vgpu_profile, offer) for f in functions if f.is_vgpu}
    return ProfileView((CARD, *functions), vgpus, {}, frozenset(held))


def plan(seen: ProfileView, *rules: ProfileRule, failures: Failures | None = None) -> ProfilePlan:
    return plan_profiles(seen, rules, failures or Failures(), 10.0)


def given(planned: ProfilePlan) -> dict[str, int]:
    return {change.address: change.profile for change in planned.give}


def test_all_virtual_functions_of_an_id_and_not_the_card() -> None:
    found = plan(view(vf(4), vf(5)), ALL)
    assert found == ProfilePlan(
        give=(SetVgpuProfile("0000:41:00.4", 1414), SetVgpuProfile("0000:41:00.5", 1414))
    )


def test_one_that_has_its_profile_is_left_alone() -> None:
    found = plan(view(vf(4, 1414)), ALL)
    assert found == ProfilePlan() and found.is_done


def test_an_address_goes_first_and_of_equal_rules_the_last() -> None:
    rules = (ALL, ProfileRule(7, address="0000:41:00.5"), ProfileRule(8, id="10de:2335"))
    assert given(plan(view(vf(4), vf(5)), *rules)) == {"0000:41:00.4": 8, "0000:41:00.5": 7}
    assert given(plan(view(vf(4), vf(5)), *rules[::-1])) == {"0000:41:00.4": 1414, "0000:41:00.5": 7}


def test_without_a_rule_nothing_is_written() -> None:
    assert plan(view(vf(4, 1414), vf(5))) == ProfilePlan()
    assert given(plan(view(vf(4, 1428), vf(5)), ProfileRule(1414, address="0000:41:00.5"))) == {
        "0000:41:00.5": 1414
    }


@pytest.mark.parametrize("name", ["NVIDIA H200X-141C", "NVIDIA_H200X-141C", "H200X-141C"])
def test_a_profile_by_name(name: str) -> None:
    assert given(plan(view(vf(4)), ProfileRule(name, address="0000:41:00.4"))) == {"0000:41:00.4": 1428}


def test_a_name_that_is_not_offered_is_a_problem_that_lists_what_is() -> None:
    found = plan(view(vf(4)), ProfileRule("H200X-9", id="10de:2335"))
    (problem,) = found.problems
    assert found.is_done and problem.path == "/sys/bus/pci/devices/0000:41:00.4"
    assert "'H200X-9'" in problem.message
    assert "NVIDIA H200X-1-18C (1414), NVIDIA H200X-141C (1428)" in problem.message
    (problem,) = plan(view(vf(4), offer=()), ProfileRule("H200X-9", id="10de:2335")).problems
    assert "it offers no profile at all" in problem.message


def test_a_name_that_was_seen_before_is_still_known() -> None:
    """A GPU that is in use offers less, or nothing: that must not make a function look wrong."""
    rule = ProfileRule("NVIDIA H200X-141C", id="10de:2335")
    full = view(vf(4, 1428), offer=())
    (problem,) = plan(full, rule).problems
    assert "it keeps profile 1428" in problem.message
    assert plan(replace(full, names={1428: "NVIDIA H200X-141C"}), rule) == ProfilePlan()


def test_a_function_in_use_keeps_its_profile() -> None:
    found = plan(view(vf(4, 1428), held=("0000:41:00.4",)), ALL)
    assert found.is_done and found.is_held
    assert found.problems[0].message == "0000:41:00.4 is in use: it gets vGPU profile 1414 when it is free"
    right = plan(view(vf(4, 1414), held=("0000:41:00.4",)), ALL)
    assert right == ProfilePlan()


def test_what_takes_no_profile_is_a_problem() -> None:
    plain = replace(vf(4), is_vgpu=False, driver="vfio-pci")
    bare = replace(vf(5), is_vgpu=False, driver=None)
    messages = [problem.message for problem in plan(view(plain, bare), ALL).problems]
    assert "is bound to vfio-pci" in messages[0] and "is without driver" in messages[1]
    (problem,) = plan(view(), ProfileRule(1414, address="0000:41:00.0")).problems
    assert "name its virtual functions" in problem.message


def test_rules_that_nothing_matches_are_no_error() -> None:
    found = plan(view(vf(4)), ProfileRule(1, address="0000:99:00.1"), ProfileRule(2, id="10de:1eb8"), ALL)
    assert found.unplaced == ("0000:99:00.1", "10de:1eb8") and not found.problems
    # The card itself has the id; that is no match, and one whose functions all have rules of their own is.
    assert plan(view(), ALL).unplaced == ("10DE:2335",)
    assert not plan(view(vf(4)), ALL, ProfileRule(2, address="0000:41:00.4")).unplaced


def test_old_profiles_go_before_new_ones_come() -> None:
    found = plan(view(vf(4, 1428), vf(5, 1428), vf(6)), ALL)
    assert found.clear == (SetVgpuProfile("0000:41:00.4", 0), SetVgpuProfile("0000:41:00.5", 0))
    assert len(found.give) == 3


@pytest.mark.parametrize("reason", ["held", "no rule", "waiting"])
def test_nothing_is_cleared_while_another_function_of_the_card_keeps_its_profile(reason: str) -> None:
    """The GPU may refuse the new profile then: who has an old one shall not lose it for nothing."""
    fixed = "0000:41:00.4"
    other = vf(6, 1428, card="0000:42:00.0")
    seen = view(vf(4, 1428), vf(5, 1428), other, held=(fixed,) if reason == "held" else ())
    rules = [ALL] if reason != "no rule" else [ProfileRule(1414, address=f"0000:41:00.{n}") for n in (5, 6)]
    failures = Failures().after(SetVgpuProfile(fixed, 0), "no", 9.0) if reason == "waiting" else Failures()
    found = plan(seen, *rules, failures=failures)
    assert found.clear == (SetVgpuProfile("0000:41:00.6", 0),)
    assert given(found) == {"0000:41:00.5": 1414, "0000:41:00.6": 1414}


def test_a_failure_waits_for_its_profile_alone() -> None:
    failures = Failures().after(SetVgpuProfile("0000:41:00.4", 1414), "the GPU is full", 9.0)
    found = plan(view(vf(4)), ALL, failures=failures)
    assert found.is_done and found.next_try == 11.0
    assert found.problems[0].message.endswith("the first time: the GPU is full")
    assert given(plan(view(vf(4)), ProfileRule(1428, id="10de:2335"), failures=failures))
    assert not plan_profiles(view(vf(4)), [ALL], failures, 11.0).is_done


@pytest.mark.parametrize(
    "fields",
    [
        {"profile": 1},
        {"profile": 1, "id": "10de:2335", "address": "0000:41:00.4"},
        {"profile": 1, "id": "10de"},
        {"profile": 1, "address": "41:0.4"},
        {"profile": 0, "id": "10de:2335"},
        {"profile": "", "id": "10de:2335"},
        {"profile": 2**32, "id": "10de:2335"},
    ],
)
def test_rules_that_say_nothing_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        ProfileRule(**fields)
