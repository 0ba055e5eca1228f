"""What a reflector's loop does when a watch ends in one way or another."""

from __future__ import annotations

import pytest

from dray.api.kinds import CONFIG_MAPS
from dray.client.client import Client
from dray.client.feed import Replaced
from dray.client.follow import FollowConfig
from dray.client.reflector import Reflector, ReflectorConfig
from dray.client.store import Deleted
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import FakeClock
from tests.client.answers import HANG, bookmark, config_map, event, page, queries
from tests.client.servers import Handler, ScriptedServer, lines, status
from tests.waiting import wait_until

FAST = ReflectorConfig(
    follow=FollowConfig(
        page_size=5, idle_timeout=0.3, backoff=BackoffPolicy(first=0.01, limit=0.05), event_limit=20_000
    )
)


async def story(client: Client, server: ScriptedServer, count: int) -> list[str]:
    """Run a reflector until `count` requests were made; tell its changes."""
    async with Reflector(client, CONFIG_MAPS, config=FAST) as reflector:
        changes = reflector.changes()
        first = await anext(changes)
        assert isinstance(first, Replaced)
        await wait_until(lambda: len(server.seen) >= count)
    told = [f"start {sorted(name for _, name in first.snapshot.entries)}"]
    async for change in changes:
        assert not isinstance(change, Replaced)
        new = "" if isinstance(change, Deleted) else f"@{change.new.version}"
        told.append(f"{type(change).__name__} {change.key[1]}{new}")
    return told


async def test_end_of_a_watch_resumes_after_the_bookmark(server: ScriptedServer, client: Client) -> None:
    server.answer(
        page(config_map("a", 3)),
        lines(event("MODIFIED", config_map("a", 12)), bookmark(40)),
        lines(event("DELETED", config_map("a", 41))),
        HANG,
    )
    assert await story(client, server, 4) == ["start ['a']", "Modified a@12", "Deleted a"]
    assert queries(server) == ["list", "watch 10", "watch 40", "watch 41"]


@pytest.mark.parametrize(
    "loss",
    [
        lines(event("ADDED", config_map("b", 11)), end="abort"),
        lines(event("ADDED", config_map("b", 11)), b'{"type":"ADDED","object":{"meta'),
        lines(event("ADDED", config_map("b", 11)), b'{"type":"ADDED","obj\n'),
        lines(event("ADDED", config_map("b", 11)), end="hang"),
        lines(event("ADDED", config_map("b", 11)), event("ADDED", config_map("c", 12, blob="x" * 30_000))),
    ],
    ids=["reset", "cut off", "garbled", "silent", "too large"],
)
async def test_lost_connections_resume_without_a_list(
    server: ScriptedServer, client: Client, loss: Handler
) -> None:
    server.answer(page(config_map("a", 3)), loss, lines(event("DELETED", config_map("a", 13))), HANG)
    assert await story(client, server, 4) == ["start ['a']", "Added b@11", "Deleted a"]
    assert queries(server) == ["list", "watch 10", "watch 11", "watch 13"]


@pytest.mark.parametrize(
    "end",
    [
        status(410, "Expired", "too old resource version"),
        lines(event("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})),
        lines(event("ERROR", {"kind": "Status", "code": 500, "message": "lost track"})),
        status(400, "BadRequest", "invalid resource version"),
    ],
    ids=["410 status", "410 event", "500 event", "400 status"],
)
async def test_lost_thread_lists_again_and_tells_what_was_missed(
    server: ScriptedServer, client: Client, end: Handler
) -> None:
    server.answer(
        page(config_map("a", 3), config_map("b", 4), config_map("c", 5)),
        end,
        page(config_map("a", 3), config_map("b", 17), config_map("d", 18), version=20),
        HANG,
    )
    assert await story(client, server, 4) == [
        "start ['a', 'b', 'c']",
        "Deleted c",
        "Modified b@17",
        "Added d@18",
    ]
    assert queries(server) == ["list", "watch 10", "list", "watch 20"]


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
async def test_a_server_in_trouble_is_asked_again_for_the_same_watch(
    server: ScriptedServer, client: Client, code: int
) -> None:
    server.answer(page(config_map("a", 3)), status(code, "X", "x"), status(code, "X", "x"), HANG)
    assert await story(client, server, 4) == ["start ['a']"]
    assert queries(server)[0] == "list"
    assert queries(server)[-1] == "watch 10"
    assert "list" not in queries(server)[1:]


async def test_event_that_stays_broken_leads_to_a_list(server: ScriptedServer, client: Client) -> None:
    broken = lines(event("ADDED", {"metadata": {"name": "x"}}))
    server.answer(page(config_map("a", 3)), broken, broken, page(config_map("b", 15), version=30), HANG)
    assert await story(client, server, 5) == ["start ['a']", "Deleted a", "Added b@15"]
    assert queries(server) == ["list", "watch 10", "watch 10", "list", "watch 30"]


async def test_event_that_is_always_too_large_comes_through_a_list(
    server: ScriptedServer, client: Client
) -> None:
    large = config_map("large", 11, blob="x" * 30_000)
    end = lines(event("ADDED", large))
    server.answer(page(), end, end, page(large, version=11), HANG)
    assert await story(client, server, 5) == ["start []", "Added large@11"]


async def test_time_that_goes_back_leads_to_a_list_that_is_believed(
    server: ScriptedServer, client: Client
) -> None:
    restored = lines(bookmark(4))
    server.answer(
        page(config_map("a", 9), config_map("b", 8), version=100),
        restored,
        restored,
        page(config_map("a", 3), version=5),
        lines(event("MODIFIED", config_map("a", 6))),
        HANG,
    )
    assert await story(client, server, 6) == ["start ['a', 'b']", "Deleted b", "Modified a@3", "Modified a@6"]
    assert queries(server) == ["list", "watch 100", "watch 100", "list", "watch 5", "watch 6"]


async def test_backoff_grows_and_starts_over_after_progress(client: Client, server: ScriptedServer) -> None:
    clock = FakeClock()
    policy = BackoffPolicy(first=1.0, factor=2.0, limit=8.0, jitter=0.0)
    config = ReflectorConfig(follow=FollowConfig(backoff=policy))
    busy = status(503, "X", "x")
    server.answer(page(), busy, busy, busy, lines(event("ADDED", config_map("a", 11))), busy, HANG)
    async with Reflector(client, CONFIG_MAPS, config=config, clock=clock):
        for wait in (1, 2, 4, 1, 2):
            await wait_until(lambda: clock.sleepers)
            await clock.advance(wait - 0.1)
            assert clock.sleepers == 1, wait
            await clock.advance(0.1)
        await wait_until(lambda: len(server.seen) == 7)


async def test_retry_after_is_honoured(client: Client, server: ScriptedServer) -> None:
    clock = FakeClock()
    server.answer(page(), status(429, "TooManyRequests", "x", Retry_After="20"), HANG)
    async with Reflector(client, CONFIG_MAPS, clock=clock):
        await wait_until(lambda: clock.sleepers)
        await clock.advance(19)
        assert clock.sleepers == 1
        await clock.advance(1)
        await wait_until(lambda: len(server.seen) == 3)
