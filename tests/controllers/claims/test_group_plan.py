"""What PodGroups and their pods get: Kubernetes' own scenarios about them (TestSyncHandler), and ours."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dray.api.core import Pod
from dray.api.resource import ResourceClaim, ResourceClaimTemplate
from dray.api.scheduling import PodGroup
from dray.controllers.claims.group_plan import plan_group
from dray.controllers.claims.known import Table
from dray.controllers.claims.naming import claim_name
from dray.controllers.claims.pod_plan import plan_pod
from dray.controllers.claims.steps import ClaimPolicy, CreateClaim
from dray.controllers.claims.triggers import keys_for_group, keys_for_pod
from tests.controllers.claims.groups import GROUP_UID, OFF, ON, group, group_claim, member, user
from tests.controllers.claims.test_pod_plan import told
from tests.controllers.objects import NS, OTHER_UID, POD_UID, claim, template

NAME = claim_name("g", GROUP_UID, "a")
MADE = [f"create {NAME}", f"record a={NAME}"]
OF_POD = claim_name("p", POD_UID, "a")
PLAIN, RECORDED = group(claims={"a": "t"}), group(claims={"a": "t"}, recorded={"a": "mine"})
MINE = group_claim()
NOT_THERE = 'resource claim template "t" not found: create it in namespace default'


@dataclass(frozen=True)
class Case:
    name: str
    one: Pod | PodGroup
    expected: list[str]
    claims: tuple[ResourceClaim, ...] = ()
    templates: tuple[ResourceClaimTemplate, ...] = ()
    groups: tuple[PodGroup, ...] = ()
    policy: ClaimPolicy = ON

    @property
    def known(self) -> Table:
        return Table(
            claims={(one.metadata.namespace, one.metadata.name): one for one in self.claims},
            templates={(NS, one.metadata.name): one for one in self.templates},
            groups={(NS, one.metadata.name): one for one in self.groups},
        )


OF_GROUPS = [
    Case("create for PodGroup", PLAIN, MADE, templates=(template(),)),
    Case("nop for PodGroup", RECORDED, [], (MINE,), (template(),)),
    Case("recreate for PodGroup", RECORDED, MADE, templates=(template(),)),
    Case("missing-template-podgroup", PLAIN, [f"fault PodGroupResourceClaim a: {NOT_THERE}"]),
    Case("find-existing-claim-by-label-podgroup", PLAIN, ["record a=mine"], (MINE,)),
    Case("podgroup-deleted", group(claims={"a": "t"}, deleted=True), [], templates=(template(),)),
    Case("no claims", group(), [], templates=(template(),)),
    Case("create-with-other-claim-podgroup", PLAIN, MADE, (claim(NAME, namespace="other"),), (template(),)),
    Case("wrong-claim-owner-podgroup", RECORDED, MADE, (group_claim(owner_uid=OTHER_UID),), (template(),)),
    Case(
        "create-conflict-podgroup",
        PLAIN,
        [f"create {(second := claim_name('g', GROUP_UID, 'a', 1))}", f"record a={second}"],
        (claim(NAME),),
        (template(),),
    ),
    # Ours.
    Case("a claim by name is the user's to make", group(static={"a": "s"}), []),
    Case("none needed", group(claims={"a": "t"}, recorded={"a": None}), [], templates=(template(),)),
    Case(
        "a pod's claim of the same entry is not taken over",
        PLAIN,
        MADE,
        (claim("x", owner="p", entry="a"),),
        (template(),),
    ),
    Case(
        "admin access and feature gate off",
        PLAIN,
        ["fault PodGroupResourceClaim a: admin access is requested, but the feature is disabled"],
        templates=(template(admin=True),),
        policy=ClaimPolicy(workload_claims=True, admin_access=False),
    ),
    Case(
        "what can be made is made, and older entries are recorded again",
        group(claims={"c": "none", "a": "t", "b": "t"}, recorded={"b": "b1"}),
        [
            f"create {NAME}",
            f"record a={NAME} b=b1",
            f"fault PodGroupResourceClaim c: {NOT_THERE}".replace('"t"', '"none"'),
        ],
        (group_claim("b1", entry="b"),),
        (template(),),
    ),
    Case(
        "Q13: older entries are left out",
        group(claims={"a": "t", "b": "t"}, recorded={"b": "b1"}),
        MADE,
        (group_claim("b1", entry="b"),),
        (template(),),
        policy=ClaimPolicy(workload_claims=True, new_statuses_only=True),
    ),
]

POD, PLACED = member(claims={"a": "t"}), member(claims={"a": "t"}, recorded={"a": "mine"}, node="n")
SHARED = group_claim(allocated=True, finalizer=True)
OF_PODS = [
    Case("skip create for Pod with PodGroup before template exists", POD, [], groups=(PLAIN,)),
    Case("skip create for Pod with PodGroup after template exists", POD, [], (), (template(),), (PLAIN,)),
    Case(
        "update Pod status with PodGroup claim", POD, ["record a=mine"], (MINE,), (template(),), (RECORDED,)
    ),
    Case(
        "create ResourceClaim for Pod with PodGroup claim when feature is disabled",
        POD,
        [f"create {OF_POD}", f"record a={OF_POD}"],
        (MINE,),
        (template(),),
        (RECORDED,),
        OFF,
    ),
    Case("add-reserved-podgroup", PLACED, ["reserve mine for g"], (SHARED,), (template(),), (RECORDED,)),
    Case(
        "add-reserved-podgroup-feature-disabled",
        member(static={"a": "s"}, node="n"),
        ["reserve s for p"],
        (claim("s", allocated=True),),
        (),
        (group(static={"a": "s"}),),
        OFF,
    ),
    # Ours.
    Case(
        "a claim by name of the group",
        member(static={"a": "s"}, node="n"),
        ["reserve s for g"],
        (claim("s", allocated=True),),
        (),
        (group(static={"a": "s"}),),
    ),
    Case(
        "a claim by name of the pod alone",
        member(static={"b": "s"}, node="n"),
        ["reserve s for p"],
        (claim("s", allocated=True),),
        (),
        (group(static={"a": "s"}),),
    ),
    Case(
        "reserved for the group", PLACED, [], (group_claim(allocated=True, users=[user()]),), (), (RECORDED,)
    ),
    Case(
        "recorded and there", member(claims={"a": "t"}, recorded={"a": "mine"}), [], (MINE,), (), (RECORDED,)
    ),
    Case(
        "the claim of another group",
        PLACED,
        [],
        (group_claim(owner="h", owner_uid=OTHER_UID, allocated=True),),
        (),
        (PLAIN,),
    ),
    Case("without its group a pod waits", POD, [], (), (template(),)),
    Case(
        "an entry that the group does not have is the pod's own",
        member(claims={"b": "t"}),
        [f"create {(own := claim_name('p', POD_UID, 'b'))}", f"record b={own}"],
        (),
        (template(),),
        (PLAIN,),
    ),
    Case(
        "another template is another claim",
        member(claims={"a": "t2"}),
        [f"create {OF_POD}", f"record a={OF_POD}"],
        (),
        (template("t2"),),
        (PLAIN,),
    ),
]


@pytest.mark.parametrize("case", OF_GROUPS, ids=lambda case: case.name)
def test_groups(case: Case) -> None:
    assert isinstance(case.one, PodGroup)
    assert told(plan_group(case.one, case.known, case.policy)) == case.expected
    if case.expected:
        assert [str(key) for key in keys_for_group(case.one, case.known)] == ["podgroup:default/g"]


@pytest.mark.parametrize("case", OF_PODS, ids=lambda case: case.name)
def test_pods_of_groups(case: Case) -> None:
    assert isinstance(case.one, Pod)
    assert told(plan_pod(case.one, case.known, case.policy)) == case.expected
    if case.expected:
        assert [str(key) for key in keys_for_pod(case.one, case.known, case.policy)] == ["pod:default/p"]


def test_the_reservation_names_the_group() -> None:
    known = Case("", PLACED, [], (SHARED,), (), (RECORDED,)).known
    (step,) = plan_pod(PLACED, known, ON).steps
    assert not isinstance(step, CreateClaim) and hasattr(step, "consumer")
    assert (step.consumer.api_group, step.consumer.resource, step.consumer.uid) == (
        "scheduling.k8s.io",
        "podgroups",
        GROUP_UID,
    )


def test_the_claim_is_what_kubernetes_would_make() -> None:
    known = Case("", PLAIN, [], templates=(template(),)).known
    step = plan_group(PLAIN, known, ON).steps[0]
    assert isinstance(step, CreateClaim)
    assert step.document["metadata"] == {
        "name": NAME,
        "generateName": "g-a-",
        "namespace": NS,
        "labels": {"team": "blue"},
        "annotations": {"why": "test", "resource.kubernetes.io/pod-claim-name": "a"},
        "ownerReferences": [
            {
                "apiVersion": "scheduling.k8s.io/v1alpha2",
                "kind": "PodGroup",
                "name": "g",
                "uid": GROUP_UID,
                "controller": True,
            }
        ],
    }


def test_an_entry_from_a_newer_kubernetes_is_a_fault() -> None:
    entry = type(PLAIN.spec.resource_claims[0])(name="a")
    odd = PodGroup(metadata=PLAIN.metadata, spec=type(PLAIN.spec)(resource_claims=(entry,)))
    assert [fault.pod_claim for fault in plan_group(odd, Table(), ON).faults] == ["a"]


@pytest.mark.parametrize(
    ("one", "claims", "is_gone", "keys"),
    [
        pytest.param(RECORDED, [MINE], False, [], id="all-there"),
        pytest.param(group(static={"a": "s"}), [], False, [], id="by-name"),
        pytest.param(group(claims={"a": "t"}, deleted=True), [], False, [], id="deleted"),
        pytest.param(
            group(claims={"a": "t"}, static={"b": "s"}, recorded={"a": "mine"}),
            [MINE],
            True,
            ["claim:default/mine", "claim:default/s"],
            id="gone",
        ),
        pytest.param(PLAIN, [MINE], True, ["claim:default/mine"], id="gone-and-never-recorded"),
    ],
)
def test_keys_for_groups(one: PodGroup, claims: list[ResourceClaim], is_gone: bool, keys: list[str]) -> None:
    known = Case("", one, [], tuple(claims)).known
    assert [str(key) for key in keys_for_group(one, known, is_gone=is_gone)] == keys


def test_a_pod_leaves_a_claim_that_is_gone_to_its_group() -> None:
    recorded = member(claims={"a": "t"}, recorded={"a": "mine"})
    known = Case("", recorded, [], groups=(RECORDED,)).known
    assert keys_for_pod(recorded, known, ON) == ()
    assert [str(key) for key in keys_for_pod(recorded, known, OFF)] == ["pod:default/p"]
