from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable
from typing import Any

import pytest
from aiohttp import web

from dray.api.core import ConfigMap
from dray.api.kinds import CONFIG_MAPS
from dray.client.access import ClusterAccess
from dray.client.client import Client
from dray.client.feed import Changes, Replaced
from dray.client.follow import FollowConfig
from dray.client.reflector import Reflector, ReflectorConfig
from dray.client.requests import Selection
from dray.client.store import Added, Change, Deleted, Entry, Key, Modified, replay
from dray.errors import DeniedError, NotFoundError, UnavailableError
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import FakeClock
from tests.campaign import seeded, seeds
from tests.client.answers import HANG, config_map, event, page
from tests.client.mini_api import MiniApi, serving
from tests.client.servers import ScriptedServer, lines, status
from tests.waiting import PATIENCE, wait_until

QUICK = FollowConfig(
    page_size=5, idle_timeout=0.3, backoff=BackoffPolicy(first=0.01, limit=0.05), event_limit=20_000
)
FAST = ReflectorConfig(follow=QUICK)


async def test_entered_means_listed(server: ScriptedServer, client: Client) -> None:
    server.answer(page(config_map("a", 3), config_map("b", 4)), HANG)
    async with Reflector(client, CONFIG_MAPS, Selection("ns", "app=x"), FAST) as reflector:
        snapshot = reflector.snapshot()
        assert (len(snapshot), snapshot.version, reflector.generation) == (2, "10", 2)
        found = reflector.get("a", "ns")
        assert isinstance(found, ConfigMap)
        assert reflector.get("zz", "ns") is None
        await wait_until(lambda: len(server.seen) == 2)
    assert "/namespaces/ns/configmaps?labelSelector=app%3Dx" in server.seen[0].target
    assert "labelSelector=app%3Dx" in server.seen[1].target
    assert len(reflector.snapshot()) == 2


async def test_unreadable_objects_are_reported_once_and_lag(
    server: ScriptedServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(version: int) -> dict[str, Any]:
        return {**config_map("a", version), "data": 5}

    gone = lines(event("ERROR", {"code": 410}))
    server.answer(
        page(config_map("a", 3), config_map("b", 4)),
        lines(event("MODIFIED", broken(11)), event("MODIFIED", config_map("b", 12))),
        gone,
        page(broken(11), config_map("b", 12), version=15),
        HANG,
    )
    async with Reflector(client, CONFIG_MAPS, config=FAST) as reflector:
        await wait_until(lambda: len(server.seen) >= 5)
        await wait_until(lambda: reflector.snapshot().version == "15")
        found = reflector.snapshot().entries[("ns", "a")]
        assert found.version == "3"
        assert reflector.unreadable[("ns", "a")].version == "11"
        assert reflector.snapshot().entries[("ns", "b")].version == "12"
    reports = [one for one in caplog.records if "cannot be decoded" in one.getMessage()]
    assert len(reports) == 1


async def test_wait_changed(server: ScriptedServer, client: Client) -> None:
    slow = lines(
        event("ADDED", config_map("b", 11)), event("ADDED", config_map("c", 12)), end="hang", pause=0.03
    )
    server.answer(page(config_map("a", 3)), slow)
    async with Reflector(client, CONFIG_MAPS, config=FAST) as reflector:
        snapshot = await reflector.wait_changed(0)
        assert len(snapshot) >= 1
        while len(snapshot) < 3:
            snapshot = await asyncio.wait_for(reflector.wait_changed(snapshot.generation), PATIENCE)
        stats = reflector.stats
    assert (stats.lists, stats.events, stats.changes) == (1, 2, 3)
    with pytest.raises(UnavailableError, match="has stopped"):
        await reflector.wait_changed(snapshot.generation)


async def test_slow_consumer_gets_the_newest_picture(server: ScriptedServer, client: Client) -> None:
    flood = lines(*[event("ADDED", config_map(f"n{n}", 100 + n)) for n in range(50)], end="hang")
    server.answer(page(), flood)
    config = ReflectorConfig(follow=QUICK, buffer=10)
    async with Reflector(client, CONFIG_MAPS, config=config) as reflector:
        changes = reflector.changes()
        assert isinstance(await anext(changes), Replaced)
        await wait_until(lambda: reflector.generation == 50)
        over = await anext(changes)
        assert isinstance(over, Replaced)
        assert len(over.snapshot) == 50


# --- the first list ---


async def test_a_server_that_refuses_is_given_a_little_time(server: ScriptedServer, client: Client) -> None:
    clock = FakeClock()
    server.answer(status(403, "Forbidden", "no rights yet"), page(config_map("a", 3)), HANG)
    async with asyncio.TaskGroup() as group:
        entering = group.create_task(enter(client, clock))
        await wait_until(lambda: clock.sleepers)
        await clock.advance(5)
    assert entering.result() == 1


async def enter(client: Client, clock: FakeClock, **config: Any) -> int:
    async with Reflector(client, CONFIG_MAPS, config=ReflectorConfig(**config), clock=clock) as reflector:
        return len(reflector.snapshot())


@pytest.mark.parametrize(
    ("code", "kind"), [(403, DeniedError), (401, DeniedError), (404, NotFoundError)], ids=str
)
async def test_a_server_that_keeps_refusing_is_given_up(
    server: ScriptedServer, client: Client, code: int, kind: type[Exception]
) -> None:
    clock = FakeClock()
    server.answer(status(code, "X", "never"))
    with pytest.raises(kind, match="never"):
        await advance_while(clock, enter(client, clock))
    assert 10 <= clock.monotonic() < 60


async def advance_while(clock: FakeClock, work: Awaitable[object]) -> None:
    """Let fake time pass whenever the work sleeps."""
    task = asyncio.ensure_future(work)
    while not task.done():
        if clock.sleepers:
            await clock.advance(1)
        await asyncio.sleep(0.002)
    await task


async def test_later_refusals_never_end_it(server: ScriptedServer, client: Client) -> None:
    clock, gate = FakeClock(), asyncio.Event()
    denied = status(403, "Forbidden", "rights were taken away")

    async def denied_later(request: web.Request) -> web.StreamResponse:
        await gate.wait()
        return await denied(request)

    server.answer(
        page(config_map("a", 3)), denied_later, denied, denied, page(config_map("b", 30), version=40), HANG
    )
    async with Reflector(client, CONFIG_MAPS, clock=clock) as reflector:
        await clock.advance(1000)
        gate.set()
        while reflector.get("b", "ns") is None:
            await clock.advance(20)
            await asyncio.sleep(0.005)
    assert reflector.stats.failures == 3


async def test_a_server_that_is_away_is_waited_for() -> None:
    clock = FakeClock()
    api = MiniApi(seeded(1))
    api.put("a")
    async with serving(api):
        pass
    async with Client(ClusterAccess(api.url)) as client, asyncio.TaskGroup() as group:
        entering = group.create_task(enter(client, clock))
        for _ in range(5):
            await wait_until(lambda: clock.sleepers)
            await clock.advance(70)
        assert not entering.done()
        async with serving(api):
            while not entering.done():
                await clock.advance(10)
                await asyncio.sleep(0.01)
    assert entering.result() == 1


async def test_sync_timeout_gives_up_on_a_server_that_is_away(client: Client, server: ScriptedServer) -> None:
    clock = FakeClock()
    server.answer(status(500, "InternalError", "broken"))
    with pytest.raises(UnavailableError, match="broken"):
        await advance_while(clock, enter(client, clock, sync_timeout=120.0))
    assert 120 <= clock.monotonic() < 250


async def test_entering_can_be_cancelled_and_need_not_wait(client: Client, server: ScriptedServer) -> None:
    server.answer(status(500, "InternalError", "broken"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1), Reflector(client, CONFIG_MAPS):
            pass
    config = ReflectorConfig(follow=QUICK, wait_synced=False)
    async with Reflector(client, CONFIG_MAPS, config=config) as reflector:
        assert len(reflector.snapshot()) == 0
        server.answer(page(config_map("a", 3)), HANG)
        await asyncio.wait_for(reflector.wait_synced(), PATIENCE)
        assert len(reflector.snapshot()) == 1


async def test_failures_of_the_body_come_out_as_they_are(client: Client, server: ScriptedServer) -> None:
    server.answer(page(), HANG)
    with pytest.raises(ZeroDivisionError):
        async with Reflector(client, CONFIG_MAPS, config=FAST):
            raise ZeroDivisionError


# --- chaos ---


class Witness:
    """Reads the change log as it comes and checks every step."""

    def __init__(self) -> None:
        self.log: list[Change[ConfigMap]] = []
        self.entries: dict[Key, Entry[ConfigMap]] = {}

    async def follow(self, changes: Changes[ConfigMap]) -> None:
        first = await anext(changes)
        assert isinstance(first, Replaced)
        self.entries = dict(first.snapshot.entries)
        async for change in changes:
            assert not isinstance(change, Replaced)
            self.check(change)
            self.log.append(change)
            replay(self.entries, [change])

    def check(self, change: Change[ConfigMap]) -> None:
        known = self.entries.get(change.key)
        match change:
            case Added():
                assert known is None
            case Modified():
                assert known == change.old
                assert change.old.uid == change.new.uid
                assert int(change.new.version) > int(change.old.version)
            case Deleted():
                assert known == change.old


@pytest.mark.parametrize("seed", seeds(3, 100))
async def test_cache_and_log_stay_true_through_chaos(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Writes, cut and garbled watches, refusals, compactions and server restarts; then compare."""
    caplog.set_level(logging.ERROR)
    api = MiniApi(random.Random(seed))
    witness = Witness()
    async with serving(api):
        pass
    config = ReflectorConfig(follow=QUICK, buffer=100_000, wait_synced=False)
    async with (
        Client(ClusterAccess(api.url)) as client,
        asyncio.TaskGroup() as group,
        Reflector(client, CONFIG_MAPS, config=config, rng=random.Random(seed)) as reflector,
    ):
        group.create_task(witness.follow(reflector.changes()))
        for number in range(4):
            api.chaos = 0.15
            await misuse(api, steps=40, down=number % 2 == 0)
            api.chaos = 0.0
            async with serving(api):
                await wait_until(lambda: versions(reflector) == api.versions())
    assert {key: entry.version for key, entry in witness.entries.items()} == api.versions()
    assert len(witness.log) == reflector.stats.changes == reflector.generation
    assert reflector.stats.lists >= 2


async def misuse(api: MiniApi, *, steps: int, down: bool) -> None:
    async with serving(api):
        for _ in range(steps):
            api.write_anything()
            if api.rng.random() < 0.05:
                api.compact()
            await asyncio.sleep(api.rng.choice((0, 0, 0.002, 0.01)))
    if down:
        for _ in range(5):
            api.write_anything()
        api.compact()


def versions(reflector: Reflector[ConfigMap]) -> dict[Key, str]:
    return {key: entry.version for key, entry in reflector.snapshot().entries.items()}
