"""The scenarios of kube-scheduler's own plugin test that are about PodGroups, by their names, and what else groups decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from dray.api.codec import to_raw, view
from dray.api.core import Pod
from dray.api.resource import ResourceClaim
from dray.scheduler.claims import bind
from dray.scheduler.claims.filter import Filter
from dray.scheduler.claims.groups import PodGroups, consumers_of, idle_claims
from dray.scheduler.claims.outcome import SUCCESS, Status, failure, unresolvable, unschedulable
from dray.scheduler.claims.pre_filter import pre_filter
from dray.scheduler.claims.reserve import Reserved, reserve
from dray.scheduler.claims.settings import Quirks
from tests.scheduler.claims.driving import Cycle, World, settings_with
from tests.scheduler.claims.objects import (
    NOW,
    Json,
    allocated,
    claim,
    group,
    node,
    owned_by,
    owned_by_group,
    pod,
    slice_of,
    template_entry,
    user_of_group,
)

ON, OFF = settings_with(groups=True), settings_with()
ENTRY: Json = {"name": "entry-0", "resourceClaimName": "my-claim"}
BY_NAME, BY_TEMPLATE = group(ENTRY), group(template_entry(), made={"entry-0": "my-claim"})
GROUP_USER, POD_USER = user_of_group(BY_NAME), {"resource": "pods", "name": "my-pod", "uid": "uid-my-pod"}
ELSEWHERE = unresolvable("resourceclaim not available on the node")
STILL = unschedulable("still not schedulable")


def member(*claims: str | Json, name: str = "my-pod", **fields: Any) -> Pod:
    return pod(*claims, name=name, schedulingGroup={"podGroupName": "my-group"}, **fields)


NAMED = member("my-claim")
MADE = member(template_entry(), made={"entry-0": "my-claim"})


def users(one: ResourceClaim) -> list[Json]:
    return [to_raw(user) for user in one.status.reserved_for]


def held(user: Json | None = GROUP_USER, name: str = "my-claim", **fields: Any) -> ResourceClaim:
    return allocated(name=name, reservedFor=[user] if user else [], **fields)


BINDING = {
    "podgroup-claim-reference-feature-disabled-reserves-for-pod": (OFF, [held(None)], BY_NAME, NAMED),
    "podgroup-claim-reference": (ON, [held(None)], BY_NAME, NAMED),
    "podgroup-claim-template": (ON, [held(None, meta=owned_by_group(BY_NAME))], BY_TEMPLATE, MADE),
    "podgroup-with-resources": (ON, [claim()], BY_NAME, NAMED),
    "podgroup-with-resources-feature-disabled-reserves-for-pod": (OFF, [claim()], BY_NAME, NAMED),
}


@pytest.mark.parametrize("name", BINDING)
def test_who_becomes_the_user_of_a_claim(name: str) -> None:
    settings, claims, mine, user = BINDING[name]
    cycle = World(claims, [slice_of()], groups=[mine], settings=settings).drive(user)
    assert cycle.bound == SUCCESS
    assert users(cycle.claim()) == [GROUP_USER if settings is ON else POD_USER]
    assert cycle.claim().status.allocation is not None
    assert cycle.in_flight == (["my-claim"] if "with-resources" in name else [])
    known = cycle.tracker.get("default", "my-claim")
    assert known is not None
    assert users(known) == users(cycle.claim())


def test_bind_podgroup_failure() -> None:
    """Other pods of the group may need the claim, so the group stays its user."""
    world = World([held(None)], groups=[BY_NAME], settings=ON, fails_to_bind=True)
    cycle = world.drive(NAMED)
    assert cycle.bound == failure("binding failed")
    assert users(cycle.claim()) == [GROUP_USER]
    assert len(cycle.writes) == 1
    assert users(replace(world, settings=OFF).drive(NAMED).claim()) == []


def test_reserved_okay_podgroup() -> None:
    cycle = World([held()], groups=[BY_NAME], settings=ON).drive(NAMED)
    assert cycle.bound == SUCCESS
    assert cycle.writes == []
    full = allocated(users=tuple(pod(name=f"other-{one}") for one in range(256)))
    wait = unresolvable("resourceclaim in use")
    careful = replace(ON, quirks=Quirks())
    assert World([full], groups=[BY_NAME], settings=careful).drive(NAMED).prefiltered == wait


def wrong(user: Json | None = GROUP_USER, name: str = "my-claim", **fields: Any) -> ResourceClaim:
    return held(user, name, where="another-node", **fields)


FREED = unresolvable("ResourceClaim unreserved for PodGroup")
DEALLOCATED = unschedulable("deallocation of ResourceClaim completed")
RUNNING = member(name="my-pod-2", nodeName="worker")
ELSEWHERE_RUNNING = msgspec.structs.replace(
    RUNNING, metadata=msgspec.structs.replace(RUNNING.metadata, namespace="other")
)
POST: dict[str, tuple[World, Pod, Status, list[Json], bool]] = {
    "postfilter-unreserve-podgroup": (World([wrong()], settings=ON), NAMED, FREED, [], True),
    "unreserve-podgroup-from-template": (
        World([wrong(meta=owned_by_group(BY_NAME))], settings=ON, groups=[BY_TEMPLATE]),
        MADE,
        FREED,
        [],
        True,
    ),
    "postfilter-skip-unreserve-podgroup-feature-disabled": (
        World([wrong()], settings=OFF),
        NAMED,
        STILL,
        [GROUP_USER],
        True,
    ),
    "postfilter-deallocate-podgroup": (World([wrong(None)], settings=ON), NAMED, DEALLOCATED, [], False),
    "postfilter-skip-unreserve-podgroup-when-pods-active": (
        World([wrong()], settings=ON, placed=[RUNNING]),
        NAMED,
        STILL,
        [GROUP_USER],
        True,
    ),
    "postfilter-skip-unreserve-podgroup-other-claim-deallocated": (
        World([wrong(), wrong(None, "claim-2")], settings=ON),
        member("my-claim", "claim-2"),
        DEALLOCATED,
        [GROUP_USER],
        True,
    ),
}


@pytest.mark.parametrize("name", POST)
def test_a_group_without_a_place_gives_its_devices_back(name: str) -> None:
    world, user, status, left, is_allocated = POST[name]
    cycle = replace(world, groups=world.groups or [BY_NAME]).drive(user)
    assert cycle.filtered == {"worker": ELSEWHERE}
    assert cycle.postfiltered is not None
    assert cycle.postfiltered.status == status
    assert users(cycle.claim()) == left
    assert (cycle.claim().status.allocation is not None) is is_allocated
    if "other-claim" in name:
        assert cycle.claim("claim-2").status.allocation is None


@pytest.mark.parametrize(
    ("user", "claims", "placed", "found"),
    [
        pytest.param(NAMED, [held()], [], ["my-claim"], id="idle"),
        pytest.param(NAMED, [held()], [pod(nodeName="worker")], ["my-claim"], id="others-run"),
        pytest.param(NAMED, [held()], [RUNNING], [], id="one-of-it-runs"),
        pytest.param(NAMED, [held()], [ELSEWHERE_RUNNING], ["my-claim"], id="another-namespace"),
        pytest.param(NAMED, [held(POD_USER)], [], [], id="reserved-for-the-pod"),
        pytest.param(NAMED, [claim()], [], [], id="not-allocated"),
        pytest.param(NAMED, [], [], [], id="no-claim"),
        pytest.param(pod("my-claim"), [held()], [], [], id="no-group"),
        pytest.param(member(name="other", nodeName=""), [held()], [], ["my-claim"], id="another-of-it"),
    ],
)
def test_idle_claims(user: Pod, claims: list[ResourceClaim], placed: list[Pod], found: list[str]) -> None:
    known, groups = {one.metadata.name: one for one in claims}, PodGroups()
    groups.set_group(BY_NAME)
    idle = idle_claims(user, groups, lambda _, name: known.get(name), placed)
    assert [one.claim.metadata.name for one in idle] == found


@pytest.mark.parametrize(
    ("one", "found"),
    [
        pytest.param(held(meta=owned_by_group(BY_TEMPLATE)), 1, id="made-for-the-group"),
        pytest.param(held(meta=owned_by_group(BY_TEMPLATE, uid="x")), 0, id="for-one-before"),
        pytest.param(held(meta=owned_by(MADE)), 0, id="for-a-pod"),
    ],
)
def test_an_idle_claim_from_a_template_is_the_groups_own(one: ResourceClaim, found: int) -> None:
    groups = PodGroups()
    groups.set_group(BY_TEMPLATE)
    assert len(idle_claims(MADE, groups, lambda _, name: one, ())) == found
    groups.set_group(group(template_entry()))
    assert idle_claims(MADE, groups, lambda _, name: one, ()) == ()


def test_a_pod_waits_for_its_group() -> None:
    reason = unresolvable('podgroup.scheduling.k8s.io "my-group" not found')
    assert World([claim()], [slice_of()], settings=ON).drive(NAMED).prefiltered == reason
    assert World(settings=ON).drive(member()).prefiltered == reason
    assert World([claim()], [slice_of()], settings=OFF).drive(NAMED).bound == SUCCESS


@pytest.mark.parametrize(
    ("settings", "meta", "reason"),
    [
        (ON, owned_by_group(BY_NAME), ""),
        (ON, owned_by_group(BY_NAME, apiVersion="scheduling.k8s.io/v1"), ""),
        (ON, owned_by(MADE), ""),
        (ON, owned_by_group(BY_NAME, name="other"), "(neither Pod nor PodGroup my-group is the owner)"),
        (ON, owned_by(MADE, uid="x"), "(neither Pod nor PodGroup my-group is the owner)"),
        (OFF, owned_by_group(BY_NAME), "(Pod is not owner)"),
    ],
)
def test_whose_claim_from_a_template(settings: Any, meta: Json, reason: str) -> None:
    cycle = World([held(None, meta=meta)], groups=[BY_TEMPLATE], settings=settings).drive(MADE)
    start = "ResourceClaim default/my-claim was not created for Pod default/my-pod "
    assert cycle.enqueued == (unresolvable(start + reason) if reason else SUCCESS)


def test_a_pod_without_a_group_gets_no_claim_of_one() -> None:
    lonely = pod(template_entry(), made={"entry-0": "my-claim"})
    cycle = World([held(None, meta=owned_by_group(BY_NAME))], settings=ON).drive(lonely)
    assert "(Pod is not owner)" in cycle.enqueued.reason


def test_each_claim_has_its_own_user() -> None:
    """Also where an entry before needs no claim at all."""
    groups = PodGroups()
    groups.set_group(group({"name": "b", "resourceClaimName": "shared"}))
    user = member(
        template_entry("none"),
        {"name": "a", "resourceClaimName": "own"},
        {"name": "b", "resourceClaimName": "shared"},
        {"name": "c", "resourceClaimName": "shared-2"},
        made={"none": None},
    )
    entries = user.spec.resource_claims
    found = consumers_of(user, entries[1:], groups)
    assert not isinstance(found, str)
    assert [one.resource for one in found] == ["pods", "podgroups", "pods"]
    claims = [claim(name=one) for one in ("own", "shared", "shared-2")]
    slices = [slice_of("worker", "g0", "g1", "g2")]
    cycle = World(claims, slices, groups=[group(to_raw(entries[2]))], settings=ON).drive(user)
    shown = {one.metadata.name: users(cycle.claim(one.metadata.name))[0]["resource"] for one in claims}
    assert shown == {"own": "pods", "shared": "podgroups", "shared-2": "pods"}


def start(world: World, user: Pod, cycle: Cycle, shared: frozenset[str]) -> Reserved:
    found = pre_filter(user, cycle.tracker, world.settings, shared)
    assert found.status == SUCCESS
    kept = reserve(Filter(found.plan, cycle.tracker, world.settings, NOW), node())
    assert isinstance(kept, Reserved)
    return kept


def test_two_pods_of_a_group_share_an_allocation_in_flight() -> None:
    """The first write is for both: the second pod finds its group among the users."""
    world = World([claim()], [slice_of()], groups=[BY_NAME], settings=ON)
    cycle = world.start()
    second = member("my-claim", name="second")
    alone = pre_filter(second, cycle.tracker, ON).status
    held_by_first = start(world, NAMED, cycle, frozenset())
    waits = pre_filter(second, cycle.tracker, ON).status
    assert (alone, waits.reason) == (
        SUCCESS,
        "resource claim default/my-claim is in the process of being allocated",
    )
    held_by_second = start(world, second, cycle, frozenset({"uid-my-claim"}))
    for kept in (held_by_first, held_by_second):
        world.prebind(cycle, kept)
        assert cycle.bound == SUCCESS
    assert users(cycle.claim()) == [GROUP_USER]
    assert [one.purpose.partition(" claim")[0] for one in cycle.writes] == [
        "add finalizer to",
        "add allocation and reservation to",
        "add finalizer to",
    ]
    assert cycle.tracker.in_flight == ()


def test_a_reservation_for_the_group_that_came_meanwhile_is_enough() -> None:
    cycle = World([held(None)], groups=[BY_NAME], settings=ON)
    plan = pre_filter(NAMED, cycle.start().tracker, ON).plan
    (binding,) = bind.bindings(Reserved(plan, "worker"))
    assert bind.next_step(binding, held(), ON, NOW) == bind.Step()
    assert bind.next_step(binding, held(user_of_group(group(name="x"))), ON, NOW).write is not None


def test_groups_come_change_and_go() -> None:
    groups = PodGroups()
    groups.set_group(BY_NAME)
    groups.set_group(BY_TEMPLATE)
    assert groups.get("default", "my-group") is BY_TEMPLATE
    assert groups.get("other", "my-group") is None
    groups.remove_group("default", "my-group")
    groups.remove_group("default", "my-group")
    assert groups.get("default", "my-group") is None


def test_a_pod_as_written_names_its_group() -> None:
    assert view(to_raw(NAMED), Pod).spec.scheduling_group == {"podGroupName": "my-group"}
