"""A picture of one collection that follows the server: survives disconnects, restarts, compaction, and says what changed.

    async with Reflector(client, RESOURCE_CLAIMS) as claims:
        async for change in claims.changes(): …

Level-triggered parts read `snapshot()` and `wait_changed()`; parts that need every change in order read `changes()`.
The log of changes is complete: replayed, it gives the cache, also across relists (see `store`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, TypeVar

import msgspec

from dray.api.kinds import Resource
from dray.api.meta import Model
from dray.client.client import Client, Listing
from dray.client.feed import Changes, Feed
from dray.client.follow import FollowConfig, Follower
from dray.client.requests import ALL, Selection
from dray.client.store import Change, Key, ReflectorState, Snapshot, Unreadable, WatchEvent
from dray.errors import Error, UnavailableError
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.logs import get_log
from dray.runtime.tasks import running

T = TypeVar("T", bound=Model)

_log = get_log("client.reflector")


@dataclass(frozen=True, slots=True)
class ReflectorConfig:
    """`refusal_patience` and `sync_timeout` are about the first list only; later the last picture stays and it retries.

    A server that has just started may refuse for a moment (its own rights are not loaded), so a refusal is final only
    after `refusal_patience` seconds. A server that is away is waited for `sync_timeout` seconds (None: for ever).
    """

    follow: FollowConfig = field(default_factory=FollowConfig)
    wait_synced: bool = True
    refusal_patience: float = 10.0
    sync_timeout: float | None = None
    buffer: int = 4096


class ReflectorStats(msgspec.Struct):
    """How the reflector fared so far."""

    lists: int = 0
    events: int = 0
    bookmarks: int = 0
    changes: int = 0
    failures: int = 0
    last_failure: str = ""


class Reflector(Generic[T]):
    """Entered: the first list is in (unless `wait_synced` is off). Left: stopped; the last picture stays readable.

    The first list's failure is raised on entering. Later failures are logged and retried for ever.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        selection: Selection = ALL,
        config: ReflectorConfig | None = None,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.resource = resource
        self._config = config or ReflectorConfig()
        self._cache: _Cache[T] = _Cache(resource, self._config, clock or SystemClock())
        self._follower = Follower(
            client,
            resource,
            selection,
            self._config.follow,
            sink=self._cache,
            clock=clock or SystemClock(),
            rng=rng or random.Random(),  # noqa: S311  spreads load, guards nothing
        )
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Reflector[T]:
        self._cache.start()
        async with AsyncExitStack() as stack:
            stack.callback(self._cache.feed.close)
            await stack.enter_async_context(
                running(self._follower.run(), name=f"reflector {self.resource}", stop_timeout=5.0)
            )
            if self._config.wait_synced:
                await self.wait_synced()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    @property
    def stats(self) -> ReflectorStats:
        """A copy of the counters."""
        return msgspec.structs.replace(self._cache.stats)

    @property
    def generation(self) -> int:
        """How many changes there have been; for `wait_changed`."""
        return self._cache.state.generation

    @property
    def unreadable(self) -> Mapping[Key, Unreadable]:
        """Objects whose newest version we cannot decode: the picture lags behind for these, or lacks them."""
        return self._cache.state.unreadable

    def get(self, name: str, namespace: str = "") -> T | None:
        """One object, without the cost of a snapshot."""
        entry = self._cache.state.get((namespace, name))
        return None if entry is None else entry.value

    def snapshot(self) -> Snapshot[T]:
        """All objects as of now; never changes afterwards."""
        return self._cache.state.snapshot()

    def changes(self) -> Changes[T]:
        """Every change from now on, after one `Replaced` with the picture of now. Ends when the reflector stops."""
        return self._cache.feed.listen()

    async def wait_synced(self) -> None:
        """Return once the first list is in."""
        await self._cache.synced.wait()

    async def wait_changed(self, generation: int) -> Snapshot[T]:
        """Return the newest picture once there was a change after `generation`."""
        feed = self._cache.feed
        while self.generation <= generation:
            if feed.is_closed:
                raise UnavailableError(f"the reflector of {self.resource} has stopped")
            await feed.wait_turn()
        return self.snapshot()


class _Cache(Generic[T]):
    """The follower's sink: state, feed and counters move together, without an await between them."""

    def __init__(self, resource: Resource[T], config: ReflectorConfig, clock: Clock) -> None:
        self.state: ReflectorState[T] = ReflectorState()
        self.feed: Feed[T] = Feed(self.state.snapshot, config.buffer)
        self.stats = ReflectorStats()
        self.synced = asyncio.Event()
        self._resource = resource
        self._config = config
        self._clock = clock
        self._started = 0.0
        self._batch: list[Change[T]] = []

    @property
    def version(self) -> str:
        """Where the watch goes on."""
        return self.state.version

    def start(self) -> None:
        """The patience for the first list counts from here."""
        self._started = self._clock.monotonic()

    def replace(self, listing: Listing[T]) -> None:
        """A complete list came."""
        for item in listing.unreadable:
            self._report(item)
        changes = self.state.replace((*listing.entries, *listing.unreadable), listing.resource_version)
        self.stats.lists += 1
        self._publish(changes)
        self.synced.set()
        _log.info(
            "listed",
            resource=self._resource,
            version=listing.resource_version,
            objects=len(listing.entries),
            changes=len(changes),
        )

    def apply(self, event: WatchEvent[T]) -> None:
        """One event came; it is seen by others after `flush`, in one go with those that came with it."""
        if isinstance(event.item, Unreadable) and event.type != "DELETED":
            self._report(event.item)
        self._batch += self.state.apply(event)
        if event.type == "BOOKMARK":
            self.stats.bookmarks += 1
        else:
            self.stats.events += 1

    def flush(self) -> None:
        """Publish what was applied."""
        if self._batch:
            batch, self._batch = self._batch, []
            self._publish(batch)

    def failed(self, error: Error) -> None:
        """A try failed. Raises the error where the first list should be given up."""
        self.stats.failures += 1
        self.stats.last_failure = str(error)
        if self.synced.is_set() or not self._config.wait_synced:
            return
        away = isinstance(error, UnavailableError)
        limit = self._config.sync_timeout if away else self._config.refusal_patience
        if limit is not None and self._clock.monotonic() - self._started >= limit:
            raise error

    def _publish(self, changes: Sequence[Change[T]]) -> None:
        if changes:
            self.stats.changes += len(changes)
            self.feed.publish(changes)

    def _report(self, item: Unreadable) -> None:
        """Once for each version of an object, not once for each relist."""
        if self.state.unreadable.get(item.key) != item:
            _log.error(
                "object cannot be decoded; the last readable version stays in use",
                resource=self._resource,
                object="/".join(filter(None, item.key)),
                version=item.version,
                error=item.reason,
            )
