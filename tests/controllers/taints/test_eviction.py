"""When pods must leave: the scenarios of Kubernetes' TestController that decide something, by their names, and ours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from dray.api.core import Pod
from dray.api.kinds import DEVICE_TAINT_RULES, RESOURCE_SLICES
from dray.api.resource import ResourceClaim
from dray.controllers.taints.eviction import (
    CORRECT,
    KUBERNETES_1_36,
    EvictionPolicy,
    Pools,
    claim_eviction,
    pod_eviction,
)
from tests.controllers.claims.groups import group_claim, member
from tests.controllers.claims.groups import user as group_user
from tests.controllers.objects import (
    OTHER_UID,
    Json,
    claim,
    pod,
    rule_document,
    slice_document,
    taint,
    typed,
    used,
    user,
)

START = datetime(2030, 1, 1, tzinfo=UTC)
EVERYTHING: Json = {}


def tolerate(effect: str = "NoExecute", seconds: int | None = None, key: str = "bad") -> Json:
    found: Json = {"key": key, "operator": "Exists", "effect": effect}
    return found | ({} if seconds is None else {"tolerationSeconds": seconds})


def uses(*devices: Json, **kwargs: object) -> ResourceClaim:
    arguments: dict[str, object] = {"users": [user()], "devices": list(devices) or [used()], **kwargs}
    return claim(**arguments)  # type: ignore[arg-type]


PLACED = pod(static={"a": "claim"}, node="n")
TEMPLATED = pod(claims={"a": "t"}, recorded={"a": "claim"}, node="n")
TAINTED = slice_document("s", taint())


def of_thief(*taints: Json) -> Json:
    return slice_document("x", *taints, generation=2**40, node="thief")


RULE = rule_document(selector={"driver": "d.example"})


@dataclass(frozen=True)
class Case:
    name: str
    expected: float | None
    """Seconds after the taint; None: it stays."""
    pod: Pod = PLACED
    claims: tuple[ResourceClaim, ...] = (uses(),)
    slices: tuple[Json, ...] = (TAINTED,)
    rules: tuple[Json, ...] = ()
    policy: EvictionPolicy = CORRECT


MEMBER = member(static={"a": "claim"}, node="n")
GROUPS = EvictionPolicy(workload_claims=True)
LATER = taint(at="2030-01-01T00:01:00Z", key="later")
CASES = [
    Case("evict-pod-resourceclaim", 0),
    Case("evict-pod-rule", 0, slices=(), rules=(RULE,)),
    Case("evict-pod-resourceclaimtemplate", 0, pod=TEMPLATED, claims=(uses(owner="p"),)),
    Case("evict-pod-later", 60, claims=(uses(used(tolerate(seconds=60))),)),
    Case("evict-pod-rule-later", 60, claims=(uses(used(tolerate(seconds=60))),), slices=(), rules=(RULE,)),
    Case("evict-pod-later-many", 30, claims=(uses(used(tolerate(seconds=60), tolerate(seconds=30))),)),
    Case("negative seconds", 0, claims=(uses(used(tolerate(seconds=-5))),)),
    Case("evict-pod-toleration-mismatch", 0, claims=(uses(used(tolerate(key="other"))),)),
    Case("no-evict-pod-toleration-forever", None, claims=(uses(used(tolerate())),)),
    Case(
        "no-evict-pod-toleration-forever-many", None, claims=(uses(used(tolerate(seconds=60), tolerate())),)
    ),
    Case(
        "evict-pod-partial-toleration",
        60,
        claims=(uses(used(tolerate())),),
        slices=(slice_document("s", taint(), LATER),),
    ),
    Case("evict-pod-many-taints", 0, slices=(slice_document("s", LATER, taint()),), rules=(RULE,)),
    Case("no-evict-pod-not-scheduled", None, pod=pod(static={"a": "claim"})),
    Case("no-evict-no-taint", None, slices=(slice_document("s"),)),
    Case("no-evict-pod-resourceclaimtemplate-no-status", None, pod=pod(claims={"a": "t"}, node="n")),
    Case("no-evict-pod-resourceclaimtemplate-no-claim", None, pod=TEMPLATED, claims=()),
    Case("no-evict-other-device", None, slices=(slice_document("s", taint(), device="g1"),)),
    Case("no-evict-wrong-pod", None, claims=(uses(users=[user(uid=OTHER_UID)]),)),
    Case("no-evict-wrong-resourceclaim", None, pod=TEMPLATED, claims=(uses(owner="p", owner_uid=OTHER_UID),)),
    Case("no-evict-resourceclaim-deallocated", None, claims=(claim(users=[user()]),)),
    Case("ignore-none-effect", None, slices=(slice_document("s", taint("None")),)),
    Case("ignore-unknown-effect", None, slices=(slice_document("s", taint("Future")),)),
    Case("cancel-eviction-reduce-taint", None, slices=(slice_document("s", taint("NoSchedule")),)),
    Case(
        "cancel-eviction-remove-taint-in-new-slice",
        None,
        slices=(TAINTED, slice_document("newer", generation=2)),
    ),
    Case(
        "taint in the newer slice",
        0,
        slices=(slice_document("s"), slice_document("newer", taint(), generation=2)),
    ),
    Case("cancel-eviction-remove-slice", None, slices=()),
    # Ours: the token of a node may write slices that name this node into any pool.
    Case("a newer slice of another node hides no taint", 0, slices=(TAINTED, of_thief())),
    Case("a taint by another node evicts nobody", None, slices=(slice_document("s"), of_thief(taint()))),
    Case("cancel-eviction-pod-deletion", None, pod=pod(static={"a": "claim"}, node="n", deleted=True)),
    Case(
        "multiple-claims-same-rule",
        0,
        pod=pod(static={"a": "claim", "b": "second"}, node="n"),
        claims=(uses(used(device="g1")), uses(name="second")),
        slices=(),
        rules=(RULE,),
    ),
    Case(
        "evict-pod-resourceclaim-podgroup", 0, pod=MEMBER, claims=(uses(users=[group_user()]),), policy=GROUPS
    ),
    Case(
        "evict-pod-resourceclaim-podgroup from a template",
        0,
        pod=member(claims={"a": "t"}, recorded={"a": "claim"}, node="n"),
        claims=(group_claim("claim", users=[group_user()], devices=[used()]),),
        policy=GROUPS,
    ),
    Case(
        "no-evict-pod-in-podgroup-without-claim",
        None,
        pod=member(node="n"),
        claims=(uses(users=[group_user()]),),
        policy=GROUPS,
    ),
    Case(
        "no-evict-pod-of-another-group",
        None,
        pod=MEMBER,
        claims=(uses(users=[group_user("h")]),),
        policy=GROUPS,
    ),
    Case(
        "no-evict-pod-resourceclaim-podgroup-feature-disabled",
        None,
        pod=MEMBER,
        claims=(uses(users=[group_user()]),),
    ),
    Case(
        "multiple-claims-different-rules",
        0,
        pod=pod(static={"a": "claim", "b": "second"}, node="n"),
        claims=(uses(used(device="g1")), uses(name="second")),
        slices=(),
        rules=(
            rule_document("late", selector={"device": "g1"}, at="2030-01-01T00:01:00Z"),
            rule_document("early", selector={"device": "g0"}),
        ),
    ),
    # Ours.
    Case("a pod that has ended", None, pod=pod(static={"a": "claim"}, node="n", phase="Failed")),
    Case("its extended resources' claim", 0, pod=pod(extended="claim", node="n"), claims=(uses(owner="p"),)),
    Case("rule of another pool", None, slices=(), rules=(rule_document(selector={"pool": "m"}),)),
    Case("rule for all", 0, slices=(), rules=(rule_document(selector=EVERYTHING),)),
    Case("rule without a selector", None, slices=(), rules=(rule_document(),)),
    Case(
        "Q7: rule without a selector",
        0,
        slices=(),
        rules=(rule_document(),),
        policy=EvictionPolicy(bare_rule_evicts_all=True),
    ),
    Case("toleration without an effect", None, claims=(uses(used(tolerate(""))),)),
    Case("Q8: toleration without an effect", 0, claims=(uses(used(tolerate(""))),), policy=KUBERNETES_1_36),
    Case("toleration of another effect", 0, claims=(uses(used(tolerate("NoSchedule"))),)),
    Case("a toleration as long as a number goes", None, claims=(uses(used(tolerate(seconds=2**63 - 1))),)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_scenario(case: Case) -> None:
    claims = {(one.metadata.namespace, one.metadata.name): one for one in case.claims}
    found = pod_eviction(
        case.pod,
        lambda namespace, name: claims.get((namespace, name)),
        Pools(typed(RESOURCE_SLICES, one) for one in case.slices),
        [typed(DEVICE_TAINT_RULES, one) for one in case.rules],
        case.policy,
    )
    assert (None if found is None else (found.when - START).total_seconds()) == case.expected


def test_all_reasons_are_named_in_order() -> None:
    slices = Pools([typed(RESOURCE_SLICES, TAINTED)])
    rules = [typed(DEVICE_TAINT_RULES, rule_document(name, selector=EVERYTHING)) for name in ("z", "a")]
    found = pod_eviction(PLACED, lambda *_: uses(), slices, rules, CORRECT)
    assert found is not None
    assert [(one.rule, one.name) for one in found.reasons] == [("", "s/g0"), ("uid-a", "a"), ("uid-z", "z")]


@pytest.mark.parametrize(
    ("name", "slices", "rules", "expected"),
    [
        ("empty", (), (), None),
        ("untainted-claim", (slice_document(),), (), None),
        ("tainted-claim-through-resourceslice", (TAINTED,), (), ["s/g0"]),
        ("tainted-claim-through-rule", (), (RULE,), ["rule"]),
    ],
)
def test_claim(
    name: str, slices: tuple[Json, ...], rules: tuple[Json, ...], expected: list[str] | None
) -> None:
    """A claim is tainted whether or not a pod is there."""
    pools = Pools(typed(RESOURCE_SLICES, one) for one in slices)
    found = claim_eviction(uses(), "n", pools, [typed(DEVICE_TAINT_RULES, one) for one in rules], CORRECT)
    assert (None if found is None else [one.name for one in found.reasons]) == expected


def test_pools_follow_their_slices() -> None:
    """populate-pools, update-pools."""
    pools = Pools()
    old, new = typed(RESOURCE_SLICES, TAINTED), typed(RESOURCE_SLICES, slice_document("t", generation=2))
    pools.put(old)
    assert [taint.key for _, taint in pools.taints("n", "d.example", "n", "g0")] == ["bad"]
    pools.put(new)
    assert pools.taints("n", "d.example", "n", "g0") == ()
    pools.drop(new)
    assert [name for name, _ in pools.taints("n", "d.example", "n", "g0")] == ["s"]
    pools.drop(old)
    pools.drop(old)
    assert list(pools.current()) == []
