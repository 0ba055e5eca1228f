"""Node resources that devices take: kube-scheduler's scenarios by their names, and what a cycle does with them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dray.api.codec import to_raw
from dray.api.core import Pod
from dray.api.resource import ResourceClaim
from dray.errors import InvariantError, UnavailableError
from dray.scheduler.claims.filter import Filter
from dray.scheduler.claims.outcome import SUCCESS, Status, failure, unresolvable, unschedulable
from dray.scheduler.claims.pod_claims import PodClaims
from dray.scheduler.claims.pre_filter import pre_filter
from dray.scheduler.claims.settings import Quirks
from dray.scheduler.claims.writes import Write
from tests.scheduler.claims.driving import World, settings_with
from tests.scheduler.claims.node_objects import (
    CPUS,
    START,
    container,
    holding,
    row,
    taking,
    user,
    worker,
)
from tests.scheduler.claims.objects import (
    NOW,
    Json,
    allocated,
    claim,
    device,
    pod,
    request,
    slice_of,
)

ON, OFF = settings_with(node_resources=True), settings_with()


SHARED: Json = {
    "allowMultipleAllocations": True,
    "capacity": {CPUS: {"value": "64", "requestPolicy": {"default": "1", "validRange": {"min": "1"}}}},
}


def cores(**mappings: Json | str) -> Json:
    return taking("instance-1", **mappings) | SHARED


def asking(amount: str) -> ResourceClaim:
    return claim(request(capacity={"requests": {CPUS: amount}}))


def told(one: Pod) -> list[Json]:
    return [to_raw(found) for found in one.status.node_allocatable_resource_claim_statuses]


SCENARIOS: dict[str, tuple[Json, ResourceClaim, Json | Status]] = {
    "node-allocatable-resource-multiplier": (
        taking(cpu="1", memory="1Gi"),
        claim(),
        {"cpu": "1", "memory": "1Gi"},
    ),
    "node-allocatable-resource-capacitykey": (
        cores(cpu={"capacityKey": CPUS}),
        asking("1"),
        {"cpu": "1"},
    ),
    "node-allocatable-resource-capacitykey-and-multiplier": (
        cores(cpu={"capacityKey": CPUS, "allocationMultiplier": "2"}, memory="1Gi"),
        asking("3"),
        {"cpu": "6", "memory": "1Gi"},
    ),
    "node-allocatable-resource-insufficient-resources-with-multiplier": (
        taking(cpu="11"),
        claim(),
        unresolvable("Insufficient cpu"),
    ),
    "node-allocatable-resource-insufficient-with-capacityKey": (
        cores(cpu={"capacityKey": CPUS}),
        asking("11"),
        unresolvable("Insufficient cpu"),
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios(name: str) -> None:
    one, wanted, end = SCENARIOS[name]
    world = World([wanted], [slice_of("worker", one)], nodes=[worker()], settings=ON)
    cycle = world.drive(user())
    if isinstance(end, Status):
        assert cycle.filtered == {"worker": end}
        assert cycle.postfiltered is not None
        assert cycle.postfiltered.status == unschedulable("still not schedulable")
        return
    assert cycle.bound == SUCCESS
    assert cycle.in_flight == ["my-claim"]
    expected = [{"resourceClaimName": "my-claim", "containers": ["main"], "resources": end}]
    assert cycle.reserved is not None
    assert told(cycle.reserved.placed) == expected
    assert cycle.reserved.placed.spec.node_name == "worker"
    assert cycle.server.pods["my-pod"]["status"]["nodeAllocatableResourceClaimStatuses"] == expected


def test_without_the_gate_devices_take_nothing() -> None:
    world = World([claim()], [slice_of("worker", taking(cpu="11"))], nodes=[worker()], settings=OFF)
    cycle = world.drive(user())
    assert cycle.bound == SUCCESS
    assert cycle.reserved is not None
    assert told(cycle.reserved.placed) == []
    assert [one.resource.kind for one in cycle.writes] == ["ResourceClaim", "ResourceClaim"]


def test_feasible_nodes_have_room_too() -> None:
    slices = [slice_of("worker", taking(cpu="11"))]
    world = World([claim()], slices, nodes=[worker()], settings=ON)
    tracker = world.start().tracker
    plan = pre_filter(user(), tracker, ON).plan
    assert Filter(plan, tracker, ON, NOW, world.node_infos()).feasible(world.nodes) == []
    assert Filter(plan, tracker, OFF, NOW).feasible(world.nodes) != []


def test_an_allocation_in_flight_that_the_pod_shares_counts() -> None:
    world = World([claim()], [slice_of("worker", taking(cpu="2"))], nodes=[worker()], settings=ON)
    tracker = world.start().tracker
    assert tracker.signal(allocated(), "uid-first")
    plan = pre_filter(user(), tracker, ON, {"uid-my-claim"}).plan
    made = Filter(plan, tracker, ON, NOW, world.node_infos()).allocate(worker())
    assert not isinstance(made, Status)
    assert [to_raw(one) for one in made.node_resources] == [row("my-claim", ["main"], cpu="2")]


def test_the_nodes_are_needed_with_the_gate() -> None:
    tracker = World(settings=ON).start().tracker
    with pytest.raises(InvariantError, match="DRANodeAllocatableResources"):
        Filter(PodClaims(user()), tracker, ON, NOW)


def test_what_other_pods_ask_for_is_not_there_to_take() -> None:
    other = pod(name="other", nodeName="worker", containers=[container("c", cpu="8")])
    world = World([claim()], [slice_of("worker", taking(cpu="2"))], nodes=[worker()], settings=ON)
    assert world.drive(user(containers=[container("main", "entry-0")])).bound == SUCCESS
    full = World(world.claims, world.slices, nodes=world.nodes, settings=ON, placed=[other])
    assert full.drive(user()).bound == SUCCESS
    more = user(containers=[container("main", "entry-0", cpu="1")])
    assert full.drive(more).filtered == {"worker": unschedulable("Insufficient cpu")}


def test_what_the_devices_of_other_pods_take_is_not_there_either() -> None:
    slices = [slice_of("worker", taking("a", cpu="6"), taking("b", cpu="6"))]
    world = World([claim(), claim(name="claim-2")], slices, nodes=[worker()], settings=ON)
    first = world.drive(user())
    assert first.reserved is not None
    after = replace(world, placed=[first.reserved.placed])
    second = after.drive(user("claim-2", name="second"))
    assert second.filtered == {"worker": unschedulable("Insufficient cpu")}


def test_an_allocated_claim_counts_unless_as_in_kubernetes() -> None:
    """Where PreBind had stored the devices before it failed, the next attempt finds them there."""
    world = World([allocated()], [slice_of("worker", taking(cpu="11"))], nodes=[worker()], settings=ON)
    cycle = world.drive(user())
    assert cycle.bound == SUCCESS
    assert cycle.reserved is not None
    assert told(cycle.reserved.placed) == []
    right = replace(ON, quirks=Quirks())
    cycle = replace(world, settings=right).drive(user())
    assert cycle.filtered == {"worker": unresolvable("Insufficient cpu")}


def test_a_binding_that_fails_clears_what_was_told() -> None:
    world = World(
        [claim()],
        [slice_of("worker", taking(cpu="1"))],
        nodes=[worker()],
        settings=ON,
        fails_to_bind=True,
    )
    cycle = world.drive(user())
    assert cycle.bound == failure("binding failed")
    assert cycle.writes[-1].body["status"] == {"nodeAllocatableResourceClaimStatuses": None}
    plain = World([claim()], [slice_of()], nodes=[worker()], settings=ON, fails_to_bind=True)
    assert all(one.resource.kind == "ResourceClaim" for one in plain.drive(user()).writes)


def test_a_status_that_cannot_be_told_ends_the_attempt() -> None:
    def away(write: Write) -> UnavailableError | None:
        is_told = "nodeAllocatableResourceClaimStatuses" in write.body.get("status", {})
        lost = is_told and write.body["status"]["nodeAllocatableResourceClaimStatuses"]
        return UnavailableError(f"{write.purpose}: away") if lost else None

    world = World([claim()], [slice_of("worker", taking(cpu="1"))], nodes=[worker()], settings=ON, fails=away)
    cycle = world.drive(user())
    assert cycle.bound == failure("update pod default/my-pod NodeAllocatableResourceClaimStatuses: away")
    assert cycle.claim().status.reserved_for == ()


def test_a_filter_asks_who_has_the_claim() -> None:
    other = holding("other", "my-claim")
    slices = [slice_of("worker", taking(cpu="1"))]
    world = World([allocated()], slices, nodes=[worker()], settings=ON, placed=[other])
    assert world.drive(user()).filtered == {"worker": unresolvable(f"{START} is already used by another pod")}
    elsewhere = World([allocated(where="x")], slices, nodes=[worker()], settings=ON, placed=[other])
    assert elsewhere.drive(user()).filtered == {
        "worker": unresolvable("resourceclaim not available on the node")
    }


def test_devices_that_take_nothing_beside_others_that_do() -> None:
    """Also where the node is full: a pod whose devices take nothing is not asked for room."""
    slices = [slice_of("worker", device("plain"), taking("t", cpu="1"))]
    nodes = [worker(cpu="0", pods="0")]
    world = World([claim()], slices, nodes=nodes, settings=ON)
    cycle = world.drive(user())
    assert cycle.bound == SUCCESS and cycle.reserved is not None
    assert told(cycle.reserved.placed) == []
    both = World([claim(request(count=2))], slices, nodes=nodes, settings=ON).drive(user())
    assert both.filtered == {"worker": unresolvable("Insufficient cpu")}


def test_a_claim_that_no_container_uses_cannot_be_charged_to_one() -> None:
    slices = [slice_of("worker", taking(cpu="1"))]
    cycle = World([claim()], slices, nodes=[worker()], settings=ON).drive(
        user(containers=[container("main")])
    )
    text = "node-allocatable resource claim not referenced by any container within the pod"
    assert cycle.filtered == {"worker": unresolvable(f"claim my-claim: {text}")}
