from __future__ import annotations

import pytest

from dray.controllers.choice import ALL, CLAIMS, DEVICE_TAINTS, NODE_TAINTS, NODES, POD_GC, chosen, policies
from dray.errors import InvalidError
from dray.semantics.features import Gate, enabled_gates


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*", (CLAIMS, DEVICE_TAINTS, POD_GC)),
        ("", ()),
        (CLAIMS, (CLAIMS,)),
        (f"{POD_GC}, {CLAIMS}", (CLAIMS, POD_GC)),
        (f"*,-{POD_GC}", (CLAIMS, DEVICE_TAINTS)),
        (f"-{POD_GC},*,{NODES}", (CLAIMS, DEVICE_TAINTS, NODES)),
        (f"{CLAIMS},-{CLAIMS}", ()),
    ],
)
def test_controllers_are_named_as_in_kube_controller_manager(text: str, expected: tuple[str, ...]) -> None:
    assert chosen(text) == expected


def test_node_lifecycle_adds_both_and_a_minus_counts_more() -> None:
    assert chosen("*", node_lifecycle=True) == ALL
    assert chosen(f"*,-{NODE_TAINTS}", node_lifecycle=True) == (CLAIMS, DEVICE_TAINTS, POD_GC, NODES)


@pytest.mark.parametrize("text", ["nothing", "*,-nothing", "--*"])
def test_an_unknown_controller_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(InvalidError, match=r"there is no controller .*resourceclaim-controller, "):
        chosen(text)


@pytest.mark.parametrize(
    ("profile", "quirks", "expected"),
    [
        ("correct", "", (False, False, False)),
        ("k8s-1.36", "", (False, True, True)),
        ("k8s-1.37", "", (False, True, False)),
        ("correct", "Q7", (True, False, False)),
        ("correct", "Q8", (False, True, False)),
        ("correct", "Q13", (False, False, True)),
        ("k8s-1.36", "-Q8", (False, False, True)),
        ("k8s-1.36", "-Q13, Q7", (True, True, False)),
    ],
)
def test_each_quirk_can_be_switched_on_and_off(
    profile: str, quirks: str, expected: tuple[bool, bool, bool]
) -> None:
    """Q7, Q8, Q13; what they do is in test_eviction.py and test_pod_plan.py."""
    found = policies(profile, quirks)
    assert (
        found.eviction.bare_rule_evicts_all,
        found.eviction.bare_toleration_ignored,
        found.claims.new_statuses_only,
    ) == expected


def test_policies_go_by_the_gates() -> None:
    for is_on in (False, True):
        found = policies("correct", "", frozenset(Gate) if is_on else frozenset())
        assert (found.claims.workload_claims, found.eviction.workload_claims) == (is_on, is_on)
        assert (found.claims.admin_access, found.claims.prioritized_list) == (is_on, is_on)
        assert found.eviction.taint_rules is is_on
    default = policies("correct", "")
    assert not default.claims.workload_claims and default.eviction.taint_rules
    assert default.claims.admin_access and default.claims.prioritized_list


def test_without_its_gate_a_controller_does_not_run() -> None:
    gates = enabled_gates({Gate.DEVICE_TAINTS: False})
    assert chosen("*", gates) == (CLAIMS, POD_GC)
    assert chosen(DEVICE_TAINTS, gates) == ()


def test_what_a_scheduler_gave_up_is_freed_where_kubernetes_keeps_it() -> None:
    found = {name: policies(name, "").claims.free_unused for name in ("correct", "k8s-1.36", "k8s-1.37")}
    assert found == {"correct": True, "k8s-1.36": False, "k8s-1.37": False}


@pytest.mark.parametrize(
    ("profile", "quirks", "text"),
    [
        ("k8s-1.30", "", "no profile 'k8s-1.30': there are correct, k8s-1.36, k8s-1.37"),
        ("correct", "Q1", "no quirk 'Q1': there are Q7, Q8, Q13"),
        ("correct", "-Q17", "Q17 is the scheduler's"),
    ],
)
def test_unknown_ones_are_refused(profile: str, quirks: str, text: str) -> None:
    with pytest.raises(InvalidError, match=text):
        policies(profile, quirks)
