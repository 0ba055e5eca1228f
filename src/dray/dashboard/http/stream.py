"""What changes, as server-sent events. Nobody has a queue: each follower has a place in the one log of changes.

A slow follower gets fewer and larger messages; one that takes nothing for a while is cut off, comes back with its place, and
goes on from there, or is told to start over where that is forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from dray.dashboard.fleet.changes import Changed
from dray.dashboard.fleet.fleet import Fleet, Lag
from dray.dashboard.fleet.model import json
from dray.dashboard.fleet.workloads import key_of
from dray.dashboard.telling.rows import claim_row, event_row, pod_row
from dray.runtime.clock import Clock
from dray.runtime.tasks import wait_first

HEARTBEAT: Final = b": still here\n\n"
MOST_EVENTS: Final = 200
"""Events in one message; of a storm the last ones."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """In seconds: between messages, between signs of life, and how long a follower may take for one message."""

    turn: float = 0.25
    heartbeat: float = 15.0
    patience: float = 15.0
    most: int = 64
    """Followers at once."""


class Stream:
    """`run` turns the picture over; `follow` is one follower's messages."""

    def __init__(self, fleet: Fleet, clock: Clock, options: StreamOptions | None = None) -> None:
        self.options = options or StreamOptions()
        self.followers = 0
        self._fleet = fleet
        self._clock = clock
        self._turned = asyncio.Event()
        self._shown: tuple[int, Lag | None] = (fleet.log.number, fleet.lag)
        self._made: dict[int, list[bytes] | None] = {}

    async def run(self) -> NoReturn:
        """Until cancelled. At most one message in each turn, whatever happens in it."""
        while True:
            await self._clock.sleep(self.options.turn)
            self.turn()

    def turn(self) -> None:
        """Settle the picture, and wake followers if something is different."""
        self._fleet.picture.settle()
        now = (self._fleet.log.number, self._fleet.lag)
        if now != self._shown:
            self._shown = now
            self._made = {}
            turned, self._turned = self._turned, asyncio.Event()
            turned.set()

    async def follow(self, since: str) -> AsyncIterator[bytes]:
        """Messages for ever. `since` is the revision that the follower has, "" for now."""
        self.turn()
        place = self._fleet.log.parse(since) if since else self._fleet.log.number
        lag: Lag | None = None
        yield b"retry: 2000\n\n"
        while True:
            turned = self._turned
            if self._fleet.lag != lag:
                lag = self._fleet.lag
                yield message("lag", lag_document(lag))
            now = self._shown[0]
            for one in self._since(place, now):
                yield one
            place = now
            if not await self._wait(turned):
                yield HEARTBEAT

    async def _wait(self, turned: asyncio.Event) -> bool:
        """Whether something is different; False where it was only time for a sign of life."""
        if not turned.is_set():
            await wait_first(turned.wait(), self._clock.sleep(self.options.heartbeat))
        return turned.is_set()

    def _since(self, place: int | None, now: int) -> list[bytes]:
        """Those who are at the same place get the same bytes, made once in a turn."""
        if place == now:
            return []
        if place is not None and place not in self._made:
            self._made[place] = self._messages(place)
        made = self._made.get(place) if place is not None else None
        if made is None:
            revision = self._fleet.log.revision(now)
            return [message("reset", {"revision": revision}, revision)]
        return made

    def _messages(self, place: int) -> list[bytes] | None:
        changed = self._fleet.log.since(place)
        if changed is None:
            return None
        parts: list[tuple[str, Any]] = [("event", one) for one in self._events(changed)]
        parts += self._rows(changed)
        if any(one.kind != "event" for one in changed):
            parts.append(("fleet", self._nodes(changed)))
        revision = self._fleet.log.revision()
        last = len(parts) - 1
        # Only the last one moves a follower's place: cut off before it, the follower gets all of them again.
        return [
            message(name, value, revision if number == last else "")
            for number, (name, value) in enumerate(parts)
        ]

    def _nodes(self, changed: frozenset[Changed]) -> dict[str, Any]:
        picture = self._fleet.picture
        names = sorted(one.key for one in changed if one.kind == "node")
        return {
            "revision": self._fleet.log.revision(),
            "summary": picture.summary(),
            "nodes": {name: picture.encoded(name) for name in names},
        }

    def _rows(self, changed: frozenset[Changed]) -> list[tuple[str, Any]]:
        now, picture = self._clock.now(), self._fleet.picture
        claims = {one.key: picture.claims.get(key_of(one.key)) for one in changed if one.kind == "claim"}
        pods = {one.key: picture.pods.get(key_of(one.key)) for one in changed if one.kind == "pod"}
        claim_rows = [claim_row(picture, one, now) for _, one in sorted(claims.items()) if one is not None]
        pod_rows = [pod_row(picture, one, now) for _, one in sorted(pods.items()) if one is not None]
        found: list[tuple[str, Any]] = []
        for name, rows, known in (("claims", claim_rows, claims), ("pods", pod_rows, pods)):
            if known:
                gone = sorted(key for key, one in known.items() if one is None)
                found.append((name, {"changed": rows, "removed": gone}))
        return found

    def _events(self, changed: frozenset[Changed]) -> list[Any]:
        events = (self._fleet.events.get(key_of(one.key)) for one in changed if one.kind == "event")
        rows = [event_row(one) for one in events if one is not None]
        rows.sort(key=lambda row: (row.time.timestamp() if row.time else 0.0, row.key))
        return rows[-MOST_EVENTS:]


def lag_document(lag: Lag | None) -> dict[str, Any]:
    """Whether what is shown is old."""
    if lag is None:
        return {"lagging": False}
    return {"lagging": True, "since": lag.since, "reason": lag.reason}


def message(name: str, value: Any, place: str = "") -> bytes:
    """One server-sent event. JSON has no line ends, so one line of data is enough."""
    head = f"id: {place}\n" if place else ""
    return f"{head}event: {name}\ndata: ".encode() + json(value) + b"\n\n"
