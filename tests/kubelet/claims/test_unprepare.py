"""Unprepare through the manager, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest

from dray.api.core.pod import PodResourceClaim
from dray.errors import Error
from dray.kubelet.claims.cache import ClaimCache
from dray.kubelet.claims.claim_info import ClaimInfo
from dray.kubelet.claims.manager import ClaimManager
from dray.kubelet.claims.state_file import FILE_NAME, StateFile, decode, encode
from dray.kubelet.claims.unprepare import _split
from dray.wire import dra
from dray.wire.gen import dra_v1_pb2 as pb
from tests.kubelet.claims.world import Driver, World, claim_of, direct, pod_of
from tests.waiting import wait_until

PREFIX = "unprepare dynamic resources: "
POD = pod_of("pod", direct("c"), uses=[("c", "")])
TWO = pod_of("two", direct("c"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "state", active={"pod-uid", "two-uid"})


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver("a.io", tmp_path / "a.sock")


async def refused(manager: ClaimManager) -> str:
    with pytest.raises(Error) as caught:
        await manager.unprepare(POD)
    assert manager.may_need_unprepare("pod-uid")
    text = str(caught.value)
    assert text.startswith(PREFIX)
    return text.removeprefix(PREFIX)


@pytest.mark.parametrize("version", dra.VERSIONS)
async def test_the_last_pod_gives_back(world: World, driver: Driver, version: str) -> None:
    driver.versions = [version]
    world.api.add(claim_of("c"))
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        await manager.unprepare(POD)
        assert not manager.may_need_unprepare("pod-uid")
        await manager.unprepare(POD)
        labels = {"operation_name": "UnprepareResources", "is_error": "false"}
        assert world.metric("dra_operations_duration_seconds_count", labels) == 2
        assert world.metric("dra_resource_claims_in_use", {"driver_name": "<any>"}) == 0
    assert driver.calls == [("prepare", ("c",)), ("unprepare", ("c",))]
    assert decode((world.directory / FILE_NAME).read_bytes()) == ()


async def test_another_pod_keeps_the_claim(world: World, driver: Driver) -> None:
    world.api.add(claim_of("c", pods=["pod", "two"]))
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        await manager.prepare(TWO)
        await manager.unprepare(POD)
        assert driver.calls == [("prepare", ("c",))]
        assert not manager.may_need_unprepare("pod-uid")
        (known,) = decode((world.directory / FILE_NAME).read_bytes())
        assert known.pods == {"two-uid"}
        # A second time it must not take the other pod's claim away.
        await manager.unprepare(POD)
        assert driver.prepared == {"c-uid"}
        await manager.unprepare(TWO)
    assert driver.prepared == set()


async def test_a_pod_that_never_had_its_claim_made(world: World) -> None:
    """Such pods got stuck: their name cannot be resolved, but there is nothing to give back."""
    async with world.running() as manager:
        await manager.unprepare(pod_of("pod", PodResourceClaim(name="c", resource_claim_template_name="t")))


async def test_an_answer_without_a_value_is_success(world: World, driver: Driver) -> None:
    world.api.add(claim_of("c"))
    nil = pb.NodeUnprepareResourcesResponse.FromString(b"\x0a\x07\x0a\x05c-uid")
    driver.on_unprepare = lambda request: nil
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        await manager.unprepare(POD)
        assert not manager.may_need_unprepare("pod-uid")


async def test_an_unknown_driver(world: World, driver: Driver) -> None:
    world.api.add(claim_of("c"))
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        await manager.drivers.deregister("a.io", str(driver.path))
        assert await refused(manager) == "DRA driver a.io is not registered"
        await manager.drivers.register("a.io", str(driver.path), ["v1.DRAPlugin"])
        await manager.unprepare(POD)
    assert driver.prepared == set()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({}, "NodeUnprepareResources skipped 1 ResourceClaims"),
        (
            {"c-uid": pb.NodeUnprepareResourceResponse(error="busy")},
            "NodeUnprepareResources failed for ResourceClaim c: busy",
        ),
        (
            {"c-uid": pb.NodeUnprepareResourceResponse(), "x": pb.NodeUnprepareResourceResponse()},
            "NodeUnprepareResources returned result for unknown claim UID x",
        ),
    ],
)
async def test_bad_answers(
    world: World, driver: Driver, answer: dict[str, pb.NodeUnprepareResourceResponse], text: str
) -> None:
    world.api.add(claim_of("c"))
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        driver.on_unprepare = lambda request: pb.NodeUnprepareResourcesResponse(claims=answer)
        if "unknown" in text:
            with pytest.raises(Error, match=text):
                await manager.unprepare(POD)
        else:
            assert await refused(manager) == text


async def test_a_slow_driver(world: World, driver: Driver) -> None:
    world.api.add(claim_of("c"))
    world.call_timeout = 0.1
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        driver.gate = asyncio.Event()
        text = await refused(manager)
        assert (
            text
            == "NodeUnprepareResources: rpc error: code = DeadlineExceeded desc = context deadline exceeded"
        )


async def test_one_lost_driver_does_not_hold_the_devices_of_another(
    world: World, driver: Driver, tmp_path: Path
) -> None:
    world.api.add(claim_of("c", ["a.io"]), claim_of("d", ["b.io"]), claim_of("e", ["a.io", "b.io"]))
    pod = pod_of("pod", direct("c"), direct("d"), direct("e"))
    other = Driver("b.io", tmp_path / "b.sock")
    async with driver.serving(), other.serving(), world.running(driver, other) as manager:
        await manager.prepare(pod)
        await manager.drivers.deregister("a.io", str(driver.path))
        assert await refused(manager) == "DRA driver a.io is not registered"
        assert other.prepared == set()
        left = [claim.name for claim in decode((world.directory / FILE_NAME).read_bytes())]
        assert left == ["c", "e"]


async def test_a_half_unprepared_claim_is_prepared_anew(world: World, driver: Driver) -> None:
    world.api.add(claim_of("c", pods=["pod", "two"]))
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        driver.on_unprepare = lambda request: pb.NodeUnprepareResourcesResponse()
        await refused(manager)
        await manager.prepare(TWO)
        await manager.unprepare(POD)
    assert driver.calls[-1] == ("prepare", ("c",))


async def test_a_pod_is_not_given_up_while_its_driver_prepares(world: World, driver: Driver) -> None:
    world.api.add(claim_of("c"))
    driver.gate = asyncio.Event()
    async with driver.serving(), world.running(driver) as manager, asyncio.TaskGroup() as group:
        group.create_task(manager.prepare(POD))
        await wait_until(lambda: bool(driver.prepared))
        assert await refused(manager) == "ResourceClaim c is being prepared"
        driver.gate.set()
    assert driver.calls == [("prepare", ("c",))]


async def test_two_at_once_for_one_pod(world: World, driver: Driver) -> None:
    """The pod itself and the look for departed pods, say."""
    world.api.add(claim_of("c"))
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        driver.gate = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(manager.unprepare(POD))
            await wait_until(lambda: not driver.prepared)
            assert await refused(manager) == "ResourceClaim c is being unprepared"
            driver.gate.set()
    assert driver.calls == [("prepare", ("c",)), ("unprepare", ("c",))]


async def test_a_pod_given_up_while_its_shared_claim_is_prepared(world: World, driver: Driver) -> None:
    """It must not start: nobody would give the claim back for it."""
    world.api.add(claim_of("c", pods=["pod", "two"]))
    async with driver.serving():
        async with world.running(driver) as manager:
            await manager.prepare(TWO)
        driver.gate = asyncio.Event()
        async with world.running(driver) as manager, asyncio.TaskGroup() as group:
            preparing = group.create_task(_text_of(manager.prepare(POD)))
            await wait_until(lambda: len(driver.calls) == 2)
            await manager.unprepare(POD)
            driver.gate.set()
    assert preparing.result() == (
        "prepare dynamic resources: internal error: unable to get claim info for ResourceClaim c in namespace ns"
    )


async def _text_of(call: Awaitable[None]) -> str:
    with pytest.raises(Error) as caught:
        await call
    return str(caught.value)


async def test_departed_pods_give_back(world: World, driver: Driver) -> None:
    """Deleted by force, or while nobody looked."""
    world.api.add(claim_of("c"))
    async with driver.serving():
        async with world.running(driver) as manager:
            await manager.prepare(POD)
            await manager.reconcile()
            assert driver.prepared == {"c-uid"}
        world.active, world.ready = set(), False
        async with world.running(driver) as manager:
            await manager.reconcile()
            assert driver.prepared == {"c-uid"}
            world.ready = True
            await manager.reconcile()
            assert driver.prepared == set()
            assert not manager.may_need_unprepare("pod-uid")


async def test_a_record_without_pods_is_cleaned_up(world: World, driver: Driver) -> None:
    world.directory.mkdir()
    orphan = ClaimInfo("ns", "c", "c-uid", frozenset(), {"a.io": ()})
    (world.directory / FILE_NAME).write_bytes(encode([orphan]))
    driver.prepared = {"c-uid"}
    async with driver.serving(), world.running(driver) as manager:
        await manager.reconcile()
    assert driver.prepared == set()


async def test_departed_pods_are_tried_again(
    world: World, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    world.api.add(claim_of("c"))
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        world.active = set()
        driver.on_unprepare = lambda request: pb.NodeUnprepareResourcesResponse()
        await manager.reconcile()
        assert "claims of a departed pod are kept" in caplog.text
        driver.on_unprepare = None
        await manager.reconcile()
    assert driver.prepared == set()


def test_which_claims_a_pod_gives_back(world: World) -> None:
    cache = ClaimCache(StateFile(world.directory / FILE_NAME, world.clock))
    cache.load()
    pods = {"alone": ["x"], "both": ["x", "y"], "nobody": []}
    cache.commit(changed=[ClaimInfo("ns", name, name, frozenset(uids)) for name, uids in pods.items()])
    found = {
        uid: tuple([claim.name for claim in claims] for claims in _split(uid, cache))
        for uid in ("x", "y", "z", "")
    }
    cache.close()
    assert found == {"x": (["both"], ["alone"]), "y": (["both"], []), "z": ([], []), "": ([], ["nobody"])}
