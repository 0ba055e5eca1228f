"""Registration of drivers, several endpoints of one, and lost connections, over real sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dray.errors import ConflictError, Error, InvalidError, UnavailableError
from dray.kubelet.claims.drivers import choose, choose_health
from dray.kubelet.claims.endpoint import LOOK_SECONDS
from dray.kubelet.claims.manager import ClaimManager
from dray.runtime.clock import FakeClock
from dray.runtime.tasks import running
from dray.wire import dra
from dray.wire.serve import serve
from dray.wire.service import Service
from tests.kubelet.claims.world import Driver, World, claim_of, direct, pod_of, register
from tests.waiting import wait_until

POD = pod_of("pod", direct("c"))
SUPPORTED = '["v1.DRAPlugin" "v1beta1.DRAPlugin"]'


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "state", active={"pod-uid"})
    world.api.add(claim_of("c"))
    return world


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver("a.io", tmp_path / "a.sock")


async def connected(manager: ClaimManager, name: str = "a.io") -> None:
    await wait_until(lambda: manager.drivers.is_usable(name))


@pytest.mark.parametrize(
    ("versions", "chosen"),
    [
        (["v1.DRAPlugin"], "v1.DRAPlugin"),
        (["v1beta1.DRAPlugin", "v1.DRAPlugin"], "v1beta1.DRAPlugin"),
        (["v9.DRAPlugin", "v1.DRAPlugin"], "v1.DRAPlugin"),
        (["v1.DRAResourceHealth", "v1.DRAPlugin"], "v1.DRAPlugin"),
    ],
)
def test_the_first_version_of_the_driver_that_we_know(versions: list[str], chosen: str) -> None:
    assert choose(versions) == chosen


@pytest.mark.parametrize(
    ("versions", "text"),
    [
        ([], "empty list of supported gRPC services (aka supported versions)"),
        (
            ["1.0.0"],
            f'none of services supported by the plugin (["1.0.0"]) are supported by the kubelet ({SUPPORTED})',
        ),
        (
            ["x", "y"],
            f'none of services supported by the plugin (["x" "y"]) are supported by the kubelet ({SUPPORTED})',
        ),
    ],
)
async def test_versions_that_are_refused(world: World, versions: list[str], text: str) -> None:
    with world.manager() as manager, pytest.raises(InvalidError) as caught:
        manager.drivers.validate("a.io", "/a.sock", versions)
    where = "invalid supported gRPC versions of DRA driver plugin a.io at endpoint /a.sock: "
    assert str(caught.value) == where + text


@pytest.mark.parametrize(
    ("versions", "chosen"),
    [
        (["v1.DRAPlugin"], ""),
        (["v1alpha1.DRAResourceHealth", "v1.DRAResourceHealth"], "v1.DRAResourceHealth"),
        (["v1alpha1.DRAResourceHealth"], "v1alpha1.DRAResourceHealth"),
    ],
)
def test_the_newest_health_service(versions: list[str], chosen: str) -> None:
    assert choose_health(versions) == chosen


async def test_one_endpoint_twice(world: World, driver: Driver) -> None:
    async with driver.serving(), world.running(driver) as manager:
        with pytest.raises(ConflictError) as caught:
            await register(manager, driver)
        text = f"endpoint {driver.path} already registered for DRA driver plugin a.io"
        assert str(caught.value) == text
        assert [note.plugin_registered for note in driver.notified] == [True]


async def test_unknown_ones(world: World) -> None:
    async with world.running() as manager:
        await manager.drivers.deregister("a.io", "/nowhere")
        with pytest.raises(UnavailableError, match=r"^DRA driver a.io is not registered$"):
            manager.drivers.pick("a.io")
        with pytest.raises(InvalidError, match=r"^DRA driver name is empty$"):
            manager.drivers.pick("")


async def test_the_newest_connected_endpoint_is_called(world: World, tmp_path: Path) -> None:
    clock = world.clock = FakeClock()
    old, new = Driver("a.io", tmp_path / "old.sock"), Driver("a.io", tmp_path / "new.sock")
    async with old.serving(), world.running(old) as manager:
        await clock.advance_until(lambda: manager.drivers.is_usable("a.io"))
        async with new.serving():
            await register(manager, new)
            await clock.advance_until(lambda: manager.drivers.pick("a.io").path == str(new.path))
            await manager.prepare(POD)
            assert (old.calls, new.calls) == ([], [("prepare", ("c",))])
        # The new one died without a word: the old one serves until it is back.
        await clock.advance_until(lambda: manager.drivers.pick("a.io").path == str(old.path))
        await manager.unprepare(POD)
        assert old.calls == [("unprepare", ("c",))]
        async with new.serving():
            await clock.advance_until(lambda: manager.drivers.pick("a.io").path == str(new.path))
            await manager.drivers.deregister("a.io", str(new.path))
            assert manager.drivers.pick("a.io").path == str(old.path)


async def test_without_a_connection_the_newest_endpoint_is_tried(world: World, tmp_path: Path) -> None:
    with world.manager() as manager:
        for name in ("old", "new"):
            await manager.drivers.register("a.io", str(tmp_path / name), ["v1.DRAPlugin"])
        assert manager.drivers.pick("a.io").path == str(tmp_path / "new")
        await manager.drivers.deregister("a.io", str(tmp_path / "new"))
        assert manager.drivers.pick("a.io").path == str(tmp_path / "old")


async def test_no_endpoint_is_called_any_more_after_the_end(world: World, driver: Driver) -> None:
    async with driver.serving():
        async with world.running(driver) as manager:
            await connected(manager)
            endpoint = manager.drivers.pick("a.io")
        assert not endpoint.is_connected
        with pytest.raises(UnavailableError, match=r"^DRA driver a.io is not registered$"):
            await endpoint.prepare([])
    assert driver.calls == []


async def test_connections_are_told_as_they_come_and_go(
    world: World, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dray.kubelet.claims")
    clock = world.clock = FakeClock()

    def told() -> list[str]:
        words = (one.getMessage().split(" driver=")[0] for one in caplog.records)
        return [word for word in words if word in ("connected", "connection lost")]

    async with world.running() as manager:
        async with driver.serving():
            await register(manager, driver)
            await clock.advance_until(lambda: manager.drivers.is_usable("a.io"))
            assert told() == ["connected"]
        await clock.advance_until(lambda: not manager.drivers.is_usable("a.io"))
        assert told() == ["connected", "connection lost"]


async def test_a_driver_that_restarts_is_reconnected(world: World, driver: Driver) -> None:
    clock = world.clock = FakeClock()
    async with world.running() as manager:
        async with driver.serving():
            await register(manager, driver)
            await clock.advance_until(lambda: manager.drivers.is_usable("a.io"))
        await clock.advance_until(lambda: not manager.drivers.is_usable("a.io"))
        async with driver.serving():
            await clock.advance_until(lambda: manager.drivers.is_usable("a.io"))
            await manager.prepare(POD)


async def test_a_driver_may_register_before_it_serves(world: World, driver: Driver) -> None:
    async with world.running() as manager:
        await manager.drivers.register("a.io", str(driver.path), ["v1.DRAPlugin"])
        assert not manager.drivers.is_usable("a.io")
        assert manager.drivers.pick("a.io").path == str(driver.path)
        async with driver.serving():
            await manager.prepare(POD)


async def test_registrations_before_the_loops_run_are_kept(world: World, driver: Driver) -> None:
    async with driver.serving():
        with world.manager() as manager:
            await register(manager, driver)
            async with running(manager.run(), name="claims"):
                await connected(manager)


async def test_one_connection_for_all_calls(world: World, driver: Driver) -> None:
    async with serve(driver.path, [dra.DraService(driver)]) as server, world.running() as manager:
        await manager.drivers.register("a.io", str(driver.path), ["v1.DRAPlugin"])
        await connected(manager)
        for _ in range(3):
            await manager.prepare(POD)
            await manager.unprepare(POD)
        assert len(server._protocols) == 1
    assert len(driver.calls) == 6


async def test_a_connection_that_went_while_nobody_called_is_there_again(
    world: World, driver: Driver
) -> None:
    """A server, or something between, may drop what is idle: the next call must not find out."""
    clock = world.clock = FakeClock()
    async with serve(driver.path, [dra.DraService(driver)]) as server, world.running() as manager:
        await manager.drivers.register("a.io", str(driver.path), ["v1.DRAPlugin"])
        await connected(manager)
        for protocol in tuple(server._protocols):
            protocol.abort()
        await wait_until(lambda: not server._protocols)
        await clock.advance(LOOK_SECONDS)
        await wait_until(lambda: len(server._protocols) == 1)
        await manager.prepare(POD)
        assert len(server._protocols) == 1
    assert driver.calls == [("prepare", ("c",))]


async def test_a_service_that_is_not_there(world: World, driver: Driver) -> None:
    class Beta(Service[Driver]):
        tables = (dra.DraV1beta1Client,)

    async with serve(driver.path, [Beta(driver)]), world.running() as manager:
        await manager.drivers.register("a.io", str(driver.path), ["v1.DRAPlugin"])
        with pytest.raises(Error, match="NodePrepareResources: rpc error: code = Unimplemented desc = "):
            await manager.prepare(POD)


async def test_a_call_under_way_outlives_its_registration(world: World, driver: Driver) -> None:
    driver.gate = asyncio.Event()
    async with serve(driver.path, [dra.DraService(driver)]) as server, world.running() as manager:
        await manager.drivers.register("a.io", str(driver.path), ["v1.DRAPlugin"])
        async with asyncio.TaskGroup() as group:
            group.create_task(manager.prepare(POD))
            await wait_until(lambda: bool(driver.prepared))
            endpoint = manager.drivers.pick("a.io")
            await manager.drivers.deregister("a.io", str(driver.path))
            with pytest.raises(UnavailableError, match=r"^DRA driver a.io is not registered$"):
                await endpoint.prepare([])
            driver.gate.set()
        assert manager.may_need_unprepare("pod-uid")
        await wait_until(lambda: not server._protocols)


async def test_a_call_that_nobody_waits_for_is_counted(world: World, driver: Driver) -> None:
    driver.gate = asyncio.Event()
    async with driver.serving(), world.running(driver) as manager:
        call = asyncio.ensure_future(manager.prepare(POD))
        await wait_until(lambda: driver.prepared)
        call.cancel()
        await asyncio.wait({call})
        assert call.cancelled()
        labels = {"driver_name": "a.io", "grpc_status_code": "Canceled"}
        assert world.metric("dra_grpc_operations_duration_seconds_count", labels) == 1
        failed = {"operation_name": "PrepareResources", "is_error": "true"}
        assert world.metric("dra_operations_duration_seconds_count", failed) == 1
