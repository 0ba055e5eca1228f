"""Prepare through the manager, over real sockets. Errors are compared whole: pods show them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dray.api.core.pod import PodExtendedResourceClaimStatus, PodResourceClaim, PodResourceClaimStatus
from dray.api.meta import OwnerReference
from dray.errors import Error
from dray.kubelet.claims.cache import ClaimCache
from dray.kubelet.claims.claim_info import ClaimDevice, ClaimInfo
from dray.kubelet.claims.manager import ClaimManager
from dray.kubelet.claims.prepare import _known
from dray.kubelet.claims.state_file import FILE_NAME, StateFile, decode
from dray.wire import dra
from dray.wire.gen import dra_v1_pb2 as pb
from tests.kubelet.claims.world import Driver, World, claim_of, direct, pod_of
from tests.waiting import wait_until

PREFIX = "prepare dynamic resources: "
POD = pod_of("pod", direct("c"), uses=[("c", "")])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "state", active={"pod-uid", "two-uid"})


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver("a.io", tmp_path / "a.sock")


async def refused(manager: ClaimManager, pod: object = POD) -> str:
    with pytest.raises(Error) as caught:
        await manager.prepare(pod)  # type: ignore[arg-type]
    text = str(caught.value)
    assert text.startswith(PREFIX)
    return text.removeprefix(PREFIX)


@pytest.mark.parametrize("version", dra.VERSIONS)
async def test_a_fresh_claim(world: World, driver: Driver, version: str) -> None:
    driver.versions = [version]
    world.api.add(claim_of("c"))
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        assert manager.cdi_devices(POD, POD.spec.containers[0]) == ("a.io/dev=c",)
        assert world.metric("dra_resource_claims_in_use", {"driver_name": "<any>"}) == 1
        await manager.prepare(POD)
    assert driver.calls == [("prepare", ("c",))]
    (known,) = decode((world.directory / FILE_NAME).read_bytes())
    assert (known.uid, set(known.pods)) == ("c-uid", {"pod-uid"})
    assert known.drivers == {"a.io": (ClaimDevice("node-1", "dev-c", None, ("req",), ("a.io/dev=c",)),)}
    labels = {"operation_name": "PrepareResources", "is_error": "false"}
    assert world.metric("dra_operations_duration_seconds_count", labels) == 2
    package = version.partition(".")[0]
    method = f"/k8s.io.kubelet.pkg.apis.dra.{package}.DRAPlugin/NodePrepareResources"
    grpc = {"driver_name": "a.io", "method_name": method, "grpc_status_code": "OK"}
    assert world.metric("dra_grpc_operations_duration_seconds_count", grpc) == 1


async def test_share_ids_come_through(world: World, driver: Driver) -> None:
    world.api.add(claim_of("c"))

    def shared(request: pb.NodePrepareResourcesRequest) -> pb.NodePrepareResourcesResponse:
        answer = driver.good(request)
        answer.claims["c-uid"].devices[0].share_id = "share"
        return answer

    driver.on_prepare = shared
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        (claim,) = manager.container_claims(POD, POD.spec.containers[0])
    assert [device.share_id for _, device in claim.devices()] == ["share"]


async def test_a_missing_claim(world: World) -> None:
    async with world.running() as manager:
        text = await refused(manager)
    assert text == 'fetch ResourceClaim c: resourceclaims.resource.k8s.io "c" not found'


async def test_an_unknown_driver_leaves_no_trace(world: World) -> None:
    world.api.add(claim_of("c"))
    async with world.running() as manager:
        assert await refused(manager) == "DRA driver a.io is not registered"
        assert not manager.may_need_unprepare("pod-uid")
    labels = {"operation_name": "PrepareResources", "is_error": "true"}
    assert world.metric("dra_operations_duration_seconds_count", labels) == 1


async def test_refusals_before_any_call(world: World, driver: Driver) -> None:
    template = PodResourceClaim(name="c", resource_claim_template_name="t")
    status = PodResourceClaimStatus(name="c", resource_claim_name="c")
    async with driver.serving(), world.running(driver) as manager:
        world.api.add(claim_of("c", pods=["other"]))
        assert await refused(manager) == "pod pod (pod-uid) is not allowed to use ResourceClaim c (c-uid)"
        world.api.add(claim_of("c", allocated=False))
        assert await refused(manager) == "ResourceClaim c: not allocated"
        world.api.add(claim_of("c"))
        assert (
            await refused(manager, pod_of("pod", template)) == 'pod "ns/pod": ResourceClaim not created yet'
        )
        assert (
            await refused(manager, pod_of("pod", template, statuses=[status]))
            == "ResourceClaim ns/c was not created for Pod ns/pod (Pod is not owner)"
        )
        assert not manager.may_need_unprepare("pod-uid")
    assert driver.calls == []


async def test_a_claim_of_a_pod_group(world: World, driver: Driver) -> None:
    owner = OwnerReference(
        api_version="scheduling.k8s.io/v1", kind="PodGroup", name="grp", uid="g", controller=True
    )
    world.api.add(claim_of("c", pods=(), groups=["grp"], owner=owner))
    template = PodResourceClaim(name="c", resource_claim_template_name="t")
    status = PodResourceClaimStatus(name="c", resource_claim_name="c")
    pod = pod_of("pod", template, statuses=[status], group="grp")
    async with driver.serving(), world.running(driver) as manager:
        assert "Pod is not owner" in await refused(manager, pod)
    world.pod_groups = True
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(pod)
    assert driver.prepared == {"c-uid"}


async def test_a_result_without_devices_is_success(world: World, driver: Driver) -> None:
    world.api.add(claim_of("c"))
    driver.on_prepare = lambda request: pb.NodePrepareResourcesResponse(
        claims={"c-uid": pb.NodePrepareResourceResponse()}
    )
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        assert manager.cdi_devices(POD, POD.spec.containers[0]) == ()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({}, "NodePrepareResources skipped 1 ResourceClaims"),
        (
            {"c-uid": pb.NodePrepareResourceResponse(error="no power")},
            "NodePrepareResources failed for ResourceClaim c: no power",
        ),
        (
            {"c-uid": pb.NodePrepareResourceResponse(), "x": pb.NodePrepareResourceResponse()},
            "NodePrepareResources returned result for unknown claim UID x",
        ),
        (
            {"c-uid": pb.NodePrepareResourceResponse(devices=[pb.Device(device_name="d" * 262_142)])},
            "NodePrepareResources answered with 262150 bytes for ResourceClaim c: at most 262144 are kept",
        ),
    ],
)
async def test_bad_answers(
    world: World, driver: Driver, answer: dict[str, pb.NodePrepareResourceResponse], text: str
) -> None:
    world.api.add(claim_of("c"))
    driver.on_prepare = lambda request: pb.NodePrepareResourcesResponse(claims=answer)
    async with driver.serving(), world.running(driver) as manager:
        assert await refused(manager) == text
        # The driver heard of it, so it must hear of the end too.
        assert manager.may_need_unprepare("pod-uid")
        assert world.metric("dra_resource_claims_in_use", {"driver_name": "<any>"}) == 0
        driver.on_prepare = None
        await manager.prepare(POD)
        assert manager.cdi_devices(POD, POD.spec.containers[0]) == ("a.io/dev=c",)


async def test_a_slow_driver(world: World, driver: Driver) -> None:
    world.api.add(claim_of("c"))
    world.call_timeout = 0.1
    driver.gate = asyncio.Event()
    async with driver.serving(), world.running(driver) as manager:
        text = await refused(manager)
        assert (
            text
            == "NodePrepareResources: rpc error: code = DeadlineExceeded desc = context deadline exceeded"
        )
        labels = {"driver_name": "a.io", "grpc_status_code": "DeadlineExceeded"}
        assert world.metric("dra_grpc_operations_duration_seconds_count", labels) == 1


async def test_a_driver_that_fails_or_is_gone(world: World, driver: Driver) -> None:
    world.api.add(claim_of("c"))

    def fail(request: pb.NodePrepareResourcesRequest) -> pb.NodePrepareResourcesResponse:
        raise Error("it broke")

    driver.on_prepare = fail
    async with world.running() as manager:
        async with driver.serving():
            await manager.drivers.register("a.io", str(driver.path), ["v1.DRAPlugin"])
            assert await refused(manager) == "NodePrepareResources: rpc error: code = Unknown desc = it broke"
        text = await refused(manager)
        assert text.startswith("NodePrepareResources: rpc error: code = Unavailable desc = ")


async def test_a_retry_does_not_double_devices(world: World, driver: Driver, tmp_path: Path) -> None:
    """One driver of two fails first: the other is asked twice and counted once."""
    world.api.add(claim_of("c", ["a.io", "b.io"]))
    other = Driver("b.io", tmp_path / "b.sock")
    other.on_prepare = lambda request: pb.NodePrepareResourcesResponse()
    async with driver.serving(), other.serving(), world.running(driver, other) as manager:
        assert await refused(manager) == "NodePrepareResources skipped 1 ResourceClaims"
        other.on_prepare = None
        await manager.prepare(POD)
        assert manager.cdi_devices(POD, POD.spec.containers[0]) == ("a.io/dev=c", "b.io/dev=c")
        assert world.metric("dra_resource_claims_in_use", {"driver_name": "b.io"}) == 1
    assert driver.calls == [("prepare", ("c",))] * 2


async def test_a_claim_that_no_container_uses_is_prepared(world: World, driver: Driver) -> None:
    world.api.add(claim_of("c"))
    pod = pod_of("pod", direct("c"))
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(pod)
        assert manager.cdi_devices(pod, pod.spec.containers[0]) == ()
    assert driver.prepared == {"c-uid"}


async def test_only_new_claims_are_sent(world: World, driver: Driver) -> None:
    world.api.add(claim_of("c", pods=["pod", "two"]), claim_of("d", pods=["two"]))
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        await manager.prepare(pod_of("two", direct("c"), direct("d")))
    assert driver.calls == [("prepare", ("c",)), ("prepare", ("d",))]


async def test_one_call_for_all_claims_of_a_driver(world: World, driver: Driver) -> None:
    world.api.add(claim_of("c"), claim_of("d"))
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(pod_of("pod", direct("d"), direct("c"), direct("again", "c")))
    assert driver.calls == [("prepare", ("d", "c"))]


async def test_an_extended_resource_claim(world: World, driver: Driver) -> None:
    world.api.add(claim_of("special"))
    pod = pod_of(extended=PodExtendedResourceClaimStatus(resource_claim_name="special"))
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(pod)
        assert driver.prepared == {"special-uid"}
        await manager.unprepare(pod)
    assert driver.prepared == set()


async def test_an_old_claim_of_the_same_name(world: World, driver: Driver) -> None:
    world.api.add(claim_of("c"))
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        world.api.add(claim_of("c", pods=["two"], uid="new"), claim_of("b", pods=["two"]))
        text = await refused(manager, pod_of("two", direct("b"), direct("c")))
        assert text == (
            "old ResourceClaim with same name c and different UID c-uid still exists (previous pod force-deleted?!)"
        )
        # Nothing of the refused pod stays behind, so it can be deleted.
        assert not manager.may_need_unprepare("two-uid")


@pytest.mark.parametrize("uid", ["a", "c", None])
def test_an_answer_for_a_claim_that_is_another_one_by_now_is_not_kept(world: World, uid: str | None) -> None:
    cache = ClaimCache(StateFile(world.directory / FILE_NAME, world.clock))
    cache.load()
    if uid:
        cache.commit(changed=[ClaimInfo("ns", "claim", uid)])
    with pytest.raises(Error, match="claim"):
        _known(cache, ClaimInfo("ns", "claim", "b"))
    cache.commit(changed=[ClaimInfo("ns", "claim", "b", is_prepared=True)])
    assert _known(cache, ClaimInfo("ns", "claim", "b")).is_prepared
    cache.close()


async def test_after_a_restart_a_new_pod_asks_the_driver_again(world: World, driver: Driver) -> None:
    world.api.add(claim_of("c", pods=["pod", "two"]))
    async with driver.serving():
        async with world.running(driver) as manager:
            await manager.prepare(POD)
        async with world.running(driver) as manager:
            assert manager.cdi_devices(POD, POD.spec.containers[0]) == ("a.io/dev=c",)
            assert world.metric("dra_resource_claims_in_use", {"driver_name": "<any>"}) == 0
            await manager.prepare(pod_of("two", direct("c")))
    assert driver.calls == [("prepare", ("c",))] * 2


async def test_a_claim_without_drivers(world: World) -> None:
    world.api.add(claim_of("c", []))
    async with world.running() as manager:
        await manager.prepare(POD)
        assert manager.may_need_unprepare("pod-uid")
        await manager.unprepare(POD)
        assert not manager.may_need_unprepare("pod-uid")


async def test_a_claim_is_not_taken_while_it_is_given_back(world: World, driver: Driver) -> None:
    world.api.add(claim_of("c", pods=["pod", "two"]))
    two = pod_of("two", direct("c"))
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        driver.gate = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(manager.unprepare(POD))
            await wait_until(lambda: not driver.prepared)
            assert await refused(manager, two) == "ResourceClaim c is being unprepared"
            driver.gate.set()
        await manager.prepare(two)
    assert driver.prepared == {"c-uid"}


async def test_many_pods_at_once(world: World, driver: Driver) -> None:
    names = [f"p{n}" for n in range(30)]
    world.active = {f"{name}-uid" for name in names}
    world.api.add(claim_of("shared", pods=names), *(claim_of(f"c-{name}", pods=[name]) for name in names))
    pods = [pod_of(name, direct("shared"), direct(f"c-{name}")) for name in names]
    async with driver.serving(), world.running(driver) as manager:
        await asyncio.gather(*(manager.prepare(pod) for pod in pods))
        assert driver.prepared == {"shared-uid", *(f"c-{name}-uid" for name in names)}
        await asyncio.gather(*(manager.unprepare(pod) for pod in pods))
        assert driver.prepared == set()
    assert decode((world.directory / FILE_NAME).read_bytes()) == ()


async def test_a_claim_that_turned_out_not_to_be_needed_is_passed_over(world: World, driver: Driver) -> None:
    """Its status has no name: the scheduler found the devices without it."""
    entry = PodResourceClaim(name="none", resource_claim_template_name="t")
    pod = pod_of("pod", entry, direct("c"), uses=[("c", "")], statuses=[PodResourceClaimStatus(name="none")])
    world.api.add(claim_of("c"))
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(pod)
        assert manager.cdi_devices(pod, pod.spec.containers[0]) == ("a.io/dev=c",)
    assert driver.calls == [("prepare", ("c",))]
