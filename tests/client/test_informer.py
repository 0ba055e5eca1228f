from __future__ import annotations

import asyncio
import logging
import random
import time
from pathlib import Path

import pytest

from dray.api.core import ConfigMap
from dray.api.kinds import CONFIG_MAPS
from dray.client.access import ClusterAccess
from dray.client.client import Client
from dray.client.follow import FollowConfig
from dray.client.informer import Informer, Journal
from dray.client.reflector import ReflectorConfig
from dray.client.requests import Selection
from dray.client.store import Added, Change, Entry, Key, replay
from dray.errors import DeniedError, InvariantError, UnavailableError
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import SystemClock
from dray.runtime.quarantine import DEATHS, Deaths, Quarantine
from tests.campaign import seeds
from tests.client.answers import HANG, config_map, event, page
from tests.client.mini_api import MiniApi, serving
from tests.client.servers import ScriptedServer, lines, status
from tests.waiting import PATIENCE, wait_until

QUICK = FollowConfig(page_size=5, idle_timeout=0.3, backoff=BackoffPolicy(first=0.01, limit=0.05))
FAST = ReflectorConfig(follow=QUICK)


def app(item: ConfigMap) -> list[str]:
    return [item.data["app"]] if "app" in item.data else []


def names(found: tuple[ConfigMap, ...]) -> list[str]:
    return [item.metadata.name for item in found]


async def test_entered_means_indexed_and_told(server: ScriptedServer, client: Client) -> None:
    server.answer(page(config_map("b", 3, app="x"), config_map("a", 4, app="x"), config_map("c", 5)), HANG)
    told = list[Change[ConfigMap]]()
    informer = Informer(client, CONFIG_MAPS, Selection("ns"), indexers={"app": app}, config=FAST)
    informer.on_change(told.append)
    async with informer:
        assert [type(change) for change in told] == [Added] * 3
        assert [change.key[1] for change in told] == ["a", "b", "c"]
        assert names(informer.indexed("app", "x")) == ["a", "b"]
        assert informer.indexed("app", "y") == ()
        found = informer.by_key(("ns", "c"))
        assert found is not None
        assert found is informer.get("c", "ns")
        assert (informer.get("c"), len(informer), informer.generation) == (None, 3, 3)
        assert dict(informer.indexers) == {"app": app}
        assert {value.metadata.name for value in informer.values()} == set("abc")
    assert names(informer.indexed("app", "x")) == ["a", "b"]
    with pytest.raises(UnavailableError, match="has stopped"):
        await informer.wait_changed(3)


async def deadly(
    server: ScriptedServer, client: Client, directory: Path, told: list[str]
) -> tuple[list[str], dict[str, Deaths]]:
    """A process whose handler meets a bug of ours at `b`; which objects were there, and whose deaths it began with."""

    def handle(change: Change[ConfigMap]) -> None:
        if change.key[1] == "b":
            raise ZeroDivisionError
        told.append(change.key[1])

    server.answer(page(config_map("a", 3), config_map("b", 4), config_map("c", 5)), HANG)
    with Quarantine(directory, SystemClock()) as quarantine:
        journal = Journal(quarantine, lambda about, why: told.append(f"{about.kind} {about.name}: {why[:9]}"))
        informer = Informer(client, CONFIG_MAPS, Selection("ns"), config=FAST, journal=journal)
        informer.on_change(handle)
        async with informer:
            return sorted(one.metadata.name for one in informer.values()), dict(quarantine.deaths)


async def test_an_object_that_ends_the_process_when_it_is_handed_on_is_left_out(
    server: ScriptedServer, client: Client, tmp_path: Path
) -> None:
    for _ in range(DEATHS):
        with pytest.raises(ZeroDivisionError):
            await deadly(server, client, tmp_path, [])
    told = list[str]()
    there, deaths = await deadly(server, client, tmp_path, told)
    assert there == ["a", "c"] and told == ["a", "ConfigMap b: set aside", "c"]
    (name,) = deaths
    assert name.startswith("watch configmaps/ns/b/")


async def test_what_must_not_be_left_out_is_handed_on(
    server: ScriptedServer, client: Client, tmp_path: Path
) -> None:
    for _ in range(DEATHS):
        with pytest.raises(ZeroDivisionError):
            await deadly(server, client, tmp_path, [])
    server.answer(page(config_map("b", 4)), HANG)
    with Quarantine(tmp_path, SystemClock()) as quarantine:
        journal = Journal(quarantine, lambda about, why: None, lambda one: False)
        async with Informer(client, CONFIG_MAPS, Selection("ns"), config=FAST, journal=journal) as informer:
            assert len(informer) == 1


async def test_a_handler_sees_the_change_it_is_told(server: ScriptedServer, client: Client) -> None:
    server.answer(
        page(config_map("a", 3, app="x")),
        lines(
            event("MODIFIED", config_map("a", 11, app="y")),
            event("ADDED", config_map("b", 12, app="y")),
            event("DELETED", config_map("a", 13, app="y")),
            end="hang",
        ),
    )
    seen = list[tuple[str, str, list[str], list[str]]]()
    informer = Informer(client, CONFIG_MAPS, indexers={"app": app}, config=FAST)

    def look(change: Change[ConfigMap]) -> None:
        x, y = names(informer.indexed("app", "x")), names(informer.indexed("app", "y"))
        seen.append((type(change).__name__, change.key[1], x, y))

    informer.on_change(look)
    async with informer:
        await informer.wait_changed(3)
    assert seen == [
        ("Added", "a", ["a"], []),
        ("Modified", "a", [], ["a"]),
        ("Added", "b", [], ["a", "b"]),
        ("Deleted", "a", [], ["b"]),
    ]


async def test_late_handlers_get_what_is_there_and_may_leave(server: ScriptedServer, client: Client) -> None:
    slow = lines(
        event("ADDED", config_map("c", 11)), event("ADDED", config_map("d", 12)), end="hang", pause=0.1
    )
    server.answer(page(config_map("b", 3), config_map("a", 4)), slow)
    async with Informer(client, CONFIG_MAPS, config=FAST) as informer:
        early, late = list[str](), list[str]()
        stop = informer.on_change(lambda change: early.append(change.key[1]))
        assert early == ["a", "b"]
        await informer.wait_changed(2)
        informer.on_change(lambda change: late.append(change.key[1]))
        stop()
        await informer.wait_changed(3)
    assert (early, late) == (["a", "b", "c"], ["a", "b", "c", "d"])


async def test_late_index_and_names_of_indexes(server: ScriptedServer, client: Client) -> None:
    server.answer(page(config_map("a", 3, app="x")), HANG)
    async with Informer(client, CONFIG_MAPS, config=FAST) as informer:
        with pytest.raises(InvariantError, match="no index 'app'"):
            informer.indexed("app", "x")
        informer.add_index("app", app)
        informer.add_index("app", app)
        assert names(informer.indexed("app", "x")) == ["a"]
        with pytest.raises(InvariantError, match="another index 'app'"):
            informer.add_index("app", lambda _: [])


async def test_refused_first_list_is_raised(server: ScriptedServer, client: Client) -> None:
    server.answer(status(403, "Forbidden", "no"))
    with pytest.raises(DeniedError):
        async with Informer(client, CONFIG_MAPS, config=ReflectorConfig(QUICK, refusal_patience=0.0)):
            pass


async def test_without_waiting_and_wait_synced(server: ScriptedServer, client: Client) -> None:
    server.answer(status(503, "ServiceUnavailable", "later"), page(config_map("a", 3)), HANG)
    async with Informer(client, CONFIG_MAPS, config=ReflectorConfig(QUICK, wait_synced=False)) as informer:
        assert len(informer) == 0
        await asyncio.wait_for(informer.wait_synced(), PATIENCE)
        assert len(informer) == 1


async def test_a_handler_that_raises_ends_the_informer(server: ScriptedServer, client: Client) -> None:
    server.answer(page(), lines(event("ADDED", config_map("a", 11)), end="hang", pause=0.05))
    with pytest.raises(ZeroDivisionError):
        async with Informer(client, CONFIG_MAPS, config=FAST) as informer:
            informer.on_change(lambda _: print(1 / 0))
            await asyncio.Event().wait()


async def test_many_changes_leave_others_their_turn_and_slow_handlers_are_named(
    server: ScriptedServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer(page(*(config_map(f"n{number}", 3) for number in range(300))), HANG)
    beats, done = [0], asyncio.Event()
    seen_at = set[int]()

    async def heartbeat() -> None:
        while not done.is_set():
            beats[0] += 1
            await asyncio.sleep(0)

    def handler(change: Change[ConfigMap]) -> None:
        seen_at.add(beats[0])
        time.sleep(0.12 if change.key[1] == "n7" else 0.001)

    informer = Informer(client, CONFIG_MAPS, config=FAST)
    informer.on_change(handler)
    with caplog.at_level(logging.WARNING):
        async with asyncio.TaskGroup() as group:
            group.create_task(heartbeat())
            async with informer:
                done.set()
    assert len(seen_at) >= 30, "300 ms of handlers must not be one pause"
    assert any("handler is slow" in record.getMessage() for record in caplog.records)


def digit(item: ConfigMap) -> list[str]:
    return [item.data["revision"][-1]]


def check(informer: Informer[ConfigMap]) -> None:
    """The indexes say what a look through everything would."""
    entries = informer.entries()
    for value in "0123456789":
        found = [entries[key].value for key in sorted(entries) if digit(entries[key].value) == [value]]
        assert list(informer.indexed("digit", value)) == found


@pytest.mark.parametrize("seed", seeds(2, 200))
@pytest.mark.parametrize("buffer", [3, 4096])
async def test_indexes_and_changes_through_all_faults(seed: int, buffer: int) -> None:
    """Watches cut, truncated, garbled, expired, compacted; small buffers that overflow: the log replays to the cache."""
    api = MiniApi(random.Random(seed), chaos=0.15)
    copy: dict[Key, Entry[ConfigMap]] = {}
    config = ReflectorConfig(follow=QUICK, buffer=buffer)
    async with serving(api), Client(ClusterAccess(api.url)) as client:
        informer = Informer(client, CONFIG_MAPS, indexers={"digit": digit}, config=config)
        informer.on_change(lambda change: replay(copy, [change]))
        informer.on_change(lambda _: check(informer))
        async with informer:
            for _ in range(60):
                for _ in range(api.rng.randrange(1, 4)):
                    api.write_anything()
                if api.rng.random() < 0.05:
                    api.compact()
                await asyncio.sleep(api.rng.random() * 0.005)
            api.chaos = 0.0
            await wait_until(
                lambda: {key: one.version for key, one in informer.entries().items()} == api.versions()
            )
            check(informer)
            assert copy == dict(informer.entries())
            await asyncio.wait_for(informer.wait_synced(), PATIENCE)
