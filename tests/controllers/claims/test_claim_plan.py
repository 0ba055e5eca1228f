"""What happens to claims when their users go: Kubernetes' own scenarios for claims (TestSyncHandler), and ours.

Left out, because PodGroups are not served yet: clear-reserved-podgroup. A reservation of a group is an unknown kind here,
as with the gate off (dont-clear-reserved-podgroup-feature-disabled).
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dray.api.core import Pod
from dray.api.resource import ResourceClaim
from dray.controllers.claims.claim_plan import plan_claim, pods_to_look_up
from dray.controllers.claims.known import Table
from dray.controllers.claims.steps import ClaimPolicy, ClaimStep, RemoveFinalizer, SetReservations
from tests.controllers.objects import NS, OTHER_UID, claim, pod, user

OTHER = user("q", OTHER_UID)
GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g1"}
FOREIGN = {"apiGroup": "foo.com", "resource": "foo", "name": "foo", "uid": "123"}
FREE = ["reserved () and free", "remove finalizer"]
COLLECT = ClaimPolicy()
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
    Case("never reserved stays allocated", reserved(users=None), []),
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


def test_without_a_look_nothing_is_taken_away() -> None:
    assert plan_claim(reserved(owner="p"), Table(), {}, ClaimPolicy()) == ()
