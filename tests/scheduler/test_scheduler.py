"""The whole scheduler against the embedded API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from dray.allocation.profiles import CORRECT
from dray.api.kinds import EVENTS, NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.api.limits import CLAIM_FINALIZER
from dray.api.scheduling import POD_GROUPS
from dray.runtime.metrics import Metrics
from dray.scheduler.apart import ApartOptions
from dray.scheduler.claims.settings import Settings
from dray.scheduler.cycle import CycleOptions, Score
from dray.scheduler.storage import VOLUME_CLAIMS, VOLUMES
from dray.semantics.features import Gate
from tests.scheduler.live import CONFIG, NS, Live, live, named, scheduling
from tests.waiting import until


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Live]:
    async with live(tmp_path) as found:
        yield found


async def test_a_pod_gets_a_node_and_its_devices(server: Live) -> None:
    await server.node()
    await server.both("p")
    metrics = Metrics()
    async with scheduling(server, metrics=metrics):
        assert (await server.wait_bound("p"))["p"] == "n"
        claim, pod = await server.get_claim("p"), await server.get_pod("p")
        assert CLAIM_FINALIZER in claim.metadata.finalizers
        assert [one.uid for one in claim.status.reserved_for] == [pod.metadata.uid]
        assert await server.held() == {"p": ["n/g0"]}

        async def is_told() -> bool:
            return await server.events("p") == ["Scheduled: Successfully assigned default/p to n"]

        await until(is_told)
    text = metrics.render().decode()
    assert 'scheduler_schedule_attempts_total{profile="dray",result="scheduled"} 1.0' in text
    assert 'scheduler_pending_pods{queue="active"} 0' in text
    assert 'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"} 1.0' in text


async def test_a_refusal_explains_and_ends_when_devices_become_free(server: Live) -> None:
    await server.node("n1", 1)
    await server.node("n2", 0)
    await server.both("p1")
    async with scheduling(server):
        await server.wait_bound("p1")
        await server.both("p2")
        told = await server.wait_message("p2", "0 left")
        assert told.startswith("Unschedulable: 0/2 nodes are available: 2 cannot allocate all claims. ")
        assert "claim default/p2, request r wants 1 of 1: 1 in use, 0 left" in told
        assert "claim default/p2, request r wants 1: no devices" in told

        async def has_event() -> bool:
            return any(one.startswith("FailedScheduling: 0/2 nodes") for one in await server.events("p2"))

        await until(has_event)
        await server.end("p1")
        await server.wait_bound("p2")
        assert await server.message("p2") == ""


async def test_new_devices_wake_pods(server: Live) -> None:
    await server.node("n", 0)
    await server.both("p")
    async with scheduling(server):
        await server.wait_message("p", "no devices")
        await server.slice("n", 1)
        await server.wait_bound("p")


async def test_a_node_that_comes_wakes_pods(server: Live) -> None:
    async with scheduling(server):
        await server.pod("p")
        await server.wait_message("p", "no nodes available to schedule pods")
        await server.node("n", 0)
        await server.wait_bound("p")


async def test_only_own_pods_are_placed_but_all_count(server: Live) -> None:
    await server.node("n", 0, has={"cpu": "1"})
    await server.pod("other", cpu="800m", schedulerName="default-scheduler")
    await server.bind("other", "n")
    await server.pod("waits", schedulerName="default-scheduler")
    async with scheduling(server):
        await server.pod("p", cpu="500m")
        await server.wait_message("p", "0/1 nodes are available: 1 Insufficient cpu.")
        await server.end("other")
        where = await server.wait_bound("p")
        assert where["waits"] == ""


async def test_scheduling_gates_hold_a_pod(server: Live) -> None:
    await server.node()
    await server.both("p", schedulingGates=[{"name": "example.com/g"}])
    await server.both("q")
    async with scheduling(server):
        await server.wait_bound("q")
        assert (await server.where())["p"] == ""
        await server.client.patch(PODS, "p", {"spec": {"schedulingGates": None}}, namespace=NS)
        await server.wait_bound("p")


async def test_a_pod_waits_for_its_claim(server: Live) -> None:
    await server.node()
    await server.pod("p", "later")
    async with scheduling(server):
        await server.pod("q")
        await server.wait_bound("q")
        assert (await server.where())["p"] == ""
        await server.claim("later")
        await server.wait_bound("p")


async def test_two_pods_share_a_claim(server: Live) -> None:
    await server.node("n1", 1)
    await server.node("n2", 1)
    await server.claim("c")
    for name in ("p1", "p2", "p3"):
        await server.pod(name, "c")
    async with scheduling(server):
        where = await server.wait_bound("p1", "p2", "p3")
        assert len(set(where.values())) == 1
        assert len((await server.get_claim("c")).status.reserved_for) == 3


async def test_a_deleted_pod_is_not_placed(server: Live) -> None:
    async with scheduling(server):
        await server.both("p")
        await server.wait_message("p", "no nodes")
        await server.client.delete(PODS, "p", namespace=NS)
        await server.node("n", 1)
        await server.both("q")
        await server.wait_bound("q")
        assert await server.held() == {"q": ["n/g0"]}


async def test_a_restart_goes_on_where_the_last_one_ended(server: Live) -> None:
    """Also with a claim that was allocated and reserved before the pod was bound."""
    await server.node("n1", 1)
    await server.node("n2", 1)
    pod = await server.both("p")
    result = {"request": "r", "driver": "d.example.com", "pool": "n2", "device": "g0"}
    there = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [there]}}
    user = {"resource": "pods", "name": "p", "uid": pod.metadata.uid}
    await server.client.patch(
        RESOURCE_CLAIMS, "p", {"metadata": {"finalizers": [CLAIM_FINALIZER]}}, namespace=NS
    )
    status = {"status": {"allocation": allocation, "reservedFor": [user]}}
    await server.client.patch(RESOURCE_CLAIMS, "p", status, namespace=NS, subresource="status")
    async with scheduling(server):
        assert (await server.wait_bound("p"))["p"] == "n2"
    await server.both("q")
    async with scheduling(server):
        assert (await server.wait_bound("q"))["q"] == "n1"


async def test_a_claim_on_a_node_that_is_gone_gets_other_devices(server: Live) -> None:
    """The claim holds a device of n2 for nobody; n2 goes, so it gives it back and gets one of n1."""
    await server.node("n1", 1)
    await server.claim("p")
    result = {"request": "r", "driver": "d.example.com", "pool": "n2", "device": "g0"}
    there = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [there]}}
    await server.client.patch(
        RESOURCE_CLAIMS, "p", {"status": {"allocation": allocation}}, namespace=NS, subresource="status"
    )
    await server.pod("p", "p")
    async with scheduling(server):
        await server.wait_bound("p")
        assert await server.held() == {"p": ["n1/g0"]}


async def test_extended_resources_that_devices_serve(server: Live) -> None:
    await server.device_class("gpus", extendedResourceName="example.com/gpu")
    await server.node("n", 2)
    container = {"name": "c", "image": "i", "resources": {"limits": {"example.com/gpu": "1"}}}
    container["resources"]["requests"] = container["resources"]["limits"]  # type: ignore[index]
    await server.pod("p", containers=[container])
    async with scheduling(server):
        await server.wait_bound("p")
        pod = await server.get_pod("p")
        told = pod.status.extended_resource_claim_status
        assert told is not None
        claim = await server.get_claim(told.resource_claim_name)
        assert [one.uid for one in claim.status.reserved_for] == [pod.metadata.uid]
        assert claim.status.allocation is not None


async def test_extended_resources_of_a_device_plugin(server: Live) -> None:
    await server.node("n1", 0)
    await server.node("n2", 0, has={"example.com/nic": "1"})
    for name in ("p", "q"):
        resources = {"requests": {"example.com/nic": "1"}, "limits": {"example.com/nic": "1"}}
        await server.pod(name, containers=[{"name": "c", "image": "i", "resources": resources}])
    async with scheduling(server):

        async def one_is_refused() -> bool:
            where = await server.where()
            left = [name for name in ("p", "q") if not where[name]]
            return len(left) == 1 and "2 Insufficient example.com/nic" in await server.message(left[0])

        await until(one_is_refused)


async def test_binding_conditions_are_waited_for(server: Live) -> None:
    await server.node("n", 0)
    await server.slice(
        "n", 1, bindsToNode=True, bindingConditions=["ready"], bindingFailureConditions=["broken"]
    )
    await server.both("p")
    async with scheduling(server):

        async def is_allocated() -> bool:
            return bool(await server.held())

        await until(is_allocated)
        await server.pod("q")
        await server.wait_bound("q")
        assert (await server.where())["p"] == ""
        condition = {
            "type": "ready", "status": "True", "reason": "r", "message": "",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        }  # fmt: skip
        device = {"driver": "d.example.com", "pool": "n", "device": "g0", "conditions": [condition]}
        change = {"status": {"devices": [device]}}
        await server.client.patch(RESOURCE_CLAIMS, "p", change, namespace=NS, subresource="status")
        await server.wait_bound("p")


async def test_best_fit_fills_a_node_and_spread_does_not(server: Live) -> None:
    for name in ("n1", "n2", "n3"):
        await server.node(name, 4)
    for score, expected in ((Score.BEST_FIT, 1), (Score.SPREAD, 3)):
        names = [f"{score.value}-{number}" for number in range(3)]
        for name in names:
            await server.both(name)
        async with scheduling(server, replace(CONFIG, cycle=CycleOptions(score))):
            where = await server.wait_bound(*names)
        assert len({where[name] for name in names}) == expected
        for name in names:
            await server.end(name)


async def test_preemption_of_a_pod_with_devices(server: Live) -> None:
    await server.node("n", 1)
    await server.priority_class("low", 1)
    await server.priority_class("high", 10)
    await server.both("low", priorityClassName="low")
    async with scheduling(server, replace(CONFIG, preempt=True)):
        await server.wait_bound("low")
        await server.both("same", priorityClassName="low")
        told = await server.wait_message("same", "0 left")
        assert "preemption" not in told
        await server.both("high", priorityClassName="high")

        async def is_ending() -> bool:
            return (await server.get_pod("low")).metadata.deletion_timestamp is not None

        await until(is_ending)
        assert (await server.get_pod("same")).metadata.deletion_timestamp is None
        await server.wait_message("high", "preemption: 1 pod(s) on n make room")
        assert (await server.get_pod("high")).status.nominated_node_name == "n"
        await server.end("low")
        where = await server.wait_bound("high")
        assert where["same"] == ""


@pytest.mark.parametrize("inline", [0.0, 1e-9])
async def test_preemption_that_takes_longer_is_worked_out_in_a_copy(server: Live, inline: float) -> None:
    """With the claims looked at: who holds the device goes, and not who is less important and holds none."""
    await server.node("n", 1)
    for name, value in (("least", 1), ("low", 2), ("high", 10)):
        await server.priority_class(name, value)
    config = replace(CONFIG, preempt=True, apart=ApartOptions(inline=inline))
    await server.pod("bystander", priorityClassName="least")
    await server.both("holder", priorityClassName="low")
    async with scheduling(server, config):
        await server.wait_bound("bystander", "holder")
        await server.both("high", priorityClassName="high")

        async def is_ending() -> bool:
            return (await server.get_pod("holder")).metadata.deletion_timestamp is not None

        await until(is_ending)
        await server.wait_message("high", "preemption: 1 pod(s) on n make room")
        await server.end("holder")
        await server.wait_bound("high")
        assert (await server.get_pod("bystander")).metadata.deletion_timestamp is None


async def test_two_schedulers_never_give_a_device_twice(server: Live) -> None:
    """Both choose the same devices again and again, because both see the same; the server lets one of them through."""
    for number in range(3):
        await server.node(f"n{number}", 4)
    names = [f"{who}-{number}" for number in range(6) for who in ("a", "b")]
    for name in names:
        await server.both(name, schedulerName=name[0])
    async with scheduling(server, named("a")), scheduling(server, named("b")):
        await server.wait_bound(*names)
    held = await server.held()
    devices = await server.devices()
    where = await server.where()
    assert len(devices) == len(set(devices)) == 12
    assert all(where[name] == held[name][0].partition("/")[0] for name in names)


async def test_two_schedulers_of_one_name(server: Live) -> None:
    """As where no election is asked for by mistake: each pod is bound once, and its claim stays reserved for it."""
    for number in range(3):
        await server.node(f"n{number}", 4)
    names = [f"p{number}" for number in range(12)]
    for name in names:
        await server.both(name)
    async with scheduling(server), scheduling(server, replace(CONFIG, cycle=CycleOptions(seed=7))):
        await server.wait_bound(*names)
        for name in ("last", "very-last"):  # by then both have tried all others
            await server.pod(name)
            await server.wait_bound(name)
    held, where = await server.held(), await server.where()
    devices = await server.devices()
    assert len(devices) == len(set(devices)) == 12
    for name in names:
        assert where[name] == held[name][0].partition("/")[0]
        assert [one.name for one in (await server.get_claim(name)).status.reserved_for] == [name]


async def test_labels_of_namespaces_count(server: Live) -> None:
    await server.node("n1", 0, labels={"zone": "a"})
    await server.node("n2", 0, labels={"zone": "b"})
    await server.client.patch(NAMESPACES, NS, {"metadata": {"labels": {"team": "x"}}})
    term = {"namespaceSelector": {"matchLabels": {"team": "x"}}, "labelSelector": {}, "topologyKey": "zone"}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    async with scheduling(server):
        await server.pod("first")
        first = (await server.wait_bound("first"))["first"]
        await server.pod("second", affinity=rule)
        where = await server.wait_bound("second")
        assert {first, where["second"]} == {"n1", "n2"}
        await server.pod("third", affinity=rule)
        await server.wait_message("third", "anti-affinity")


async def test_a_group_shares_its_claim(server: Live) -> None:
    """With the gate on: one reservation for the group, however many of its pods use the claim."""
    await server.node("n", 1)
    await server.claim("c")
    pods = [await server.pod(name, "c", schedulingGroup={"podGroupName": "g"}) for name in ("p1", "p2", "p3")]
    settings = Settings.of_gates(CORRECT, {Gate.WORKLOAD_RESOURCE_CLAIMS: True})
    async with scheduling(server, replace(CONFIG, settings=settings)):
        await server.wait_message("p1", "podgroup")
        entry = {"name": "c", "resourceClaimName": "c"}
        group = {"metadata": {"name": "g", "namespace": NS}, "spec": {"resourceClaims": [entry]}}
        await server.client.create(POD_GROUPS, group)
        await server.wait_bound(*(pod.metadata.name for pod in pods))
    users = (await server.get_claim("c")).status.reserved_for
    assert [(one.resource, one.name) for one in users] == [("podgroups", "g")]


async def test_devices_that_take_from_their_node(server: Live) -> None:
    """With the gate on: each device takes two CPUs, so a node with three has room for one pod."""
    await server.node("n", 0, has={"cpu": "3"})
    mapping = {"cpu": {"allocationMultiplier": "2"}}
    await server.slice("n", 4, nodeAllocatableResourceMappings=mapping)
    await server.both("p1")
    settings = Settings.of_gates(CORRECT, {Gate.NODE_ALLOCATABLE_RESOURCES: True})
    async with scheduling(server, replace(CONFIG, settings=settings)):
        await server.wait_bound("p1")
        await server.both("p2")
        await server.wait_message("p2", "Insufficient cpu")
        told = (await server.get_pod("p1")).status.node_allocatable_resource_claim_statuses
        assert [(one.resource_claim_name, str(one.resources["cpu"])) for one in told] == [("p1", "2")]
        await server.end("p1")
        await server.wait_bound("p2")


async def test_a_pod_goes_where_its_volume_is(server: Live) -> None:
    await server.node("n1", 0, labels={"kubernetes.io/hostname": "n1"})
    await server.node("n2", 0, labels={"kubernetes.io/hostname": "n2"})
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    await server.pod("p", volumes=[volume])
    async with scheduling(server):
        await server.wait_message("p", 'persistentvolumeclaim "data" not found')
        wanted = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}
        there = {"required": {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}
        modes = {"accessModes": ["ReadWriteOnce"]}
        disk = {**modes, "capacity": {"storage": "1Gi"}, "local": {"path": "/x"}, "nodeAffinity": there}
        await server.client.create(VOLUMES, {"metadata": {"name": "disk"}, "spec": disk})
        claim = {**modes, "volumeName": "disk", "resources": {"requests": {"storage": "1Gi"}}}
        bound = {"pv.kubernetes.io/bind-completed": "yes"}
        meta = {"name": "data", "namespace": NS, "annotations": bound}
        await server.client.create(VOLUME_CLAIMS, {"metadata": meta, "spec": claim})
        assert (await server.wait_bound("p"))["p"] == "n2"


async def test_a_slice_that_goes_takes_its_devices(server: Live) -> None:
    await server.node("n", 1)
    async with scheduling(server):
        await server.client.delete(RESOURCE_SLICES, "s-n")
        await server.both("p")
        await server.wait_message("p", "no devices")
        await server.client.delete(NODES, "n")
        await server.both("q")
        await server.wait_message("q", "no nodes available")
    assert not [one for one in (await server.client.list(EVENTS)).items if one.reason == "Scheduled"]
