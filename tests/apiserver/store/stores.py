"""What the tests of the store share: objects of few words, and a gate between the store and the disk."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dray.api.codec import loads
from dray.apiserver.store.contract import Bookmark, Change, Key, Stored, Transaction
from dray.apiserver.store.sqlite import SqliteStore, StoreConfig, open_store
from dray.runtime.clock import FakeClock

MEMORY = Path("/dev/shm")


def key(name: str, namespace: str = "ns", resource: str = "pods") -> Key:
    return Key(resource, namespace, name)


def document(place: Key, value: object = 0) -> dict[str, Any]:
    return {"metadata": {"name": place.name, "namespace": place.namespace}, "value": value}


def put(place: Key, value: object = 0) -> Callable[[Transaction], Stored]:
    return lambda transaction: transaction.put(place, "uid", document(place, value))


def delete(place: Key) -> Callable[[Transaction], Stored]:
    return lambda transaction: transaction.delete(place)


def value_of(stored: Stored | None) -> Any:
    """The value, after a look whether the document has the revision it is stored under."""
    if stored is None:
        return None
    raw = loads(stored.raw)
    assert raw["metadata"]["resourceVersion"] == str(stored.revision)
    return raw["value"]


async def until_bookmark(
    watch: AsyncIterator[Change | Bookmark], clock: FakeClock
) -> tuple[list[Change], Bookmark]:
    """All changes that a watcher has to get, which are followed by a bookmark."""
    await clock.advance(60)
    changes: list[Change] = []
    async for item in watch:
        if isinstance(item, Bookmark):
            return changes, item
        changes.append(item)
    raise AssertionError("the watch ended")


def memory_directory() -> tempfile.TemporaryDirectory[str]:
    """For tests that commit often and are not about the disk."""
    return tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None)


class Gate:
    """Stands before every COMMIT: counts it, holds it, or makes it fail before or after it was done.

    `levels` are what SQLite itself says about `synchronous` and the journal at each of them.
    """

    def __init__(self) -> None:
        self.is_on = False  # the commit that makes the tables is let through
        self.commits = 0
        self.levels: set[tuple[object, object]] = set()
        self.fail_before = ""
        self.fail_after = ""
        self.fail_once_after = ""
        self.has_bug = False
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.opened.set()

    def hold(self) -> None:
        self.reached.clear()
        self.opened.clear()

    def release(self) -> None:
        self.opened.set()

    def connect(self, path: str) -> sqlite3.Connection:
        gate = self

        class Gated(sqlite3.Connection):
            def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
                if sql == "COMMIT" and gate.is_on:
                    return gate.commit(super().execute)
                return super().execute(sql, *values)

        return sqlite3.connect(path, timeout=0, isolation_level=None, factory=Gated)

    def commit(self, execute: Callable[[str], sqlite3.Cursor]) -> sqlite3.Cursor:
        self.commits += 1
        level = execute("PRAGMA synchronous").fetchone()[0]
        self.levels.add((level, execute("PRAGMA journal_mode").fetchone()[0]))
        self.reached.set()
        assert self.opened.wait(60)
        if self.has_bug:
            raise ZeroDivisionError("a bug")
        _raise(self.fail_before)
        done = execute("COMMIT")
        once, self.fail_once_after = self.fail_once_after, ""
        _raise(self.fail_after or once)
        return done


def _raise(name: str) -> None:
    if name:
        error = sqlite3.OperationalError("injected")
        error.sqlite_errorname = name
        raise error


@asynccontextmanager
async def store_at(
    path: Path, clock: FakeClock | None = None, gate: Gate | None = None, **config: Any
) -> AsyncIterator[SqliteStore]:
    gate = gate or Gate()
    settings = StoreConfig(**config)
    async with open_store(path, config=settings, clock=clock or FakeClock(), connect=gate.connect) as store:
        gate.is_on = True
        yield store
