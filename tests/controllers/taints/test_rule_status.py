"""What a rule's status says, in the words of Kubernetes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dray.api.kinds import DEVICE_TAINT_RULES, RESOURCE_SLICES
from dray.api.resource import DeviceTaintRule
from dray.controllers.taints.eviction import CORRECT, Pools
from dray.controllers.taints.rule_status import Counts, count, new_condition, wait
from tests.controllers.objects import Json, claim, pod, rule_document, slice_document, typed, used, user

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
