"""What a rule's status says, in the words of Kubernetes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dray.api.kinds import DEVICE_TAINT_RULES, RESOURCE_SLICES
from dray.api.resource import DeviceTaintRule
from dray.controllers.taints.eviction import CORRECT, EvictionPolicy, Pools
from dray.controllers.taints.rule_status import Counts, count, new_condition, wait
from tests.controllers.claims.groups import member
from tests.controllers.claims.groups import user as group_user
from tests.controllers.objects import NS, Json, claim, pod, rule_document, slice_document, typed, used, user

NOW = datetime(2030, 1, 1, 0, 1, tzinfo=UTC)
NONE_TOLD = (
    "1 published device selected. 2 allocated devices selected. 1 pod would be evicted in 1 namespace "
    "if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
)


def rule(
    effect: str = "NoExecute", condition: Json | None = None, selector: Json | None = None
) -> DeviceTaintRule:
    document = rule_document(selector=selector or {}, effect=effect)
    if condition is not None:
        document["status"] = {"conditions": [condition]}
    return typed(DEVICE_TAINT_RULES, document)


@pytest.mark.parametrize(
    ("effect", "counts", "evicted", "expected"),
    [
        ("NoExecute", Counts(), 0, ("False", "NotStarted", "")),
        (
            "NoExecute",
            Counts(1, 1),
            0,
            ("True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace."),
        ),
        (
            "NoExecute",
            Counts(10, 2),
            3,
            (
                "True",
                "PodsPendingEviction",
                "10 pods need to be evicted in 2 different namespaces. 3 pods evicted since starting the controller.",
            ),
        ),
        ("NoExecute", Counts(), 1, ("False", "Completed", "1 pod evicted since starting the controller.")),
        (
            "None",
            Counts(1, 1, 1, 2),
            0,
            (
                "False",
                "NoEffect",
                NONE_TOLD,
            ),
        ),
        (
            "NoSchedule",
            Counts(),
            0,
            ("False", "OtherEffect", "Eviction only happens for the NoExecute effect."),
        ),
    ],
)
def test_words(effect: str, counts: Counts, evicted: int, expected: tuple[str, str, str]) -> None:
    found = new_condition(rule(effect), counts, evicted, NOW)
    assert found is not None
    assert (found["status"], found["reason"], found["message"]) == expected
    assert found["lastTransitionTime"] == "2030-01-01T00:01:00Z"
    assert new_condition(rule(effect, condition=found), counts, evicted, NOW + timedelta(hours=1)) is None


def test_it_is_refreshed_every_ten_seconds_and_at_once_for_a_new_spec() -> None:
    said = {
        "type": "EvictionInProgress",
        "status": "False",
        "observedGeneration": 1,
        "lastTransitionTime": "2030-01-01T00:00:57Z",
    }
    assert wait(rule(), NOW) == 0
    assert wait(rule(condition=said), NOW) == 7
    assert wait(rule(condition=said), NOW + timedelta(seconds=60)) == 0
    assert wait(rule(condition=said), NOW - timedelta(days=1)) == 10  # a clock that went back
    assert wait(rule(condition=said | {"observedGeneration": 0}), NOW) == 0
    assert wait(rule("None", condition=said), NOW + timedelta(days=1)) is None


@pytest.mark.parametrize(
    ("name", "effect", "others", "message"),
    [
        ("evict-pod-rule", "NoExecute", (), "1 pod needs to be evicted in 1 namespace."),
        (
            "evict-many-pods-many-namespaces",
            "NoExecute",
            (("p", "far"),),
            "2 pods need to be evicted in 2 different namespaces.",
        ),
        (
            "evict-many-pods-same-namespace",
            "NoExecute",
            (("q", NS),),
            "2 pods need to be evicted in 1 namespace.",
        ),
        (
            "none-pod-rule",
            "None",
            (),
            "1 allocated device selected. 1 pod would be evicted in 1 namespace if",
        ),
        (
            "none-many-pods-many-namespaces",
            "None",
            (("p", "far"),),
            "2 allocated devices selected. 2 pods would be evicted in 2 different namespaces if",
        ),
        (
            "none-many-pods-same-namespace",
            "None",
            (("q", NS),),
            "2 allocated devices selected. 2 pods would be evicted in 1 namespace if",
        ),
    ],
)
def test_many_pods(name: str, effect: str, others: tuple[tuple[str, str], ...], message: str) -> None:
    """Each pod has a claim of its own name."""
    all_pods = [("p", NS), *others]
    pods = [
        pod(one, uid=f"{space}-{one}", static={"a": one}, node="n", namespace=space)
        for one, space in all_pods
    ]
    claims = {
        (space, one): claim(one, users=[user(one, f"{space}-{one}")], devices=[used()], namespace=space)
        for one, space in all_pods
    }
    found = count(
        rule(effect), pods, claims.values(), lambda space, one: claims.get((space, one)), Pools(), CORRECT
    )
    said = new_condition(rule(effect), found, 0, NOW)
    assert said is not None and message in said["message"], name


def test_none_podgroup_rule() -> None:
    """What is reserved for a group counts for its pods, with the gate."""
    one = claim(users=[group_user()], devices=[used()])
    pods = [member(static={"a": "claim"}, node="n")]
    on, off = EvictionPolicy(workload_claims=True), CORRECT
    assert count(rule("None"), pods, [one], lambda *_: one, Pools(), on) == Counts(1, 1, 0, 1)
    assert count(rule("None"), pods, [one], lambda *_: one, Pools(), off) == Counts(0, 0, 0, 1)


def test_rule_status() -> None:
    """rule-status: a rule that nobody is hit by says so."""
    found = count(rule(), [], [], lambda *_: None, Pools(), CORRECT)
    said = new_condition(rule(), found, 0, NOW)
    assert said is not None and (said["status"], said["reason"]) == ("False", "NotStarted")


@pytest.mark.parametrize("effect", ["None", "NoExecute"])
def test_counts(effect: str) -> None:
    pods = [pod(static={"a": "claim"}, node="n"), pod("q", uid="other", static={"a": "claim"}, node="n")]
    one = claim(users=[user()], devices=[used(), used(device="g1")])
    pools = Pools(
        [typed(RESOURCE_SLICES, slice_document("s")), typed(RESOURCE_SLICES, slice_document("t", device="x"))]
    )
    found = count(rule(effect), pods, [one], lambda *_: one, pools, CORRECT)
    assert found == Counts(1, 1, 2, 2)
    narrow = rule(effect, selector={"device": "g1"})
    assert count(narrow, pods, [one], lambda *_: one, pools, CORRECT) == Counts(1, 1, 0, 1)
    assert count(rule("NoSchedule"), pods, [one], lambda *_: one, pools, CORRECT) == Counts()
