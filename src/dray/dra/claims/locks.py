"""Locks of devices, between processes and within one: who prepares or gives back a claim holds those of its devices.

A lock is a file in `<data_dir>/locks`, which the kernel unlocks when its holder dies. Files are never removed: between a
removal and a new file two processes could both believe to hold it. There are as many as there were devices.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from dray.dra.claims.directories import open_below
from dray.errors import UnavailableError
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.files.safefile import told
from dray.runtime.threads import Threads

DIRECTORY: Final = "locks"
LIMIT: Final = 10.0
"""Seconds that a claim waits for its devices."""

_OPEN: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PAUSES: Final = BackoffPolicy(first=0.01, factor=1.5, limit=0.25, jitter=0.2)
_DISK: Final = 10.0


class DeviceLocks:
    """Used from one loop. In this process who comes first goes first; another process is asked again and again.

    The files stay open until `close`, so that taking a lock needs no disk: only then it is done in the loop.
    """

    def __init__(self, data_dir: Path, threads: Threads, clock: Clock, limit: float = LIMIT) -> None:
        self._data_dir = data_dir
        self._threads = threads
        self._clock = clock
        self._limit = limit
        self._files: dict[str, int] = {}
        self._paths: dict[str, str] = {}
        self._taken: set[str] = set()
        self._freed = asyncio.Event()

    def close(self) -> None:
        """Give all back."""
        descriptors, self._files = self._files, {}
        _close(descriptors)

    @asynccontextmanager
    async def held(self, parts: Collection[str], owner: str) -> AsyncIterator[None]:
        """All of them, and `owner` (a claim) within this process, for the time of the block.

        UnavailableError after `limit` seconds. Nothing is kept while others are waited for, so two that want the same
        in any order never block each other.
        """
        names = frozenset((*parts, f"claim {owner}"))
        await self._enter(names)
        try:
            await self._lock(sorted(parts), owner)
            try:
                yield
            finally:
                self._unlock(parts)
        finally:
            self._taken -= names
            freed, self._freed = self._freed, asyncio.Event()
            freed.set()

    async def _enter(self, names: frozenset[str]) -> None:
        if self._taken & names:
            await self._wait_free(names)
        self._taken |= names

    async def _wait_free(self, names: frozenset[str]) -> None:
        try:
            async with asyncio.timeout(self._limit):
                while busy := self._taken & names:
                    await self._freed.wait()
        except TimeoutError as error:
            what = min(busy)
            raise UnavailableError(f"waited {self._limit:g} s for {what}: another claim is at it") from error

    async def _lock(self, parts: list[str], owner: str) -> None:
        until, pauses = self._clock.monotonic() + self._limit, Backoff(_PAUSES)
        while True:
            if missing := [part for part in parts if part not in self._files]:
                await self._open(missing, owner)
            busy = self._try(parts)
            if busy is None:
                return
            if busy in self._files and self._clock.monotonic() >= until:
                raise UnavailableError(
                    f"waited {self._limit:g} s: another process prepares or gives back {busy}"
                )
            await self._clock.sleep(pauses.next())

    def _try(self, parts: list[str]) -> str | None:
        """All of them or none, without waiting; one that cannot be had now. It is not open any more where it was removed."""
        for position, part in enumerate(parts):
            try:
                fcntl.flock(self._files[part], fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_there(part):
                    continue
                _close({part: self._files.pop(part)})
            except BlockingIOError:
                pass
            self._unlock(parts[:position])
            return part
        return None

    def _unlock(self, parts: Collection[str]) -> None:
        for part in parts:
            if part in self._files:
                fcntl.flock(self._files[part], fcntl.LOCK_UN)

    async def _open(self, parts: list[str], owner: str) -> None:
        doing = f"open the locks for claim {owner}"
        opened = await self._threads.run(
            partial(_open_all, self._data_dir, parts), doing=doing, seconds=_DISK, late=_close
        )
        self._files.update(opened)
        directory = self._data_dir / DIRECTORY
        self._paths.update((part, str(directory / lock_name(part))) for part in opened)

    def _is_there(self, part: str) -> bool:
        """Whether it is still the file that others would lock."""
        try:
            there = os.lstat(self._paths[part])
        except OSError:
            return False
        return os.path.samestat(there, os.fstat(self._files[part]))


def lock_name(part: str) -> str:
    """The lock file of a part: readable, and never that of another part."""
    plain = re.sub(r"[^A-Za-z0-9.:_-]+", "-", part).strip(".-")[:60]
    return f"{plain}-{hashlib.sha256(part.encode(errors='surrogatepass')).hexdigest()[:12]}.lock"


def _open_all(data_dir: Path, parts: Collection[str]) -> dict[str, int]:
    """In a thread. DeniedError where a link is in the way."""
    opened: dict[str, int] = {}
    try:
        with open_below(data_dir, DIRECTORY) as directory:
            for part in parts:
                name = lock_name(part)
                with told("lock", f"{directory.shown}/{name}"):
                    opened[part] = os.open(name, _OPEN, 0o600, dir_fd=directory.fileno())
    except BaseException:
        _close(opened)
        raise
    return opened


def _close(opened: Mapping[str, int]) -> None:
    for descriptor in opened.values():
        os.close(descriptor)
