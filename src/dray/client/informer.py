"""A reflector with indexes and handlers: what schedulers and controllers read and are woken by.

    async with Informer(client, PODS, indexers={"node": lambda pod: [pod.spec.node_name]}) as pods:
        pods.on_change(lambda change: queue.add(change.key))
        here = pods.indexed("node", "worker-1")

Objects, indexes and handlers move together: a handler that looks sees the change it is told, and all before it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Generic, TypeVar

from dray.api.core import ObjectReference
from dray.api.kinds import Resource
from dray.api.meta import Model, ObjectMeta
from dray.client.client import Client
from dray.client.feed import Replaced
from dray.client.index import Index, Indexer
from dray.client.reflector import Reflector, ReflectorConfig, ReflectorStats
from dray.client.requests import ALL, Selection
from dray.client.store import Added, Change, Deleted, Entry, Key, Snapshot, diff
from dray.errors import InvariantError, UnavailableError
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.quarantine import Quarantine, object_key
from dray.runtime.tasks import running

T = TypeVar("T", bound=Model)

_log = get_log("client.informer")

TURN = 0.005
"""Seconds of changes after which others get their turn in the loop."""
SLOW = 0.1
"""Seconds a handler may take before it is reported."""

Handler = Callable[[Change[T]], None]


@dataclass(frozen=True, slots=True)
class Journal:
    """Whose change is being handed on is noted, so that an object that ends the process by it again and again is left out:
    for this informer it is not there. Where that does more harm than an end (`may_leave`), it is handed on all the same.
    `leave` is told of an object that is left out, and why."""

    quarantine: Quarantine
    leave: Callable[[ObjectReference, str], None]
    may_leave: Callable[[Model], bool] = lambda one: True


class Informer(Generic[T]):
    """Entered: the first list is in, and every handler has seen it (unless `wait_synced` is off). Left: stopped.

    Handlers are plain functions that note the change and return: put a key into a queue, update a count. They are
    called one at a time, each with every change in order. One that raises is a bug and ends the informer.
    After an overflow or a relist, several changes of an object may come as one; none is lost.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        selection: Selection = ALL,
        *,
        indexers: Mapping[str, Indexer[T]] | None = None,
        config: ReflectorConfig | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.resource = resource
        self._journal = journal
        self._left: set[Key] = set()
        self._config = config or ReflectorConfig()
        self._reflector = Reflector(client, resource, selection, self._config, clock=clock, rng=rng)
        self._entries: dict[Key, Entry[T]] = {}
        self._indexes: dict[str, Index[T]] = {}
        self._handlers: tuple[Handler[T], ...] = ()
        self._generation = 0
        self._turn: asyncio.Event | None = None
        self._is_stopped = False
        self._stack = AsyncExitStack()
        for name, indexer in (indexers or {}).items():
            self.add_index(name, indexer)

    async def __aenter__(self) -> Informer[T]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._reflector)
            stack.callback(self._stop)
            name = f"informer {self.resource}"
            await stack.enter_async_context(running(self._follow(), name=name, stop_timeout=5.0))
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
        """How following the server fares."""
        return self._reflector.stats

    @property
    def generation(self) -> int:
        """How many changes went through; for `wait_changed`."""
        return self._generation

    @property
    def indexers(self) -> Mapping[str, Indexer[T]]:
        """The indexes there are, by name."""
        return MappingProxyType({name: index.indexer for name, index in self._indexes.items()})

    def add_index(self, name: str, indexer: Indexer[T]) -> None:
        """One more index; at any time. The same one twice is fine, another one of that name is our bug."""
        known = self._indexes.get(name)
        if known is None:
            self._indexes[name] = Index(indexer, self._entries.values())
        elif known.indexer is not indexer:
            raise InvariantError(f"the informer of {self.resource} has another index {name!r}")

    def by_key(self, key: Key) -> T | None:
        """One object, or None."""
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    def get(self, name: str, namespace: str = "") -> T | None:
        """One object, or None."""
        return self.by_key((namespace, name))

    def indexed(self, name: str, value: str) -> tuple[T, ...]:
        """The objects that index `name` has under `value`, by key."""
        index = self._indexes.get(name)
        if index is None:
            raise InvariantError(f"the informer of {self.resource} has no index {name!r}")
        return index.get(value)

    def entries(self) -> Mapping[Key, Entry[T]]:
        """All objects, live: do not keep it over an `await`."""
        return MappingProxyType(self._entries)

    def values(self) -> Iterator[T]:
        """All objects, in no particular order; not over an `await` either."""
        return (entry.value for entry in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def on_change(self, handler: Handler[T]) -> Callable[[], None]:
        """Tell `handler` every change from now on, and first, before this returns, each object there is as `Added`.

        Returns the function that ends it.
        """
        for key in sorted(self._entries):
            slot = self._note(self._entries[key])
            handler(Added(self._entries[key]))
            self._clear(slot)
        self._handlers = (*self._handlers, handler)

        def stop() -> None:
            self._handlers = tuple(one for one in self._handlers if one is not handler)

        return stop

    async def wait_synced(self) -> None:
        """Return once the first list is in and all handlers have seen it."""
        await self._reflector.wait_synced()
        target = self._reflector.generation
        while self._generation < target:
            await self._wait_turn()

    async def wait_changed(self, generation: int) -> None:
        """Return once there was a change after `generation`; UnavailableError when the informer has stopped."""
        while self._generation <= generation:
            await self._wait_turn()

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        turn_ends = loop.time() + TURN
        async for news in self._reflector.changes():
            for change in self._missed(news) if isinstance(news, Replaced) else (news,):
                self._take(change)
                if loop.time() >= turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = loop.time() + TURN
            if isinstance(news, Replaced):
                self._generation = news.snapshot.generation
                self._wake()

    def _missed(self, news: Replaced[T]) -> Iterable[Change[T]]:
        return diff(Snapshot(self._generation, "", self._entries), news.snapshot)

    def _take(self, change: Change[T]) -> None:
        """One change goes through everything, without an await in between."""
        if self._journal is not None and self._journal.quarantine.deaths and self._is_left(change):
            self._generation += 1
            self._wake()
            return
        slot = self._note(change.old if isinstance(change, Deleted) else change.new)
        self._hand_on(change)
        self._clear(slot)

    def _is_left(self, change: Change[T]) -> bool:
        """An object that is here stays so, and one that was left out may come later: its rest is over."""
        if self._journal is None or change.key in self._entries:
            return False
        if isinstance(change, Deleted):
            self._left.discard(change.key)
            return True
        why = ""
        if self._journal.may_leave(change.new.value):
            why = self._journal.quarantine.why(self._name(change.new))
        if why and change.key not in self._left:
            self._left.add(change.key)
            _log.warning("an object is left out", resource=self.resource, key="/".join(change.key), why=why)
            self._journal.leave(self._about(change.new), why)
        return bool(why)

    def _about(self, entry: Entry[T]) -> ObjectReference:
        (namespace, name), resource = entry.key, self.resource
        return ObjectReference(
            api_version=resource.api_version,
            kind=resource.kind,
            namespace=namespace,
            name=name,
            uid=entry.uid,
        )

    def _name(self, entry: Entry[T]) -> str:
        meta: ObjectMeta = getattr(entry.value, "metadata")  # noqa: B009 - every object has it, `Model` does not say so
        namespace, name = entry.key
        return f"watch {object_key(self.resource.plural, namespace, name, entry.uid, meta.controller_uid)}"

    def _note(self, entry: Entry[T]) -> int:
        return -1 if self._journal is None else self._journal.quarantine.note(self._name(entry))

    def _clear(self, slot: int) -> None:
        if self._journal is not None:
            self._journal.quarantine.clear(slot)

    def _hand_on(self, change: Change[T]) -> None:
        if isinstance(change, Deleted):
            del self._entries[change.key]
            for index in self._indexes.values():
                index.remove(change.key)
        else:
            self._entries[change.key] = change.new
            for index in self._indexes.values():
                index.put(change.new)
        self._generation += 1
        for handler in self._handlers:
            self._tell(handler, change)
        self._wake()

    def _tell(self, handler: Handler[T], change: Change[T]) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        handler(change)
        took = loop.time() - started
        if took > SLOW:
            name = getattr(handler, "__qualname__", type(handler).__qualname__)
            _log.warning("handler is slow", resource=self.resource, handler=name, took_s=round(took, 3))

    async def _wait_turn(self) -> None:
        if self._is_stopped:
            raise UnavailableError(f"the informer of {self.resource} has stopped")
        if self._turn is None:
            self._turn = asyncio.Event()
        await self._turn.wait()

    def _stop(self) -> None:
        self._is_stopped = True
        self._wake()

    def _wake(self) -> None:
        if self._turn is not None:
            self._turn.set()
            self._turn = None
