"""What is seen of a cluster from its first moment on: each change of each object, with the time at which it came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from dray.api.core import Event
from dray.api.kinds import (
    DEVICE_CLASSES,
    EVENTS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dray.api.meta import Model
from dray.client.client import Client
from dray.client.informers import Informers
from dray.client.kubeconfig import find_access
from dray.client.store import Change, Deleted
from dray.errors import UnavailableError
from dray.runtime.clock import Clock

KINDS: Final[tuple[Resource[Any], ...]] = (
    NODES, PODS, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, DEVICE_CLASSES, EVENTS,
)  # fmt: skip
PATIENCE: Final = 30.0
"""Seconds that each step may take."""
_STOP: Final = 5.0

T = TypeVar("T", bound=Model)
R = TypeVar("R")


class Seen(NamedTuple):
    """A change, and when it came."""

    at: float
    change: Change[Any]


class Journal:
    """Keeps everything, so it is for a short life. `follow` runs beside those who wait for what it sees."""

    def __init__(self, clock: Clock, patience: float = PATIENCE) -> None:
        self._clock = clock
        self.patience = patience
        self._seen: dict[Resource[Any], list[Seen]] = {kind: [] for kind in KINDS}
        self._turn = asyncio.Event()
        self._asked_to_end, self._ended = asyncio.Event(), asyncio.Event()

    async def follow(self, kubeconfig: Path, has_server: asyncio.Event) -> None:
        """From the moment that there is a server, until `end`."""
        await has_server.wait()
        try:
            async with Client(find_access(kubeconfig), clock=self._clock) as client:
                informers = Informers(client, clock=self._clock)
                for kind in KINDS:
                    informers.of(kind).on_change(self._noting(kind))
                async with informers:
                    await self._asked_to_end.wait()
        finally:
            self._ended.set()

    def ask_to_end(self) -> None:
        """At any time, twice too."""
        self._asked_to_end.set()

    async def end(self) -> None:
        """Before the server ends: it would wait for who follows it, and they would complain that it is gone."""
        self.ask_to_end()
        try:
            async with asyncio.timeout(_STOP):
                await self._ended.wait()
        except TimeoutError:
            return

    def _noting(self, kind: Resource[Any]) -> Callable[[Change[Any]], None]:
        def note(change: Change[Any]) -> None:
            self._seen[kind].append(Seen(self._clock.monotonic(), change))
            self._turn.set()
            self._turn = asyncio.Event()

        return note

    async def first(self, kind: Resource[T], is_it: Callable[[T], object], what: str) -> tuple[T, float]:
        """The first state of an object that was as asked for, and when it came; also if that is long ago.

        UnavailableError names `what`, and the newest warning, where it does not come.
        """

        def find() -> tuple[T, float] | None:
            for seen in self._seen[kind]:
                if not isinstance(seen.change, Deleted) and is_it(seen.change.new.value):
                    return seen.change.new.value, seen.at
            return None

        return await self._wait(find, what)

    async def gone(self, kind: Resource[Any], name: str, what: str) -> float:
        """When an object of this name was deleted."""

        def find() -> float | None:
            return next(
                (
                    one.at
                    for one in self._seen[kind]
                    if isinstance(one.change, Deleted) and one.change.key[1] == name
                ),
                None,
            )

        return await self._wait(find, what)

    async def event(self, name: str, reason: str) -> tuple[Event, float]:
        """The first Event with this reason about an object of this name."""
        return await self.first(
            EVENTS,
            lambda one: one.involved_object.name == name and one.reason == reason,
            f"the Event {reason} about {name}",
        )

    def now(self, kind: Resource[T]) -> tuple[T, ...]:
        """The objects of a kind as they are, by name."""
        found: dict[tuple[str, str], T] = {}
        for seen in self._seen[kind]:
            if isinstance(seen.change, Deleted):
                found.pop(seen.change.key, None)
            else:
                found[seen.change.key] = seen.change.new.value
        return tuple(found[key] for key in sorted(found))

    async def _wait(self, find: Callable[[], R | None], what: str) -> R:
        try:
            async with asyncio.timeout(self.patience):
                while (found := find()) is None:
                    await self._turn.wait()
                return found
        except TimeoutError:
            raise UnavailableError(f"waited {self.patience:g} s for {what}{self._warned()}") from None

    def _warned(self) -> str:
        said = [one for one in self.now(EVENTS) if one.type == "Warning"]
        newest = max(said, key=lambda one: str(one.last_seen), default=None)
        return f"; the newest warning is {newest.reason}: {newest.message}" if newest else ""
