"""The stream without HTTP: one log for all followers, at whatever pace they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec

from dray.api.codec import view
from dray.api.core import Event
from dray.api.kinds import EVENTS, NODES, RESOURCE_CLAIMS, Resource
from dray.client.store import Added, Deleted, Entry
from dray.dashboard.fleet.fleet import Fleet, Lag
from dray.dashboard.http.stream import MOST_EVENTS, Stream, StreamOptions
from dray.runtime.clock import FakeClock, settle
from tests.dashboard import small_fleet as objects

START = FakeClock().now()


class Followed:
    """What one follower got so far, read only when told."""

    def __init__(self, messages: AsyncIterator[bytes]) -> None:
        self._messages = messages

    async def next(self) -> tuple[str, Any, str]:
        """Name, data and place; comments have none."""
        async with asyncio.timeout(60):
            text = (await anext(self._messages)).decode()
        assert text.endswith("\n\n")
        assert text.count("\n\n") == 1
        fields = dict(line.split(": ", 1) for line in text.strip().split("\n"))
        data = msgspec.json.decode(fields["data"]) if "data" in fields else None
        return fields.get("event", ""), data, fields.get("id", "")

    async def until(self, name: str) -> tuple[list[str], Any, str]:
        """The names that came before, then the data and the place of this one."""
        before: list[str] = []
        while (found := await self.next())[0] != name:
            before.append(found[0])
        return before, found[1], found[2]


class Told:
    """A fleet that is fed by hand."""

    def __init__(self) -> None:
        self.clock = FakeClock(START)
        self.fleet = Fleet("https://server", "life")
        self.stream = Stream(self.fleet, self.clock, StreamOptions())

    def put(self, resource: Resource[Any], document: dict[str, Any]) -> None:
        self.fleet.take(resource, Added(_entry(resource, document)), START)

    def drop(self, resource: Resource[Any], document: dict[str, Any]) -> None:
        self.fleet.take(resource, Deleted(_entry(resource, document), ""), START)

    def node(self, name: str, *, ready: bool = True) -> None:
        document, status = objects.node(name, ready=ready)
        self.put(NODES, document | status)
        self.stream.turn()

    @asynccontextmanager
    async def follow(self, since: str = "") -> AsyncIterator[Followed]:
        async with aclosing(self.stream.follow(since)) as messages:  # type: ignore[type-var]  # it is a generator
            followed = Followed(messages)
            assert (await followed.next())[0] == ""
            yield followed


def _entry(resource: Resource[Any], document: dict[str, Any]) -> Entry[Any]:
    meta = document["metadata"]
    return Entry((meta.get("namespace", ""), meta["name"]), "u", "1", view(document, resource.type))


async def test_a_slow_follower_gets_the_newest_state_once() -> None:
    told = Told()
    async with told.follow() as slow, told.follow() as quick:
        told.node("a")
        assert set((await quick.until("fleet"))[1]["nodes"]) == {"a"}
        for number in range(50):
            told.node("a", ready=bool(number % 2))
            told.node(f"n{number}")
        _, data, place = await slow.until("fleet")
        assert len(data["nodes"]) == 51
        assert data["nodes"]["a"]["ready"] is True
        assert data["summary"]["nodes"] == 51
        assert place == data["revision"] == told.fleet.log.revision()


async def test_only_the_last_message_of_a_turn_moves_the_place() -> None:
    told = Told()
    async with told.follow() as one:
        told.put(RESOURCE_CLAIMS, objects.claim("c", objects.request()))
        told.put(EVENTS, _event("e"))
        told.node("a")
        found = [await one.next() for _ in range(3)]
    assert [name for name, _, _ in found] == ["event", "claims", "fleet"]
    assert [bool(place) for _, _, place in found] == [False, False, True]
    async with told.follow(found[2][2]) as again:
        told.node("b")
        assert set((await again.until("fleet"))[1]["nodes"]) == {"b"}


async def test_what_is_gone_is_told_as_gone() -> None:
    told = Told()
    told.node("a")
    claim = objects.claim("c", objects.request())
    told.put(RESOURCE_CLAIMS, claim)
    async with told.follow() as one:
        told.drop(NODES, objects.node("a")[0])
        told.drop(RESOURCE_CLAIMS, claim)
        told.stream.turn()
        assert (await one.next())[1] == {"changed": [], "removed": ["team-a/c"]}
        assert (await one.next())[1]["nodes"] == {"a": None}


async def test_who_missed_too_much_starts_over() -> None:
    told = Told()
    place = told.fleet.log.revision()
    for number in range(50_001):
        told.fleet.log.note("pod", f"a/{number}")
    for since in (place, "other-3"):
        async with told.follow(since) as one:
            name, data, at = await one.next()
            assert (name, data["revision"], at) == ("reset", told.fleet.log.revision(), data["revision"])
            told.node(f"n{since}")
            assert (await one.next())[0] == "fleet"


async def test_of_a_storm_of_events_the_last_are_told() -> None:
    told = Told()
    async with told.follow() as one:
        for number in range(MOST_EVENTS + 50):
            told.put(EVENTS, _event(f"e{number:04d}", second=number % 60, minute=number // 60))
        told.stream.turn()
        found = [(await one.next())[1]["key"] for _ in range(MOST_EVENTS)]
        assert found == [f"team-a/e{number:04d}" for number in range(50, MOST_EVENTS + 50)]


async def test_lag_is_told_when_it_begins_when_it_ends_and_to_who_comes_in_between() -> None:
    told = Told()
    async with told.follow() as one:
        told.fleet.lag = Lag(START, "gone")
        told.stream.turn()
        assert (await one.next())[1] == {"lagging": True, "since": "2030-01-01T00:00:00Z", "reason": "gone"}
        async with told.follow() as other:
            assert (await other.next())[1]["lagging"]
        told.fleet.lag = None
        told.stream.turn()
        assert (await one.next())[:2] == ("lag", {"lagging": False})


async def test_a_sign_of_life_when_nothing_happens() -> None:
    told = Told()
    async with told.follow() as one, asyncio.TaskGroup() as group:
        waiting = group.create_task(one.next())
        await settle()
        assert not waiting.done()
        await told.clock.advance(15.1)
        assert (await waiting)[0] == ""


def _event(name: str, second: int = 0, minute: int = 0) -> dict[str, Any]:
    found = {
        "metadata": {"name": name, "namespace": objects.NS},
        "involvedObject": {"kind": "Pod", "namespace": objects.NS, "name": "p"},
        "lastTimestamp": f"2026-03-01T12:{minute:02d}:{second:02d}Z",
    }
    assert view(found, Event).metadata.name == name
    return found
