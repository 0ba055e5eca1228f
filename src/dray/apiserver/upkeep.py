"""What the server does by itself: objects whose owners are gone go too, namespaces and definitions that are deleted are
emptied, old Events are dropped.

Level-triggered: a key says only that something near this object changed; what is due is found out inside the transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TypeVar

from dray.apiserver.custom.definition import DEFINITIONS
from dray.apiserver.custom.live import Live
from dray.apiserver.store.contract import (
    Bookmark,
    Change,
    ChangeKind,
    Expired,
    Key,
    Store,
    Stored,
    Transaction,
)
from dray.apiserver.writing.kinds.definitions import clear_definition, definition_key
from dray.apiserver.writing.kinds.namespaces import namespace_key
from dray.apiserver.writing.removing.collecting import collect, near
from dray.apiserver.writing.removing.dependents import owners_of
from dray.apiserver.writing.removing.emptying import empty_namespace
from dray.apiserver.writing.removing.expiry import AT_ONCE, expire
from dray.apiserver.writing.request import Rules
from dray.errors import HardwareError, UnavailableError
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.quarantine import Quarantine, object_key
from dray.runtime.workqueue import Watch, WorkQueue

T = TypeVar("T")

_log = get_log("apiserver.upkeep")

_NAMESPACES = namespace_key("").resource
_DELETING = b'"deletionTimestamp"'
_EXPIRE_SECONDS = 30.0
EVENT_SECONDS = 3600.0
_RETRY = BackoffPolicy(first=0.05, limit=30.0, jitter=0.1)


class Upkeep:
    """`run` beside the server. A second one does no harm: each step is decided anew."""

    def __init__(
        self,
        store: Store,
        rules: Rules,
        clock: Clock,
        live: Live | None = None,
        event_ttl: float = EVENT_SECONDS,
        quarantine: Quarantine | None = None,
    ) -> None:
        """`live` is shared with the handler. Events go `event_ttl` seconds after they were last seen. `quarantine`, which is
        entered while this runs, remembers objects that end the server."""
        self._store = store
        self._live = live or Live(store, rules)
        self._clock = clock
        self._event_ttl = timedelta(seconds=event_ttl)
        self._defined = asyncio.Event()
        self._quarantine = quarantine or Quarantine(None, clock)
        watch = Watch(self._quarantine, self._name_of, self._leave)
        self._queue = WorkQueue[Key]("upkeep", clock, _RETRY, watch)

    async def run(self) -> None:
        """Until the store stops; what was left undone before a restart is found in the lists."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._queue.run(self._sync), name="upkeep work"),
                group.create_task(self._expire(), name="upkeep of old events"),
                group.create_task(self._follow_kinds(group), name="upkeep of kinds"),
            ]
            await self._follow(DEFINITIONS)
            for task in tasks:
                task.cancel()

    async def _follow_kinds(self, group: asyncio.TaskGroup) -> None:
        """One watch for each kind, also those that come later; one of a kind that is gone just has nothing to tell."""
        followed = {DEFINITIONS}
        while True:
            self._defined.clear()
            self._live.refresh()
            for served in self._live.rules.serving.all:
                resource = str(served.resource)
                if resource not in followed and not served.kept_as:
                    followed.add(resource)
                    group.create_task(self._follow(resource), name=f"upkeep of {resource}")
            await self._defined.wait()

    async def _expire(self) -> None:
        while True:
            before = self._clock.now() - self._event_ttl
            while await self._write(partial(expire, before=before)) == AT_ONCE:
                pass
            await self._clock.sleep(min(_EXPIRE_SECONDS, max(self._event_ttl.total_seconds() / 4, 1.0)))

    async def _follow(self, resource: str) -> None:
        while True:
            page = self._store.list(resource)
            for one in page.items:
                if _DELETING in one.raw or owners_of(one):
                    self._queue.add(one.key)
            try:
                async with self._store.watch(resource, since=page.revision) as changes:
                    async for change in changes:
                        if not isinstance(change, Bookmark):
                            await self._changed(change)
                return
            except Expired:
                continue  # it was too slow, or the history too short: all is looked at again

    async def _changed(self, change: Change) -> None:
        """Also those near its old state: an owner may wait for an object that has just been taken from it."""
        key = change.new.key
        self._queue.add(key)
        if key.resource == DEFINITIONS:
            self._defined.set()
        elif change.kind is ChangeKind.DELETED:
            self._queue.add(definition_key(key.resource))
        if key.namespace:
            self._queue.add(namespace_key(key.namespace))
        states = [one for one in (change.new, change.old) if one is not None]
        if not self._quarantine.why(name := _name(change.new)):
            near = self._write(lambda transaction: self._near(transaction, states))
            for found in await self._quarantine.steps(name, near):
                self._queue.add(found)

    async def _write(self, decide: Callable[[Transaction], T]) -> T:
        """Again while the disk is full or refuses: the server lives on meanwhile, and what was due is due after it."""
        backoff = Backoff(_RETRY)
        while True:
            try:
                return await self._store.write(decide)
            except (UnavailableError, HardwareError) as error:
                _log.info("upkeep waits for the disk", error=str(error))
            await self._clock.sleep(backoff.next())

    def _near(self, transaction: Transaction, states: list[Stored]) -> list[Key]:
        return [key for one in states for key in near(transaction, self._live.rules, one)]

    def _name_of(self, key: Key) -> str:
        found = self._store.get(key)
        return "" if found is None else _name(found)

    def _leave(self, key: Key, why: str) -> None:
        _log.warning("an object is left alone", object=str(key), why=why)

    async def _sync(self, key: Key) -> None:
        await self._store.write(lambda transaction: self._decide(transaction, key))

    def _decide(self, transaction: Transaction, key: Key) -> None:
        now, rules = self._clock.now(), self._live.rules
        if key.resource == DEFINITIONS and clear_definition(transaction, rules, key.name, now):
            return
        if key.resource not in rules.serving:
            return
        while collect(transaction, rules, key, now):
            pass
        if key.resource == _NAMESPACES:
            empty_namespace(transaction, rules, key.name, now)


def _name(one: Stored) -> str:
    return object_key(one.key.resource, one.key.namespace, one.key.name, one.uid)
