"""What the server does by itself: objects whose owners are gone go too, and terminating namespaces are emptied.

Level-triggered: a key says only that something near this object changed; what is due is found out inside the transaction.
"""

from __future__ import annotations

import asyncio

from dray.apiserver.served import Served
from dray.apiserver.store.contract import Bookmark, Change, Expired, Key, Store, Stored, Transaction
from dray.apiserver.writing.collecting import collect, near
from dray.apiserver.writing.dependents import owners_of
from dray.apiserver.writing.emptying import empty_namespace
from dray.apiserver.writing.namespaces import namespace_key
from dray.apiserver.writing.request import Rules
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.workqueue import WorkQueue

_NAMESPACES = namespace_key("").resource
_DELETING = b'"deletionTimestamp"'
_RETRY = BackoffPolicy(first=0.05, limit=30.0, jitter=0.1)


class Upkeep:
    """`run` beside the server. A second one does no harm: each step is decided anew."""

    def __init__(self, store: Store, rules: Rules, clock: Clock) -> None:
        self._store = store
        self._rules = rules
        self._clock = clock
        self._queue = WorkQueue[Key]("upkeep", clock, _RETRY)

    async def run(self) -> None:
        """Until the store stops; what was left undone before a restart is found in the lists."""
        async with asyncio.TaskGroup() as group:
            working = group.create_task(self._queue.run(self._sync), name="upkeep work")
            watching = [
                group.create_task(self._follow(one), name=f"upkeep of {one.resource}")
                for one in self._rules.serving.all
            ]
            await asyncio.gather(*watching)
            working.cancel()

    async def _follow(self, served: Served) -> None:
        resource = str(served.resource)
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
        if key.namespace:
            self._queue.add(namespace_key(key.namespace))
        states = [one for one in (change.new, change.old) if one is not None]
        for found in await self._store.write(lambda transaction: self._near(transaction, states)):
            self._queue.add(found)

    def _near(self, transaction: Transaction, states: list[Stored]) -> list[Key]:
        return [key for one in states for key in near(transaction, self._rules, one)]

    async def _sync(self, key: Key) -> None:
        await self._store.write(lambda transaction: self._decide(transaction, key))

    def _decide(self, transaction: Transaction, key: Key) -> None:
        now = self._clock.now()
        while collect(transaction, self._rules, key, now):
            pass
        if key.resource == _NAMESPACES:
            empty_namespace(transaction, self._rules, key.name, now)
