"""The kernel's inotify as an object: watches on directories, and the events that came. Decides nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from dataclasses import dataclass

from dray.errors import Error, UnavailableError
from dray.runtime.files import syscalls
from dray.runtime.files.oserrors import from_os_error

_CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x8, 0x40, 0x80, 0x100, 0x200
_UNMOUNT, _Q_OVERFLOW, _IGNORED, _ONLYDIR = 0x2000, 0x4000, 0x8000, 0x01000000
_MASK = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLYDIR

_HEADER = struct.Struct("iIII")
_CHUNK = 64 * 1024
# The kernel queues 16384 events unless told otherwise, 272 bytes each at most: one drain can take all of them.
_CHUNKS_A_DRAIN = 80


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened to `name` in the directory of `watch`. After an overflow `watch` is -1: anything may have."""

    watch: int
    name: str
    mask: int

    @property
    def is_overflow(self) -> bool:
        """Events were lost."""
        return bool(self.mask & _Q_OVERFLOW)

    @property
    def is_end(self) -> bool:
        """The watch is over: its directory is gone, or its file system was unmounted."""
        return bool(self.mask & (_IGNORED | _UNMOUNT))

    @property
    def is_arrival(self) -> bool:
        """The name was created, moved in or written, so it may mean another file, or another content, than before."""
        return bool(self.mask & (_CREATE | _MOVED_TO | _CLOSE_WRITE))


class Inotify:
    """One inotify descriptor. UnavailableError, with the setting to raise, when the kernel has no more to give.

    With `writes` it also tells when a file that was open for writing is closed.
    """

    def __init__(self, *, writes: bool = False) -> None:
        self._mask = _MASK | (_CLOSE_WRITE if writes else 0)
        try:
            self._descriptor = syscalls.inotify_init()
        except OSError as error:
            raise _limit_error(error, "start watching files") from error
        self._watches: set[int] = set()

    def fileno(self) -> int:
        """Readable when events wait."""
        return self._descriptor

    def close(self) -> None:
        """End all watches."""
        os.close(self._descriptor)

    def watch_directory(self, dir_fd: int) -> int:
        """Watch the directory behind a descriptor (O_PATH will do); twice gives the same number."""
        path = f"/proc/self/fd/{dir_fd}"
        try:
            watch = syscalls.inotify_add_watch(self._descriptor, path, self._mask)
        except OSError as error:
            raise _limit_error(error, f"watch {_shown(path)!r}") from error
        self._watches.add(watch)
        return watch

    def keep_only(self, watches: set[int]) -> None:
        """End all other watches."""
        for watch in sorted(self._watches - watches):
            with contextlib.suppress(OSError):  # the kernel may have ended it first
                syscalls.inotify_rm_watch(self._descriptor, watch)
        self._watches &= watches

    def drain(self) -> list[Event]:
        """All events that wait now, without blocking."""
        events: list[Event] = []
        for _ in range(_CHUNKS_A_DRAIN):
            try:
                events += parse_events(os.read(self._descriptor, _CHUNK))
            except BlockingIOError:
                break
        return events


def parse_events(data: bytes) -> list[Event]:
    """The records of one read."""
    events, at = [], 0
    while at + _HEADER.size <= len(data):
        watch, mask, _, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        events.append(Event(watch, os.fsdecode(data[at : at + length].split(b"\0", 1)[0]), mask))
        at += length
    return events


def _shown(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115  (only for people)
    except OSError:
        return path


def _limit_error(error: OSError, doing: str) -> Error:
    if error.errno == errno.EMFILE:
        return UnavailableError(
            f"cannot {doing}: no inotify instance is left; raise fs.inotify.max_user_instances (or ulimit -n)"
        )
    if error.errno == errno.ENOSPC:
        return UnavailableError(
            f"cannot {doing}: no inotify watch is left; raise fs.inotify.max_user_watches"
        )
    verb, _, path = doing.partition(" ")
    return from_os_error(error, verb, path.strip("'"), after="polling needs no watch")
