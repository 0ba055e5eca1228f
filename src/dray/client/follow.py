"""The loop of a reflector: list, watch, resume, and list again where the thread is lost. Feeds a `Sink`.

What ends a watch, and what follows (always after a jittered backoff, which starts over once a watch made progress):

- the server's own end, a broken, silent or refused connection, 429 and 5xx: resume from the last version seen;
- 410 as a status or as an ERROR event, any other ERROR event, and any other refusal: list again, newest state;
- an event that cannot be understood, is too large or goes back in time: resume once, because the line may have been
  cut on the way; if nothing better comes from there, list again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from dray.api.kinds import Resource
from dray.api.meta import Model
from dray.client.client import EVENT_LIMIT, PAGE_SIZE, Client, Listing
from dray.client.requests import Selection
from dray.client.store import WatchEvent
from dray.errors import Error, ProtocolError, UnavailableError
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log

T = TypeVar("T", bound=Model)

_log = get_log("client.reflector")

RETRY_AFTER_LIMIT = 60.0
STEADY_AFTER = 10.0
"""Seconds a watch must last to count as working even if nothing happened in it."""


@dataclass(frozen=True, slots=True)
class FollowConfig:
    """How to follow. Watches are ended after a random time in `watch_seconds`, so that load spreads over servers."""

    page_size: int = PAGE_SIZE
    watch_seconds: tuple[int, int] = (300, 600)
    idle_timeout: float = 150.0
    event_limit: int = EVENT_LIMIT
    backoff: BackoffPolicy = field(default_factory=lambda: BackoffPolicy(first=0.2, limit=30.0, jitter=1.0))


class Sink(Protocol[T]):
    """Who takes what the server says. All calls come from one task."""

    @property
    def version(self) -> str:
        """Where to resume; "" before the first list."""
        ...

    def replace(self, listing: Listing[T]) -> None:
        """A complete list."""
        ...

    def apply(self, event: WatchEvent[T]) -> None:
        """One event."""
        ...

    def flush(self) -> None:
        """Let others see what was applied; always called before this task waits for anything."""
        ...

    def failed(self, error: Error) -> None:
        """A try failed and another will follow, unless this raises."""
        ...


class Follower(Generic[T]):
    """Follows one collection for ever. A bug of ours, and what `sink.failed` raises, end it."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        selection: Selection,
        config: FollowConfig,
        *,
        sink: Sink[T],
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._client = client
        self._resource = resource
        self._selection = selection
        self._config = config
        self._sink = sink
        self._clock = clock
        self._rng = rng
        self._backoff = Backoff(config.backoff, rng)
        self._needs_list = True
        self._suspect = ""

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            wait = 0.0
            try:
                await self._step()
            except Error as error:
                self._decide(error)
                self._sink.failed(error)
                _log.warning(
                    "list again" if self._needs_list else "watch again",
                    resource=self._resource,
                    version=self._sink.version,
                    error=error,
                )
                if isinstance(error, UnavailableError):
                    wait = min(error.retry_after or 0.0, RETRY_AFTER_LIMIT)
            await self._clock.sleep(max(wait, self._backoff.next()))

    async def _step(self) -> None:
        if self._needs_list:
            listing = await self._client.list(
                self._resource, self._selection, page_size=self._config.page_size
            )
            self._sink.replace(listing)
            self._needs_list, self._suspect = False, ""
        started = self._clock.monotonic()
        try:
            await self._watch()
        finally:
            if self._clock.monotonic() - started >= STEADY_AFTER:
                self._backoff.reset()

    async def _watch(self) -> None:
        async with self._client.watch(
            self._resource,
            self._selection,
            resource_version=self._sink.version,
            timeout_seconds=self._rng.randint(*self._config.watch_seconds),
            idle_timeout=self._config.idle_timeout,
            event_limit=self._config.event_limit,
        ) as watch:
            try:
                async for event in watch:
                    self._sink.apply(event)
                    if not watch.buffered:
                        self._sink.flush()
                    if self._backoff.failures:
                        self._backoff.reset()
            finally:
                self._sink.flush()
        _log.debug("the server ended the watch", resource=self._resource, version=self._sink.version)

    def _decide(self, error: Error) -> None:
        """Whether the next step has to start with a list."""
        if self._needs_list or isinstance(error, UnavailableError):
            return
        version = self._sink.version
        if isinstance(error, ProtocolError) and self._suspect != version:
            self._suspect = version
            return
        self._needs_list = True
