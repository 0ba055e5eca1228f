"""One checkpoint file that two processes use at once: the old and the new one of a rolling update.

    async with SharedCheckpoint(path, Format(Holds), rescue, options) as checkpoint:
        await checkpoint.change(lambda holds: (holds.with_("gpu-0", "web"), None))

Every change reads what is on the disk, alters it and replaces the file, all under one lock. Changes that come while one
is under way are made together by the next: a hundred at once cost two or three writes. A change that need not survive
a power cut waits for no disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar, cast

from dray.errors import ConflictError, Error, InvariantError, UnavailableError
from dray.runtime.clock import Clock
from dray.runtime.files.checkpoint import Checkpoint, SetAside
from dray.runtime.files.checkpoint_format import Format
from dray.runtime.files.durable import make_directory
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.files.recent import Recent
from dray.runtime.files.turnlock import TurnLock
from dray.runtime.logs import get_log
from dray.runtime.threads import Threads

_log = get_log("runtime.checkpoint")

T = TypeVar("T")
R = TypeVar("R")

Change = Callable[[T], tuple[T, R]]
"""The next state and the caller's answer; the very same state back means that nothing is written.

Called once, in a thread, under the lock, so it may write files that belong to the state: before it is durable, after all
others see the lock. Only a Dray error is the caller's own; the write after it may fail too."""


@dataclass(frozen=True, slots=True)
class Lost(Generic[T]):
    """There is no usable file. `last` is what this process knew; `recent` what was written last without waiting for the disk,
    maybe before the file that is lost; `set_aside` that file. Each None where there is none.
    """

    last: T | None = None
    recent: T | None = None
    set_aside: SetAside | None = None


Rescue = Callable[[Lost[T]], T]
"""The state to go on with. In a thread, under the lock, so it may read files."""

_FIRST_PAUSE: Final = 0.002
_LONGEST_PAUSE: Final = 0.02


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """Seconds: how long another process may keep the lock, and how long the disk may take beyond that."""

    lock_limit: float = 10.0
    disk_limit: float = 30.0
    clock: Clock | None = None


@dataclass(slots=True)
class _Waiting(Generic[T]):
    """A change that was asked for, and what became of it: `result`, or `error`."""

    change: Change[T, Any]
    future: asyncio.Future[Any]
    is_durable: bool
    result: Any = None
    error: Error | None = None


class SharedCheckpoint(Generic[T]):
    """Entered = read once. Used from one loop; every wait is in a thread. Left = what was begun is on the disk.

    A damaged or foreign file is set aside and is no error: `rescue` says how to go on. The lock is the
    file `<name>.turn`, held only while the file is read and written; a killed process holds nothing.
    """

    def __init__(
        self,
        path: Path,
        layout: Format[T],
        rescue: Rescue[T],
        threads: Threads,
        options: SharedOptions | None = None,
    ) -> None:
        self._options = options or SharedOptions()
        self._path = path
        self._rescue = rescue
        self._threads = threads
        self._layout = _Remembering(layout)
        # The file format, the atomic write and the setting aside are Checkpoint's.
        self._turn = TurnLock(path.with_name(f"{path.name}.turn"))
        self._file = _File(path, cast("Format[T]", self._layout), self._turn, self._options.clock)
        self._recent = Recent(path, layout)
        self._waiting: list[_Waiting[T]] = []
        self._writer: asyncio.Task[None] | None = None
        self._latest: T | None = None

    async def __aenter__(self) -> Self:
        await self.read()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._writer is not None and not self._writer.done():
            await asyncio.wait({self._writer}, timeout=self._options.lock_limit + self._options.disk_limit)
        if self._writer is None or self._writer.done():
            self._turn.close()

    @property
    def latest(self) -> T:
        """What this process saw last, without a look: another one may have changed it since."""
        if self._latest is None:
            raise InvariantError(f"checkpoint {str(self._path)!r} is looked at before it was entered")
        return self._latest

    async def read(self) -> T:
        """What is on the disk now."""
        return await self.change(lambda state: (state, state))

    async def change(self, change: Change[T, R], *, durable: bool = True) -> R:
        """Make one change; its answer when the new state is durable. An error of the change itself changes nothing.

        Not `durable`: it survives the end of this process at once, and a power cut only when a later change is durable.
        Errors: UnavailableError (the lock was not to be had in time, a full disk), and those of `Checkpoint.save`. The
        file holds the state before or the new one then. A caller that is cancelled does not know which.
        """
        loop = asyncio.get_running_loop()
        asked = _Waiting[T](change, loop.create_future(), durable)
        self._waiting.append(asked)
        if self._writer is None or self._writer.done():
            self._writer = loop.create_task(self._write_all(), name=f"checkpoint {self._path.name}")
        return cast("R", await asked.future)

    async def _write_all(self) -> None:
        while self._waiting:
            batch, self._waiting = [one for one in self._waiting if not one.future.cancelled()], []
            try:
                self._latest = await self._threads.run(
                    partial(self._take_turn, batch),
                    doing=f"change {str(self._path)!r}",
                    seconds=self._options.lock_limit + self._options.disk_limit,
                    alone_on=(f"checkpoint {self._path}",),
                )
            except Error as error:
                _fail_all(batch, error)
            except BaseException as error:
                _fail_all(batch, error)
                raise
            else:
                for one in batch:
                    _answer(one)

    def _take_turn(self, batch: list[_Waiting[T]]) -> T:
        """In a thread: lock, read, change, write. The state as it is on the disk then."""
        self._lock()
        try:
            if self._latest is None:
                self._recent.tidy()
            with self._file as file:
                loaded = file.load()
                if loaded.set_aside is not None:
                    _log.error("checkpoint set aside", error=str(loaded.set_aside))
                before = loaded.data
                if before is not None and (recent := self._recent.read()) is not None:
                    before = recent
                state = self._rescued(loaded.set_aside) if before is None else before
                must = before is None
                for one in batch:
                    after = _apply(one, state)
                    must = must or (after is not state and one.is_durable)
                    state = after
                self._save(file, state, must=must, is_new=state is not before)
                return state
        finally:
            self._turn.release()

    def _rescued(self, set_aside: SetAside | None) -> T:
        return self._rescue(Lost(self._latest, self._recent.salvage(), set_aside))

    def _save(self, file: Checkpoint[T], state: T, *, must: bool, is_new: bool) -> None:
        if must:
            file.save(state)
            self._recent.remove()
        elif is_new:
            self._recent.write(state)

    def _lock(self) -> None:
        try:
            make_directory(self._path.parent)
        except OSError as error:
            raise from_os_error(error, "make the directory", str(self._path.parent)) from error
        until, pause = time.monotonic() + self._options.lock_limit, _FIRST_PAUSE
        while True:
            try:
                self._turn.acquire()
                return
            except ConflictError as conflict:
                if time.monotonic() >= until:
                    text = f"waited {self._options.lock_limit:g} s for {str(self._path)!r}: {conflict}"
                    raise UnavailableError(text) from conflict
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)


class _File(Checkpoint[T]):
    """Locked by the turn that its user has anyway."""

    def __init__(self, path: Path, layout: Format[T], turn: TurnLock, clock: Clock | None) -> None:
        super().__init__(path, layout, clock=clock)
        self._lock = turn


class _Remembering(Generic[T]):
    """Stands for a Format: what this process read or wrote last is not decoded again. The states are frozen values."""

    def __init__(self, layout: Format[T]) -> None:
        self._layout = layout
        self.max_size = layout.max_size
        self._known: tuple[bytes, T] | None = None

    def encode(self, data: T) -> bytes:
        content = self._layout.encode(data)
        self._known = (content, data)
        return content

    def decode(self, content: bytes) -> T:
        if self._known is None or self._known[0] != content:
            self._known = (content, self._layout.decode(content))
        return self._known[1]


def _apply(one: _Waiting[T], state: T) -> T:
    try:
        state, one.result = one.change(state)
    except Error as error:  # its caller gets it, in the loop
        one.error = error
    return state


def _answer(one: _Waiting[T]) -> None:
    if one.future.done():
        return
    if one.error is not None:
        one.future.set_exception(one.error)
    else:
        one.future.set_result(one.result)


def _fail_all(batch: list[_Waiting[T]], error: BaseException) -> None:
    for one in batch:
        if isinstance(error, asyncio.CancelledError):
            one.future.cancel()
        elif not one.future.done():
            one.future.set_exception(error)
