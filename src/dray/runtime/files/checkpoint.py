"""A checkpoint file: what a process must still know after it was killed."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from dray.errors import ConflictError, InvariantError, NotFoundError, UnavailableError
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.files.checkpoint_format import Format, Unreadable
from dray.runtime.files.durable import make_directory, open_directory, put_in_place, sync_directory
from dray.runtime.files.filelock import FileLock
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log

_log = get_log("runtime.checkpoint")

T = TypeVar("T")

KEPT: Final = 5
"""How many unusable files stay beside a checkpoint: who damages it again and again must not fill the disk."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class SetAside:
    """A file that could not be used and was renamed. `moved_to` is None where even that failed."""

    path: str
    reason: str
    moved_to: str | None
    error: str = ""

    def __str__(self) -> str:
        where = f"kept as {self.moved_to!r}" if self.moved_to else f"could not be moved away ({self.error})"
        return f"checkpoint {self.path!r} cannot be used: {self.reason}; {where}; starting without it"


@dataclass(frozen=True, slots=True)
class Loaded(Generic[T]):
    """What was on the disk: `data` is None on a first start and when the file was set aside (log `set_aside` then)."""

    data: T | None
    set_aside: SetAside | None = None


class Checkpoint(Generic[T]):
    """One state in one file, replaced as a whole. Entered = the directory is there and nobody else writes the file.

    Call `load()` once, then `save()` as often as needed. When `save()` returned, the state survives a kill and a power
    cut; when it raised, the file holds the state before or the new one, whole. Saving waits for the disk (some
    milliseconds): call it on the loop for small states, or through `asyncio.to_thread`. Threads are let in one by one.
    A forked child must not use it: it would share the lock, which is the file `<name>.lock` with our process id in it.
    """

    def __init__(self, path: Path, layout: Format[T], *, clock: Clock | None = None) -> None:
        self._path = path
        self._layout = layout
        self._clock = clock or SystemClock()
        self._lock = FileLock(path.with_name(f"{path.name}.lock"))
        self._turn = threading.Lock()
        self._loaded = self._left = False
        # Why the file on the disk must be moved away before it may be replaced.
        self._unusable: str | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def __enter__(self) -> Checkpoint[T]:
        self._left = False
        # On a full or read-only disk there may be no directory and no lock file yet. Reading goes on, and `save` asks again.
        with contextlib.suppress(UnavailableError):
            self._make_directory()
            self._lock.acquire()
        return self

    def __exit__(self, *exc_info: object) -> None:
        with self._turn:
            self._loaded, self._left = False, True
            self._lock.release()

    def open(self) -> Loaded[T]:
        """Enter and load in one. Who calls it leaves with `__exit__`; where it raises there is nothing to leave."""
        self.__enter__()
        try:
            return self.load()
        except BaseException:
            self.__exit__()
            raise

    def follow(self) -> Loaded[T]:
        """Enter and load behind a process that we replace, and that may still have the file.

        Until it has ended, nothing here is changed, an unusable file is as none, and `save` raises ConflictError.
        """
        try:
            return self.open()
        except ConflictError:
            return self._peek()

    def _peek(self) -> Loaded[T]:
        with self._turn, self._directory("load", "nothing was changed") as directory:
            self._loaded, self._unusable = True, None
            try:
                content = self._read(directory)
                return Loaded(None if content is None else self._layout.decode(content))
            except Unreadable:
                return Loaded(None)

    def load(self) -> Loaded[T]:
        """Read the file once after entering. What a killed writer left half written is removed.

        A file that cannot be used is set aside and told, not raised. Errors: DeniedError when it may not be read.
        """
        with self._turn, contextlib.ExitStack() as stack:
            try:
                directory = stack.enter_context(self._directory("load", "nothing was changed"))
            except NotFoundError:
                self._loaded, self._unusable = True, None
                return Loaded(None)
            with contextlib.suppress(OSError):
                os.unlink(self._temporary, dir_fd=directory)
            self._loaded, self._unusable = True, None
            try:
                content = self._read(directory)
                return Loaded(None if content is None else self._layout.decode(content))
            except Unreadable as unreadable:
                self._unusable = str(unreadable)
                return Loaded(None, self._set_aside(directory, str(unreadable)))

    def save(self, data: T) -> None:
        """Put `data` in the place of the old state; returns when it is durable.

        Errors: UnavailableError (full or read-only disk: try again later; the checkpoint was left while a thread waited to
        save), HardwareError (the disk fails), DeniedError, ConflictError (another process took the file), InvalidError (too large).
        """
        content = self._layout.encode(data)
        with self._turn:
            if self._left:
                raise UnavailableError(
                    f"cannot save {str(self._path)!r}: it is closed; the previous state is kept"
                )
            if not self._loaded:
                raise InvariantError(f"checkpoint {str(self._path)!r} is saved before it was loaded")
            # An operator may have cleared the directory: then it and the lock are made anew.
            self._make_directory()
            self._lock.acquire()
            with self._directory(f"save {len(content)} bytes to", "the previous state is kept") as directory:
                self._make_room(directory)
                put_in_place(directory, self._path.name, content, mode=0o600, temporary=self._temporary)
                self._make_durable(directory)

    @property
    def _temporary(self) -> str:
        # Always the same name, so that kills cannot leave a growing pile; the lock makes us its only user.
        return f".{self._path.name}.tmp"

    def _make_directory(self) -> None:
        try:
            make_directory(self._path.parent)
        except OSError as error:
            raise from_os_error(error, "make the directory", str(self._path.parent)) from error

    @contextlib.contextmanager
    def _directory(self, doing: str, after: str) -> Iterator[int]:
        """The file's directory; whatever the disk refuses inside the block becomes one of our errors."""
        try:
            with open_directory(self._path.parent) as directory:
                yield directory
        except OSError as error:
            raise from_os_error(error, doing, str(self._path), after=after) from error

    def _make_durable(self, directory: int) -> None:
        try:
            sync_directory(directory)
        except OSError as error:
            after = "the new state may not survive a power cut"
            raise from_os_error(error, "sync the directory of", str(self._path), after=after) from error

    def _make_room(self, directory: int) -> None:
        if self._unusable is not None:
            outcome = self._set_aside(directory, self._unusable)
            if outcome.moved_to is None:
                raise UnavailableError(f"cannot save over {self.path!s}: {outcome}")

    def _read(self, directory: int) -> bytes | None:
        try:
            descriptor = os.open(self._path.name, _READ, dir_fd=directory)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.EIO):
                raise Unreadable(f"it cannot be read: {os.strerror(error.errno)}") from error
            raise
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unreadable("it is not a regular file")
            return _read_up_to(descriptor, self._layout.max_size + 1)
        except OSError as error:
            raise Unreadable(f"it cannot be read: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def _set_aside(self, directory: int, reason: str) -> SetAside:
        """Rename the file to a name of its own; of those that were set aside before, the newest stay."""
        name, path = self._path.name, str(self._path)
        try:
            self._lock.acquire()
            before = _aside(directory, name)
            stamp = f"{self._clock.now():%Y%m%dT%H%M%SZ}"
            # Above all others of this second, never one that was removed: the numbers tell the order.
            number = max((one.number + 1 for one in before if one.stamp == stamp), default=0)
            moved = f"{name}.corrupt-{stamp}-{number}"
            os.rename(name, moved, src_dir_fd=directory, dst_dir_fd=directory)
        except (OSError, UnavailableError) as error:
            return SetAside(path, reason, None, getattr(error, "strerror", None) or str(error))
        self._unusable = None
        with contextlib.suppress(
            OSError
        ):  # after a power cut it may carry its old name again, and is set aside again
            sync_directory(directory)
        self._remove_old(directory, before)
        return SetAside(path, reason, str(self._path.with_name(moved)))

    def _remove_old(self, directory: int, before: list[_Aside]) -> None:
        """All but the newest of those before this one, whatever the clock said. What cannot be removed stays."""
        for one in before[: max(0, len(before) - (KEPT - 1))]:
            path = str(self._path.with_name(one.name))
            try:
                os.unlink(one.name, dir_fd=directory)
            except OSError as error:
                _log.warning("old unusable checkpoint cannot be removed", path=path, error=error.strerror)
            else:
                _log.warning("old unusable checkpoint removed", path=path, kept=KEPT)


@dataclass(frozen=True, slots=True, order=True)
class _Aside:
    """A file that was set aside, in the order of time."""

    stamp: str
    number: int
    name: str


def _aside(directory: int, name: str) -> list[_Aside]:
    """What was set aside for this checkpoint, oldest first. Other names are not ours."""
    is_one = re.compile(re.escape(name) + r"\.corrupt-([0-9]{8}T[0-9]{6}Z)-([0-9]{1,9})").fullmatch
    found = ((one, is_one(one)) for one in os.listdir(directory))
    return sorted(_Aside(match[1], int(match[2]), one) for one, match in found if match)


def _read_up_to(descriptor: int, limit: int) -> bytes:
    content = bytearray()
    while len(content) < limit and (part := os.read(descriptor, min(1 << 20, limit - len(content)))):
        content += part
    return bytes(content)
