"""What happens to claims when their users go: Kubernetes' own scenarios for claims (TestSyncHandler), and ours."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dray.api.core import Pod
from dray.api.resource import ResourceClaim
from dray.api.scheduling import PodGroup
from dray.controllers.claims.claim_plan import groups_to_look_up, plan_claim, pods_to_look_up
from dray.controllers.claims.known import Table
from dray.controllers.claims.steps import ClaimPolicy, ClaimStep, RemoveFinalizer, SetReservations
from tests.controllers.claims.groups import GROUP_UID, ON, group, group_claim
from tests.controllers.claims.groups import user as group_user
from tests.controllers.objects import NS, OTHER_UID, claim, pod, user

OTHER = user("q", OTHER_UID)
GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g1"}
FOREIGN = {"apiGroup": "foo.com", "resource": "foo", "name": "foo", "uid": "123"}
FREE = ["reserved () and free", "remove finalizer"]
COLLECT = ClaimPolicy()
KEEP_UNUSED = ClaimPolicy(free_unused=False)
LEAVE_ORPHANS = ClaimPolicy(collect_orphans=False)


def told(steps: tuple[ClaimStep, ...]) -> list[str]:
    lines = []
    for step in steps:
        match step:
            case SetReservations(reserved_for=users, deallocate=deallocate):
                names = ",".join(one.name for one in users)
                lines.append(f"reserved ({names})" + (" and free" if deallocate else ""))
            case RemoveFinalizer():
                lines.append("remove finalizer")
            case _:
                lines.append("delete")
    return lines


@dataclass(frozen=True)
class Case:
    name: str
    claim: ResourceClaim
    expected: list[str]
    pods: tuple[Pod, ...] = ()
    live: tuple[Pod, ...] = ()
    deleted: frozenset[str] = frozenset()
    looks: tuple[str, ...] = ()
    policy: ClaimPolicy = COLLECT


def reserved(**kwargs: object) -> ResourceClaim:
    arguments: dict[str, object] = {"users": [user()], "allocated": True, "finalizer": True, **kwargs}
    return claim(**arguments)  # type: ignore[arg-type]


RUNNING = pod(static={"a": "claim"}, node="n", phase="Running")
DONE = pod(static={"a": "claim"}, phase="Succeeded")
SUCCESSOR = pod(uid=OTHER_UID, node="n", phase="Running")

CASES = [
    Case("stay-reserved-seen", reserved(), [], pods=(RUNNING,)),
    Case("stay-reserved-not-seen", reserved(), [], live=(RUNNING,), looks=("p",)),
    Case("clear-reserved-structured", reserved(), FREE, looks=("p",)),
    Case("clear-reserved, deletion seen", reserved(), FREE, deleted=frozenset({user()["uid"]})),
    Case("dont-clear-reserved-podgroup-feature-disabled", reserved(users=[GROUP]), []),
    Case(
        "dont-clear-reserved-structured",
        reserved(users=[user(), OTHER]),
        ["reserved (p)"],
        (RUNNING,),
        looks=("q",),
    ),
    Case("clear-reserved-structured-deleted", reserved(deleted=True), FREE, looks=("p",)),
    Case("structured-deleted", reserved(users=None, deleted=True), FREE),
    Case("clear-reserved-when-done", reserved(), FREE, pods=(DONE,)),
    Case(
        "remove-reserved",
        reserved(users=[user(), OTHER], finalizer=False),
        ["reserved (p)"],
        (RUNNING,),
        looks=("q",),
    ),
    Case("delete-claim-when-done", reserved(owner="p", entry="a"), [*FREE, "delete"], pods=(DONE,)),
    Case(
        "clean up pod reservation with non-pod reservation present",
        reserved(users=[user(), FOREIGN]),
        ["reserved (foo)"],
        pods=(DONE,),
    ),
    # Ours.
    Case("given up by a scheduler, and nobody wants it", reserved(users=None), FREE),
    Case("given up, and nobody that still runs wants it", reserved(users=None), FREE, pods=(DONE,)),
    Case("given up for now", reserved(users=None), [], pods=(pod(static={"a": "claim"}),)),
    Case("given up, of a pod that will try again", reserved(users=None, owner="p"), [], pods=(pod(),)),
    Case("allocated by hand before its first user", reserved(users=None, finalizer=False), []),
    Case("Kubernetes leaves what was given up", reserved(users=None), [], policy=KEEP_UNUSED),
    Case(
        "an extended-resource claim goes with its pod", reserved(owner="p"), [*FREE, "delete"], pods=(DONE,)
    ),
    Case("deleted and reserved stays", reserved(deleted=True), [], pods=(RUNNING,)),
    Case("deleted and never allocated", claim(finalizer=True, deleted=True), ["remove finalizer"]),
    Case("deleted with a strange user stays", reserved(users=[FOREIGN], deleted=True), []),
    Case("without the finalizer nothing is freed", reserved(finalizer=False), ["reserved ()"], pods=(DONE,)),
    Case(
        "deleting and placed still runs", reserved(), [], pods=(pod(node="n", phase="Running", deleted=True),)
    ),
    Case("deleting and never placed is done", reserved(), FREE, pods=(pod(deleted=True),)),
    Case(
        "replaced in the cache, but the reserved one is newer",
        reserved(),
        [],
        (SUCCESSOR,),
        (RUNNING,),
        looks=("p",),
    ),
    Case("replaced", reserved(owner="p"), [*FREE, "delete"], (SUCCESSOR,), (SUCCESSOR,), looks=("p",)),
    Case("the pod has ended, but the cache lacks it", reserved(), FREE, live=(DONE,), looks=("p",)),
    Case("of a pod that is gone", claim(owner="p"), ["delete"], looks=("p",)),
    Case("of a pod not seen yet", claim(owner="p"), [], live=(RUNNING,), looks=("p",)),
    Case("left to the garbage collector", claim(owner="p"), [], policy=LEAVE_ORPHANS),
    Case("a second owner decides", claim(owner="p", more_owners=1), [], looks=("p",)),
    Case(
        "a second owner does not keep it for a pod that has ended",
        claim(owner="p", more_owners=1),
        ["delete"],
        (DONE,),
    ),
    Case("is being deleted already", claim(owner="p", deleted=True), [], pods=(DONE,)),
    Case("not made for a pod", claim(), []),
    Case(
        "another user keeps it",
        reserved(owner="p", users=[user(), FOREIGN]),
        ["reserved (foo)"],
        pods=(DONE,),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_scenario(case: Case) -> None:
    table = Table(pods={(NS, one.metadata.name): one for one in case.pods}, deleted=case.deleted)
    names = pods_to_look_up(case.claim, table, case.policy)
    assert names == case.looks
    live = {one.metadata.name: one for one in case.live}
    looked = {name: live.get(name) for name in names}
    assert told(plan_claim(case.claim, table, looked, case.policy)) == case.expected


IN_GROUP = reserved(users=[group_user()])
USED = group_claim(users=[group_user()], allocated=True, finalizer=True)
HERE, NEXT = group(), group(uid=OTHER_UID)
KEEP_ORPHANS = ClaimPolicy(workload_claims=True, collect_orphans=False)


@dataclass(frozen=True)
class GroupCase:
    name: str
    claim: ResourceClaim
    expected: list[str]
    groups: tuple[PodGroup, ...] = ()
    live: tuple[PodGroup, ...] = ()
    deleted: frozenset[str] = frozenset()
    looks: tuple[str, ...] = ()
    policy: ClaimPolicy = ON


GROUP_CASES = [
    GroupCase("stay-reserved-podgroup-seen", IN_GROUP, [], (HERE,)),
    GroupCase("stay-reserved-podgroup-not-seen", IN_GROUP, [], (), (HERE,), looks=("g",)),
    GroupCase("clear-reserved-podgroup", IN_GROUP, FREE, looks=("g",)),
    GroupCase("dont-clear-reserved-podgroup-feature-disabled", IN_GROUP, [], policy=COLLECT),
    GroupCase("known to be gone", IN_GROUP, FREE, deleted=frozenset({GROUP_UID})),
    GroupCase("replaced", IN_GROUP, FREE, (NEXT,), (NEXT,), looks=("g",)),
    GroupCase(
        "replaced in the cache, but the reserved one is newer", IN_GROUP, [], (NEXT,), (HERE,), looks=("g",)
    ),
    GroupCase("a group that is being deleted still has pods", IN_GROUP, [], (group(deleted=True),)),
    GroupCase(
        "a strange user stays", reserved(users=[group_user(), FOREIGN]), ["reserved (foo)"], looks=("g",)
    ),
    GroupCase("made for it and gone with it", USED, [*FREE, "delete"], looks=("g",)),
    GroupCase("made for it and kept", USED, [], (HERE,)),
    GroupCase("made for it, never used", group_claim(), ["delete"], looks=("g",)),
    GroupCase("made for it, not seen yet", group_claim(), [], (), (HERE,), looks=("g",)),
    GroupCase("left to the garbage collector", group_claim(), [], policy=KEEP_ORPHANS),
    GroupCase("not ours without the gate", group_claim(), [], policy=COLLECT),
    GroupCase("a second owner decides", group_claim(more_owners=1), [], looks=("g",)),
    GroupCase("is being deleted already", group_claim(deleted=True), [], looks=("g",)),
]


@pytest.mark.parametrize("case", GROUP_CASES, ids=lambda case: case.name)
def test_groups(case: GroupCase) -> None:
    table = Table(groups={(NS, one.metadata.name): one for one in case.groups}, deleted=case.deleted)
    assert pods_to_look_up(case.claim, table, case.policy) == ()
    names = groups_to_look_up(case.claim, table, case.policy)
    assert names == case.looks
    live = {one.metadata.name: one for one in case.live}
    looked = {name: live.get(name) for name in names}
    assert told(plan_claim(case.claim, table, {}, case.policy, looked)) == case.expected


def test_pods_and_groups_go_one_by_one() -> None:
    both = reserved(users=[user(), group_user()])
    table = Table(pods={(NS, "p"): DONE}, groups={(NS, "g"): HERE})
    assert told(plan_claim(both, table, {}, ON)) == ["reserved (g)"]
    table = Table(pods={(NS, "p"): RUNNING}, deleted=frozenset({GROUP_UID}))
    assert told(plan_claim(both, table, {}, ON)) == ["reserved (p)"]


def test_without_a_look_nothing_is_taken_away() -> None:
    assert plan_claim(reserved(owner="p"), Table(), {}, ClaimPolicy()) == ()
