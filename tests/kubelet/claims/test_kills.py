"""Killed between any two steps, a node forgets nothing: whatever a driver holds is on the disk, and is given back."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dray.kubelet.claims.cache import ClaimCache
from dray.kubelet.claims.claim_info import ClaimInfo
from dray.kubelet.claims.drivers import Drivers
from dray.kubelet.claims.meters import Meters
from dray.kubelet.claims.prepare import prepare
from dray.kubelet.claims.state_file import FILE_NAME, StateFile, decode
from dray.kubelet.claims.unprepare import unprepare
from dray.runtime.clock import FakeClock, SystemClock
from dray.runtime.metrics import Metrics
from dray.wire import dra
from dray.wire.gen import dra_v1_pb2 as pb
from tests.campaign import LONG, campaign
from tests.kubelet.claims.world import Api, Driver, World, claim_of, direct, pod_of
from tests.waiting import PATIENCE

ONE = pod_of("one", direct("c"), direct("d"))
TWO = pod_of("two", direct("c"), direct("e"))
CLAIMS = (
    claim_of("c", ["a.io", "b.io"], ["one", "two"]),
    claim_of("d", ["b.io"], ["one"]),
    claim_of("e", ["a.io"], ["two"]),
)
ROOT = Path(__file__).resolve().parents[3]


class Killed(BaseException):
    """Ends everything at once, as a kill does."""


class Points:
    """Counts the places where a kill may come, and brings it at one of them."""

    def __init__(self, at: int = -1) -> None:
        self.at = at
        self.count = 0

    def reached(self) -> bool:
        self.count += 1
        return self.count - 1 == self.at


class DyingFile(StateFile):
    """Dies before or after a write."""

    def __init__(self, path: Path, points: Points) -> None:
        super().__init__(path, FakeClock())
        self._points = points

    def save(self, claims: tuple[ClaimInfo, ...]) -> None:
        if self._points.reached():
            raise Killed
        super().save(claims)
        if self._points.reached():
            raise Killed


class DeadlyDriver(Driver):
    """Its caller dies when a call arrives, and when it took effect. What the call began goes on all the same."""

    points = Points()

    async def node_prepare_resources(
        self, request: pb.NodePrepareResourcesRequest
    ) -> pb.NodePrepareResourcesResponse:
        await self._die()
        answer = await super().node_prepare_resources(request)
        await self._die()
        return answer

    async def node_unprepare_resources(
        self, request: pb.NodeUnprepareResourcesRequest
    ) -> pb.NodeUnprepareResourcesResponse:
        await self._die()
        answer = await super().node_unprepare_resources(request)
        await self._die()
        return answer

    async def _die(self) -> None:
        if self.points.reached():
            VICTIM[0].cancel()
            await asyncio.sleep(60)


VICTIM: list[asyncio.Task[None]] = []


class DeadlyApi(Api):
    """Dies while the claim is read."""

    points = Points()

    async def get_claim(self, namespace: str, name: str):  # type: ignore[no-untyped-def]
        if self.points.reached():
            VICTIM[0].cancel()
        return await super().get_claim(namespace, name)


def drivers_at(tmp_path: Path) -> tuple[DeadlyDriver, DeadlyDriver]:
    return DeadlyDriver("a.io", tmp_path / "a.sock"), DeadlyDriver("b.io", tmp_path / "b.sock")


def known_to(directory: Path) -> dict[str, ClaimInfo]:
    path = directory / FILE_NAME
    return {claim.uid: claim for claim in decode(path.read_bytes())} if path.exists() else {}


def check_nothing_forgotten(directory: Path, *drivers: Driver) -> None:
    known = known_to(directory)
    for driver in drivers:
        for uid in driver.prepared:
            assert uid in known, f"{driver.name} holds {uid}, and nobody knows"
            assert driver.name in known[uid].drivers
            assert known[uid].pods, f"{uid} would never be given back"


async def check_recovers(directory: Path, *drivers: Driver, alive: bool) -> None:
    """A fresh manager from the same directory: with the pods still there, or gone for good."""
    check_nothing_forgotten(directory, *drivers)
    world = World(directory)
    world.api.add(*CLAIMS)
    world.active = {"one-uid", "two-uid"} if alive else set()
    async with world.running(*drivers) as manager:
        if alive:
            for pod in (ONE, TWO):
                await manager.prepare(pod)
                check_nothing_forgotten(directory, *drivers)
            assert drivers[0].prepared == {"c-uid", "e-uid"}
            assert drivers[1].prepared == {"c-uid", "d-uid"}
            for pod in (ONE, TWO):
                await manager.unprepare(pod)
        else:
            await manager.reconcile()
    assert [driver.prepared for driver in drivers] == [set(), set()]
    assert known_to(directory) == {}


async def story(directory: Path, points: Points, drivers: tuple[DeadlyDriver, ...], api: DeadlyApi) -> None:
    """Two pods that share a claim come and go. Ends early where a point is deadly."""
    meters = Meters(Metrics(), SystemClock())
    cache = ClaimCache(DyingFile(directory / FILE_NAME, points))
    handler = Drivers(
        SystemClock(),
        meters,
        usable_changed=lambda name, usable: None,
        follow=lambda endpoint: asyncio.sleep(0),
    )
    try:
        cache.load()
        for driver in drivers:
            await handler.register(driver.name, str(driver.path), dra.VERSIONS)
        await prepare(ONE, cache, handler, api)
        await prepare(TWO, cache, handler, api)
        await unprepare("one-uid", cache, handler)
        await unprepare("two-uid", cache, handler)
    except Killed:
        pass
    finally:
        cache.close()
        for driver in drivers:
            await handler.deregister(driver.name, str(driver.path))


async def tell(directory: Path, at: int, drivers: tuple[DeadlyDriver, ...]) -> int:
    """The story with a kill at one point; gives how many points were passed."""
    api, points = DeadlyApi(), Points(at)
    api.add(*CLAIMS)
    api.points = points
    for driver in drivers:
        driver.points = points
    async with asyncio.TaskGroup() as group:
        VICTIM[:] = [group.create_task(story(directory, points, drivers, api))]
    for driver in drivers:
        driver.points = Points()
    return points.count


async def test_the_story_without_a_kill(tmp_path: Path) -> None:
    a, b = drivers_at(tmp_path)
    async with a.serving(), b.serving():
        assert await tell(tmp_path / "state", -1, (a, b)) >= 30
    assert (a.prepared, b.prepared, known_to(tmp_path / "state")) == (set(), set(), {})
    assert a.calls == [("prepare", ("c",)), ("prepare", ("e",)), ("unprepare", ("c", "e"))]
    assert b.calls == [("prepare", ("c", "d")), ("unprepare", ("d",)), ("unprepare", ("c",))]


@pytest.fixture
def fast(tmp_path: Path) -> Iterator[Path]:
    """A directory where syncing costs nothing: a kill takes no memory away, and there are many writes."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as directory:
        yield Path(directory)


@pytest.mark.parametrize("alive", [True, False], ids=["pods stay", "pods go"])
async def test_a_kill_at_every_point(tmp_path: Path, fast: Path, alive: bool) -> None:
    a, b = drivers_at(tmp_path)
    async with a.serving(), b.serving():
        total = await tell(fast / "dry", -1, (a, b))
        # Every point once; in a campaign both ways.
        for at in range(0 if alive or LONG else 1, total, campaign(2, 1)):
            await tell(fast / str(at), at, (a, b))
            await check_recovers(fast / str(at), a, b, alive=alive)


async def test_the_reference_is_on_the_disk_before_the_call(tmp_path: Path) -> None:
    world = World(tmp_path / "state", active={"one-uid"})
    world.api.add(*CLAIMS)
    a, b = Driver("a.io", tmp_path / "a.sock"), Driver("b.io", tmp_path / "b.sock")
    seen: list[set[str]] = []

    def look(request: pb.NodePrepareResourcesRequest) -> pb.NodePrepareResourcesResponse:
        known = known_to(world.directory)
        seen.append({uid for uid in known if "one-uid" in known[uid].pods})
        # What the first driver gave is kept before the second is asked.
        assert known["c-uid"].drivers["a.io"][0].cdi_ids == ("a.io/dev=c",)
        return b.good(request)

    b.on_prepare = look
    async with a.serving(), b.serving(), world.running(a, b) as manager:
        await manager.prepare(ONE)
    assert seen == [{"c-uid", "d-uid"}]


class Assassin(Driver):
    """Kills the process that calls, for real, at the n-th call of all drivers."""

    async def node_prepare_resources(
        self, request: pb.NodePrepareResourcesRequest
    ) -> pb.NodePrepareResourcesResponse:
        answer = await super().node_prepare_resources(request)
        strike()
        return answer

    async def node_unprepare_resources(
        self, request: pb.NodeUnprepareResourcesRequest
    ) -> pb.NodeUnprepareResourcesResponse:
        answer = await super().node_unprepare_resources(request)
        strike()
        return answer


TARGET: dict[str, int] = {"pid": 0, "left": 0}


def strike() -> None:
    TARGET["left"] -= 1
    if TARGET["left"] == 0:
        os.kill(TARGET["pid"], signal.SIGKILL)


@pytest.mark.parametrize("call", range(1, 1 + campaign(1, 6)))
async def test_a_real_kill(tmp_path: Path, call: int) -> None:
    a, b = Assassin("a.io", tmp_path / "a.sock"), Assassin("b.io", tmp_path / "b.sock")
    directory = tmp_path / "state"
    async with a.serving(), b.serving():
        victim = await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / "tests/kubelet/claims/victim.py"),
            str(directory),
            f"a.io={a.path}",
            f"b.io={b.path}",
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
        )
        TARGET.update(pid=victim.pid, left=call)
        assert await asyncio.wait_for(victim.wait(), PATIENCE) == -signal.SIGKILL
        TARGET["left"] = 0
        await check_recovers(directory, a, b, alive=bool(call % 2))
