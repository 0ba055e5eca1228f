"""What devices take from their node, each rule on its own; whole cycles are in test_node_resource_cycles."""

from __future__ import annotations

import pytest

from dray.api.codec import to_raw, view
from dray.api.core import Pod
from dray.api.core.pod import NodeAllocatableResourceClaimStatus
from dray.api.resource import ResourceClaim
from dray.scheduler.claims.extended import special_claim
from dray.scheduler.claims.mappings import DeviceMappings
from dray.scheduler.claims.node_resources import _containers, fits, shared_on, taken_by_claims
from dray.scheduler.claims.outcome import SUCCESS, Status, failure, unresolvable, unschedulable
from dray.scheduler.claims.pod_claims import PodClaims
from dray.scheduler.nodes import NodeInfo, Nodes
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
    Json,
    allocated,
    allocation,
    as_allocation,
    claim,
    device,
    pod,
    result,
    slice_of,
)


def known(*devices: Json) -> DeviceMappings:
    found = DeviceMappings()
    found.set_slice(slice_of("worker", *devices))
    return found


def plan_of(one: Pod, *claims: ResourceClaim) -> PodClaims:
    names = tuple(entry.name for entry in one.spec.resource_claims)
    return PodClaims(one, claims, len(claims), (None,) * len(claims), entries=names)


def taken(one: Pod, results: list[list[Json]], *devices: Json) -> list[Json] | Status:
    claims = [claim(name=entry.resource_claim_name or "") for entry in one.spec.resource_claims]
    given = {place: as_allocation(allocation(*many)) for place, many in enumerate(results)}
    found = taken_by_claims(plan_of(one, *claims), "worker", given, known(*devices))
    return found if isinstance(found, Status) else [to_raw(told) for told in found]


def test_nothing_is_told_of_devices_that_take_nothing() -> None:
    assert taken(user(), [], taking(cpu="1")) == []
    assert taken(user(), [[result("plain")]], device("plain"), taking(cpu="1")) == []


def test_devices_of_a_claim_add_up() -> None:
    devices = [taking("a", cpu="1"), taking("b", cpu="500m", memory="1Gi"), device("plain")]
    found = taken(user(), [[result("a"), result("b"), result("plain")]], *devices)
    assert found == [row("my-claim", ["main"], cpu="1500m", memory="1Gi")]


def test_several_claims_and_containers() -> None:
    """In the order of the claims' names; init containers first; a container that names a claim twice counts once."""
    one = user(
        "claim-b",
        "claim-a",
        initContainers=[container("init", "entry-1") | {"restartPolicy": "Always"}],
        containers=[
            container("x", "entry-0", "entry-1", "entry-0"),
            container("y"),
            container("z", "entry-1"),
        ],
    )
    devices = [taking("a", cpu="1"), taking("b", memory="1Gi")]
    assert taken(one, [[result("a")], [result("b")]], *devices) == [
        row("claim-a", ["init", "x", "z"], memory="1Gi"),
        row("claim-b", ["x"], cpu="1"),
    ]


def test_of_alternatives_the_chosen_one_counts() -> None:
    devices = [taking("gpu", cpu="1"), taking("cpu", cpu="4")]
    assert taken(user(), [[result("gpu", "req/gpu")]], *devices) == [row("my-claim", ["main"], cpu="1")]
    assert taken(user(), [[result("cpu", "req/cpu")]], *devices) == [row("my-claim", ["main"], cpu="4")]


def test_a_claim_that_no_container_uses() -> None:
    text = "node-allocatable resource claim not referenced by any container within the pod"
    one = user(containers=[container("main")])
    assert taken(one, [[result()]], taking(cpu="1")) == unresolvable(f"claim my-claim: {text}")


@pytest.mark.parametrize(
    ("mapping", "consumed", "found"),
    [
        pytest.param({"capacityKey": CPUS}, {CPUS: "3"}, "3", id="capacity"),
        pytest.param(
            {"capacityKey": CPUS, "allocationMultiplier": "1500m"}, {CPUS: "3"}, "4500m", id="times"
        ),
        pytest.param({"allocationMultiplier": "2"}, {CPUS: "3"}, "2", id="per-device"),
        pytest.param({"capacityKey": "", "allocationMultiplier": "2"}, {}, "2", id="empty-key"),
        pytest.param({}, {}, "0", id="nothing-said"),
    ],
)
def test_amounts(mapping: Json, consumed: Json, found: str) -> None:
    given = [[result(consumedCapacity=consumed)]]
    assert taken(user(), given, taking(cpu=mapping)) == [row("my-claim", ["main"], cpu=found)]


def test_a_capacity_that_was_not_asked_for_is_left_out() -> None:
    given = [[result(consumedCapacity={"example.com/other": "1"})]]
    assert taken(user(), given, taking(cpu={"capacityKey": CPUS})) == []


def test_a_capacity_without_any_consumption_is_an_error() -> None:
    found = taken(user(), [[result()]], taking(cpu={"capacityKey": CPUS}))
    where = "claim default/my-claim, device instance-1: no consumed capacity"
    assert found == failure(f"{where} for the capacity key {CPUS} of the mapping for cpu")


def test_a_device_that_is_gone() -> None:
    text = "claim default/my-claim, device gone: device gone not found in pool worker"
    assert taken(user(), [[result(), result("gone")]], taking(cpu="1")) == failure(text)
    assert taken(user(), [[result("gone")]], taking(cpu="1")) == []


def info(*pods: Pod, **allocatable: str) -> NodeInfo:
    nodes = Nodes()
    nodes.put_node(worker(**allocatable))
    for one in pods:
        nodes.put_pod(one)
    found = nodes.get("worker")
    assert found is not None
    return found


def adding(**resources: str) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    return (view(row("my-claim", ["main"], **resources), NodeAllocatableResourceClaimStatus),)


BUSY = pod(name="busy", nodeName="worker", containers=[container("c", cpu="4", memory="9Gi")])
HUGE = {"hugepages-2Mi": "4Mi", "hugepages-1Gi": "1Gi", "ephemeral-storage": "1Gi"}


@pytest.mark.parametrize(
    ("added", "end"),
    [
        pytest.param({}, SUCCESS, id="empty"),
        pytest.param({"cpu": "6", "memory": "1Gi"}, SUCCESS, id="sufficient"),
        pytest.param({"cpu": "6001m"}, unschedulable("Insufficient cpu"), id="cpu"),
        pytest.param({"cpu": "11"}, unresolvable("Insufficient cpu"), id="cpu-never"),
        pytest.param({"memory": "2Gi"}, unschedulable("Insufficient memory"), id="memory"),
        pytest.param({"hugepages-2Mi": "4Mi", "hugepages-1Gi": "1Gi"}, SUCCESS, id="hugepages"),
        pytest.param({"hugepages-2Mi": "6Mi"}, unresolvable("Insufficient hugepages-2Mi"), id="2Mi"),
        pytest.param({"hugepages-1Gi": "2Gi"}, unresolvable("Insufficient hugepages-1Gi"), id="1Gi"),
        pytest.param({"hugepages-4Ki": "4Ki"}, unresolvable("Insufficient hugepages-4Ki"), id="none"),
        pytest.param(
            {"ephemeral-storage": "2Gi"}, unresolvable("Insufficient ephemeral-storage"), id="storage"
        ),
        pytest.param(
            {"hugepages-2Mi": "6Mi", "memory": "2Gi", "cpu": "7"},
            unresolvable("Insufficient cpu, Insufficient memory, Insufficient hugepages-2Mi"),
            id="several",
        ),
    ],
)
def test_room_on_a_node(added: dict[str, str], end: Status) -> None:
    assert fits(user(), adding(**added), info(BUSY, **HUGE)) == end


def test_what_containers_ask_for_and_overhead_come_on_top() -> None:
    one = user(containers=[container("main", "entry-0", cpu="3")], overhead={"cpu": "1"})
    assert fits(one, adding(cpu="6"), info()) == SUCCESS
    assert fits(one, adding(cpu="7"), info()) == unresolvable("Insufficient cpu")
    assert fits(one, adding(cpu="1"), info(BUSY)) == SUCCESS
    assert fits(one, adding(cpu="3"), info(BUSY)) == unschedulable("Insufficient cpu")


def whole(overhead: dict[str, str] | None = None, **requests: str) -> Pod:
    """A pod that asks as a whole, with a container that asks for two CPUs."""
    return user(
        containers=[container("main", "entry-0", cpu="2", memory="1Gi")],
        resources={"requests": requests},
        overhead=overhead or {},
    )


def short(resource: str) -> Status:
    text = "insufficient to cover the aggregated container and node-allocatable DRA requests"
    return unresolvable(f"pod level request for {resource} is {text}")


@pytest.mark.parametrize(
    ("one", "added", "end"),
    [
        pytest.param(user(), {"cpu": "4"}, SUCCESS, id="not-set"),
        pytest.param(whole(cpu="6", memory="2Gi"), {"cpu": "4", "memory": "1Gi"}, SUCCESS, id="sufficient"),
        pytest.param(whole(cpu="5"), {"cpu": "4"}, short("cpu"), id="insufficient"),
        pytest.param(
            whole(cpu="5", memory="1Gi"), {"cpu": "4", "memory": "1Gi"}, short("cpu"), id="insufficient-two"
        ),
        pytest.param(whole({"cpu": "1"}, cpu="6"), {"cpu": "4"}, SUCCESS, id="with-overhead"),
        pytest.param(whole(memory="2Gi"), {"cpu": "4"}, SUCCESS, id="of-another-resource"),
    ],
)
def test_requests_of_the_pod_as_a_whole_cover_its_devices(
    one: Pod, added: dict[str, str], end: Status
) -> None:
    assert fits(one, adding(**added), info()) == end


def test_a_pod_takes_what_it_asks_for_as_a_whole() -> None:
    """Not that and the devices on top."""
    assert fits(whole(cpu="9"), adding(cpu="7"), info()) == SUCCESS
    assert fits(whole(cpu="6"), adding(cpu="1"), info(BUSY)) == SUCCESS
    assert fits(whole(cpu="7"), adding(cpu="1"), info(BUSY)) == unschedulable("Insufficient cpu")


@pytest.mark.parametrize(
    ("pods", "end"),
    [
        pytest.param([], SUCCESS, id="nobody"),
        pytest.param([holding("other", "another-claim")], SUCCESS, id="another-claim"),
        pytest.param([holding("other", "my-claim", namespace="x")], SUCCESS, id="another-namespace"),
        pytest.param([holding("my-pod", "my-claim")], SUCCESS, id="itself"),
        pytest.param(
            [holding("other", "my-claim")],
            unresolvable(f"{START} is already used by another pod"),
            id="only-used-by-other-pod",
        ),
        pytest.param(
            [holding("a", "my-claim"), holding("b", "my-claim")],
            unresolvable(f"{START} shared by multiple pods"),
            id="shared",
        ),
        pytest.param(
            [holding("a", "my-claim"), holding("my-pod", "my-claim")],
            unresolvable(f"{START} shared by multiple pods"),
            id="shared-with-it",
        ),
    ],
)
def test_a_claim_counts_for_one_pod_of_a_node(pods: list[Pod], end: Status) -> None:
    assert shared_on(user(), allocated(), info(*pods)) == end


def test_the_claim_for_extended_resources_has_no_name_in_the_pod() -> None:
    my_pod = pod("a", containers=[{"name": "con0", "resources": {"claims": [{"name": "entry-0"}]}}])
    plan = PodClaims(my_pod, (claim(name="a"), special_claim(my_pod)), 1, entries=("entry-0",))
    assert _containers(plan, plan.claims[0]) == ("con0",)
    assert _containers(plan, plan.claims[1]) == ()
