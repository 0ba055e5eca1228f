"""What pods get: Kubernetes' own scenarios for pods (TestSyncHandler), and ours.

Those about PodGroups are in test_group_plan; `create-conflict`, `find-created-claim-in-cache` and `no-such-pod` need a
server and are in test_controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from dray.api.core import Pod
from dray.api.resource import ResourceClaim, ResourceClaimTemplate
from dray.controllers.claims.known import Table
from dray.controllers.claims.naming import claim_name
from dray.controllers.claims.pod_plan import plan_pod
from dray.controllers.claims.steps import AddReservation, ClaimPolicy, CreateClaim, PodPlan, RecordClaims
from tests.controllers.objects import NS, OTHER_UID, POD_UID, claim, pod, template, user

NAME = claim_name("p", POD_UID, "a")
POLICY = ClaimPolicy()


def known(claims: Iterable[ResourceClaim] = (), templates: Iterable[ResourceClaimTemplate] = ()) -> Table:
    return Table(
        claims={(one.metadata.namespace, one.metadata.name): one for one in claims},
        templates={(NS, one.metadata.name): one for one in templates},
    )


def told(plan: PodPlan) -> list[str]:
    lines = []
    for step in plan.steps:
        match step:
            case CreateClaim():
                lines.append(f"create {step.name}")
            case RecordClaims(statuses=statuses):
                lines.append("record " + " ".join(f"{s.name}={s.resource_claim_name}" for s in statuses))
            case AddReservation():
                lines.append(f"reserve {step.claim.metadata.name} for {step.consumer.name}")
    return lines + [f"fault {fault}" for fault in plan.faults]


@dataclass(frozen=True)
class Case:
    name: str
    pod: Pod
    expected: list[str]
    claims: tuple[ResourceClaim, ...] = ()
    templates: tuple[ResourceClaimTemplate, ...] = ()
    policy: ClaimPolicy = POLICY


PLAIN = pod(claims={"a": "t"})
RECORDED = pod(claims={"a": "t"}, recorded={"a": "mine"})
PLACED = pod(claims={"a": "t"}, recorded={"a": "mine"}, node="n")
MINE = claim("mine", owner="p", entry="a")
ALLOCATED = claim("mine", owner="p", entry="a", allocated=True, finalizer=True)
NO_TEMPLATE = (
    'fault PodResourceClaim a: resource claim template "t" not found: create it in namespace default'
)
MADE = [f"create {NAME}", f"record a={NAME}"]
GATE_OFF = "fault PodResourceClaim a: admin access is requested, but the feature is disabled"
LIST_OFF = "fault PodResourceClaim a: template includes a prioritized list of subrequests, but the feature is disabled"

CASES = [
    Case("create", PLAIN, MADE, templates=(template(),)),
    Case(
        "create with admin and feature gate off",
        PLAIN,
        [GATE_OFF],
        templates=(template(admin=True),),
        policy=ClaimPolicy(admin_access=False),
    ),
    Case("create with admin and feature gate on", PLAIN, MADE, templates=(template(admin=True),)),
    Case(
        "prioritized list and feature gate off",
        PLAIN,
        [LIST_OFF],
        templates=(template(first_available=True),),
        policy=ClaimPolicy(prioritized_list=False),
    ),
    Case("nop", RECORDED, [], claims=(MINE,), templates=(template(),)),
    Case("recreate", RECORDED, MADE, templates=(template(),)),
    Case("missing-template", PLAIN, [NO_TEMPLATE]),
    Case("find-existing-claim-by-label", PLAIN, ["record a=mine"], claims=(MINE,)),
    Case("pod-deleted", pod(claims={"a": "t"}, deleted=True), [], templates=(template(),)),
    Case("no-volumes", pod(), [], templates=(template(),)),
    Case(
        "create-with-other-claim",
        PLAIN,
        MADE,
        claims=(claim(NAME, namespace="other"),),
        templates=(template(),),
    ),
    Case(
        "wrong-claim-owner", RECORDED, [NO_TEMPLATE], claims=(claim("mine", owner="p", owner_uid=OTHER_UID),)
    ),
    Case("add-reserved", PLACED, ["reserve mine for p"], claims=(ALLOCATED,), templates=(template(),)),
    # Ours.
    Case(
        "claim of another entry is not taken over",
        PLAIN,
        MADE,
        (claim("x", owner="p", entry="b"),),
        (template(),),
    ),
    Case(
        "claim without the annotation is not taken over", PLAIN, MADE, (claim("x", owner="p"),), (template(),)
    ),
    Case(
        "of several the first by name is taken",
        PLAIN,
        ["record a=m"],
        (MINE, claim("m", owner="p", entry="a")),
    ),
    Case("own claim under the own name", PLAIN, [f"record a={NAME}"], (claim(NAME, owner="p", entry="a"),)),
    Case(
        "a stranger has the name",
        PLAIN,
        [f"create {(second := claim_name('p', POD_UID, 'a', 1))}", f"record a={second}"],
        (claim(NAME),),
        (template(),),
    ),
    Case("none needed", pod(claims={"a": "t"}, recorded={"a": None}), [], templates=(template(),)),
    Case(
        "a pod that has ended gets no claim again",
        pod(claims={"a": "t"}, phase="Succeeded"),
        [],
        (),
        (template(),),
    ),
    Case("unallocated is not reserved", PLACED, [], claims=(MINE,)),
    Case(
        "reserved already",
        PLACED,
        [],
        claims=(claim("mine", owner="p", entry="a", allocated=True, users=[user()]),),
    ),
    Case(
        "being deleted takes nobody in", PLACED, [], (claim("mine", owner="p", allocated=True, deleted=True),)
    ),
    Case(
        "a shared claim, named twice, is reserved once",
        pod(static={"a": "s", "b": "s"}, node="n"),
        ["reserve s for p"],
        (claim("s", allocated=True, users=[user("q", OTHER_UID)]),),
    ),
    Case("a missing shared claim is the user's to make", pod(static={"a": "s"}, node="n"), []),
    Case(
        "what can be made is made",
        pod(claims={"b": "none", "a": "t"}),
        [
            *MADE,
            'fault PodResourceClaim b: resource claim template "none" not found: create it in namespace default',
        ],
        templates=(template(),),
    ),
    Case(
        "older entries are recorded again",
        pod(claims={"a": "t", "b": "t"}, recorded={"b": "b1"}),
        [f"create {NAME}", f"record a={NAME} b=b1"],
        (claim("b1", owner="p", entry="b"),),
        (template(),),
    ),
    Case(
        "Q13: older entries are left out",
        pod(claims={"a": "t", "b": "t"}, recorded={"b": "b1"}),
        MADE,
        (claim("b1", owner="p", entry="b"),),
        (template(),),
        ClaimPolicy(new_statuses_only=True),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_scenario(case: Case) -> None:
    plan = plan_pod(case.pod, known(case.claims, case.templates), case.policy)
    assert told(plan) == case.expected


def test_the_claim_is_what_kubernetes_would_make() -> None:
    step = plan_pod(PLAIN, known(templates=(template(),)), POLICY).steps[0]
    assert isinstance(step, CreateClaim)
    assert (step.template, step.pod_claim) == ("t", "a")
    assert step.document == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": NAME,
            "generateName": "p-a-",
            "namespace": NS,
            "labels": {"team": "blue"},
            "annotations": {"why": "test", "resource.kubernetes.io/pod-claim-name": "a"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": POD_UID, "controller": True}
            ],
        },
    }


def test_an_entry_from_a_newer_kubernetes_is_a_fault() -> None:
    odd = pod(static={"a": "x"})
    entry = type(odd.spec.resource_claims[0])(name="a")
    spec = type(odd.spec)(resource_claims=(entry,))
    plan = plan_pod(Pod(metadata=odd.metadata, spec=spec, status=odd.status), known(), POLICY)
    assert [fault.pod_claim for fault in plan.faults] == ["a"]


def test_sixteen_strangers_are_enough() -> None:
    taken = [claim(claim_name("p", POD_UID, "a", attempt)) for attempt in range(16)]
    (fault,) = plan_pod(PLAIN, known(taken, (template(),)), POLICY).faults
    assert "delete some of them" in fault.message
