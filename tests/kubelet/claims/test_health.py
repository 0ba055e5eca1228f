"""Health streams from real drivers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.errors import UnavailableError
from dray.kubelet.claims.health import FILE_NAME, _is_sane
from dray.kubelet.claims.manager import ClaimManager
from dray.runtime.clock import FakeClock, settle
from dray.wire import dra, health
from dray.wire.gen import dra_health_v1_pb2 as health_pb
from dray.wire.gen import dra_v1_pb2 as pb
from tests.kubelet.claims.world import Driver, World, claim_of, direct, pod_of, told
from tests.waiting import wait_until

POD = pod_of("pod", direct("c"), uses=[("c", "")])


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "state", active={"pod-uid"})
    world.api.add(claim_of("c"))
    return world


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver("a.io", tmp_path / "a.sock")


def shown(manager: ClaimManager) -> tuple[str, str | None]:
    (status,) = manager.allocated_status(POD, POD.spec.containers[0])
    (one,) = status.resources
    return one.health, one.message


@pytest.mark.parametrize("version", health.VERSIONS)
async def test_changes_reach_the_pod(world: World, driver: Driver, version: str) -> None:
    driver.versions = [*dra.VERSIONS, version]
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        assert shown(manager) == ("Unknown", None)
        driver.messages.put_nowait([told("dev-c"), told("other")])
        await wait_until(lambda: shown(manager) == ("Healthy", None))
        assert world.changed == [{"pod-uid"}]
        # Another device, and the same word again: nobody is told.
        driver.messages.put_nowait([told("dev-c"), told("other", "UNHEALTHY")])
        driver.messages.put_nowait([told("dev-c", "UNHEALTHY", message="x" * 2000)])
        await wait_until(lambda: shown(manager)[0] == "Unhealthy")
        assert shown(manager)[1] == "x" * 1021 + "..."
        assert world.changed == [{"pod-uid"}] * 2


async def test_a_time_that_no_date_can_be_away_is_a_long_one(world: World, driver: Driver) -> None:
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        for word in ("HEALTHY", "UNHEALTHY"):
            driver.messages.put_nowait([told("dev-c", word, timeout=2**63 - 1)])
            await wait_until(lambda word=word: shown(manager)[0] == word.capitalize())  # type: ignore[misc]
    with world.manager() as manager:
        assert shown(manager)[0] == "Unknown", "the stream has ended"


async def test_no_stream_where_none_is_named(world: World, driver: Driver) -> None:
    driver.versions = dra.VERSIONS
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        await settle(200)
    assert driver.streams == 0


async def test_a_service_that_is_named_but_missing(
    world: World, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    async with driver.serving(tells_health=False), world.running(driver) as manager:
        await wait_until(lambda: "driver names a health service it lacks" in caplog.text)
        await manager.prepare(POD)


async def test_a_stream_that_ends_is_opened_again(world: World, driver: Driver) -> None:
    clock = world.clock = FakeClock()
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        driver.messages.put_nowait([told("dev-c")])
        await wait_until(lambda: shown(manager)[0] == "Healthy")
        driver.messages.put_nowait(None)
        await wait_until(lambda: shown(manager)[0] == "Unknown")
        assert world.changed == [{"pod-uid"}] * 2
        await clock.advance(4.9)
        assert driver.streams == 1
        await clock.advance(0.2)
        driver.messages.put_nowait([told("dev-c", timeout=7)])
        await wait_until(lambda: shown(manager)[0] == "Healthy")
        await clock.advance(7)
        assert shown(manager)[0] == "Healthy"
        await clock.advance(0.1)
        assert shown(manager)[0] == "Unknown"


async def test_a_stream_that_fails_is_opened_again(world: World, tmp_path: Path) -> None:
    class Failing(Driver):
        async def node_watch_resources(
            self, request: health_pb.NodeWatchResourcesRequest
        ) -> AsyncIterator[health_pb.NodeWatchResourcesResponse]:
            self.streams += 1
            if self.streams == 1:
                raise UnavailableError("not yet")
            yield health_pb.NodeWatchResourcesResponse(devices=[told("dev-c")])
            await asyncio.Event().wait()

    clock = world.clock = FakeClock()
    driver = Failing("a.io", tmp_path / "a.sock")
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        await clock.advance_until(lambda: driver.streams == 2)
        await wait_until(lambda: shown(manager)[0] == "Healthy")


@pytest.mark.parametrize(
    ("pool", "device", "is_kept"), [(253, 253, True), (254, 253, False), (253, 254, False)]
)
def test_names_are_kept_up_to_the_length_that_a_claim_can_name(pool: int, device: int, is_kept: bool) -> None:
    assert _is_sane(health_pb.DeviceIdentifier(pool_name="p" * pool, device_name="d" * device)) == is_kept


async def test_a_rolling_update_keeps_the_health(world: World, tmp_path: Path) -> None:
    old, new = Driver("a.io", tmp_path / "old.sock"), Driver("a.io", tmp_path / "new.sock")
    async with old.serving(), new.serving(), world.running(old, new) as manager:
        await manager.prepare(POD)
        old.messages.put_nowait([told("dev-c")])
        await wait_until(lambda: shown(manager)[0] == "Healthy")
        new.messages.put_nowait([told("dev-c", "UNHEALTHY")])
        await wait_until(lambda: shown(manager)[0] == "Unhealthy")
        await manager.drivers.deregister("a.io", str(old.path))
        assert shown(manager)[0] == "Unhealthy"
        await manager.drivers.deregister("a.io", str(new.path))
        assert shown(manager)[0] == "Unknown"


async def test_health_survives_a_restart(world: World, driver: Driver) -> None:
    world.clock = FakeClock()
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        driver.messages.put_nowait([told("dev-c", "UNHEALTHY")])
        await wait_until(lambda: shown(manager)[0] == "Unhealthy")
        content = (world.directory / FILE_NAME).read_bytes()
    (world.directory / FILE_NAME).write_bytes(content)  # as after a kill: nobody cleared it
    with world.manager() as manager:
        assert shown(manager)[0] == "Unhealthy"


async def test_a_broken_file_is_only_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.directory.mkdir()
    (world.directory / FILE_NAME).write_text("{")
    with world.manager():
        assert "health of devices is unknown until told again" in caplog.text


async def test_health_that_cannot_be_written_is_shown_all_the_same(
    world: World, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        (world.directory / f".{FILE_NAME}.tmp").mkdir()
        driver.messages.put_nowait([told("dev-c")])
        await wait_until(lambda: shown(manager)[0] == "Healthy" and world.changed == [{"pod-uid"}])
    assert "health of devices is not kept" in caplog.text


async def test_a_stranger_on_the_socket(world: World, tmp_path: Path) -> None:
    """Whatever answers there does not end the process."""
    path = tmp_path / "a.sock"

    met = 0

    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal met
        met += 1
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(garbage, path)
    async with server, world.running() as manager:
        await manager.drivers.register("a.io", str(path), ["v1.DRAPlugin", "v1.DRAResourceHealth"])
        await wait_until(lambda: met)
        await settle(200)
        assert not manager.drivers.is_usable("a.io")


async def test_a_flood_is_taken_in_by_its_newest_word_and_leaves_time(world: World, driver: Driver) -> None:
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        for number in range(2000):
            driver.messages.put_nowait([told("dev-c", "UNHEALTHY" if number % 2 else "HEALTHY")])
        driver.messages.put_nowait([told("dev-c", message="the last word")])
        await wait_until(lambda: shown(manager) == ("Healthy", "the last word"))
    assert len(world.changed) < 500


async def test_names_that_nobody_can_have_are_not_kept(world: World, driver: Driver) -> None:
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        for number in range(3):
            driver.messages.put_nowait([told(f"{number}" + "n" * 2**18, timeout=2**40), told("dev-c")])
        await wait_until(lambda: shown(manager)[0] == "Healthy")
    assert (world.directory / "dra_health_state").stat().st_size < 10_000


@pytest.mark.parametrize(("told_seconds", "holds"), [(7, 7), (0, 30), (-5, 30)])
async def test_how_long_a_word_holds(world: World, driver: Driver, told_seconds: int, holds: float) -> None:
    clock = world.clock = FakeClock()
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        driver.messages.put_nowait([told("dev-c", timeout=told_seconds)])
        await wait_until(lambda: shown(manager)[0] == "Healthy")
        await clock.advance(holds)
        assert shown(manager)[0] == "Healthy"
        await clock.advance(0.1)
        assert shown(manager)[0] == "Unknown"


async def test_a_share_of_a_device_is_as_well_as_the_device(world: World, driver: Driver) -> None:
    def shared(request: pb.NodePrepareResourcesRequest) -> pb.NodePrepareResourcesResponse:
        answer = driver.good(request)
        answer.claims["c-uid"].devices[0].share_id = "share"
        return answer

    driver.on_prepare = shared
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        driver.messages.put_nowait([told("dev-c", "UNHEALTHY")])
        await wait_until(lambda: shown(manager)[0] == "Unhealthy")
        assert world.changed == [{"pod-uid"}]


async def test_a_driver_that_is_deregistered_is_not_listened_to_any_more(
    world: World, driver: Driver
) -> None:
    async with driver.serving(), world.running(driver) as manager:
        await manager.prepare(POD)
        await wait_until(lambda: driver.streams == 1)
        await manager.drivers.deregister("a.io", str(driver.path))
        driver.messages.put_nowait([told("dev-c")])
        await settle(200)
        assert shown(manager)[0] == "Unknown"
    assert driver.streams == 1
