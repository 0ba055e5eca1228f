"""Which object was being handled when the process ended, so that one that ends it again and again is set aside.

A handler that fails is nothing for this room: its object comes again after a pause. This is about handlers that never came
back: the process crashed, met a bug of ours, was killed by the kernel for its memory, or hung until somebody killed it.
Whoever is handled is noted in a mapped file, which outlives the process and costs no call to the kernel. The next process
counts a death for each object that it finds there; after `DEATHS` of them the object is left alone for a day, or until
another version of Dray runs, and everything else goes on.
"""

from __future__ import annotations

import asyncio
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

import dray
from dray.errors import Error, InvariantError
from dray.runtime.clock import Clock
from dray.runtime.files.checkpoint import Checkpoint
from dray.runtime.files.checkpoint_format import Format
from dray.runtime.files.durable import make_directory
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log

_log = get_log("runtime.quarantine")

DEATHS: Final = 3
REST: Final = timedelta(days=1)
"""After its last death; then it is tried again."""
_SLOTS: Final = 64
_SLOT: Final = 512
_KEPT: Final = 1000
"""Objects whose deaths are remembered, those of the newest ones."""


class Deaths(msgspec.Struct, frozen=True):
    """Of one object: how often the process ended while it was handled, and when it did last."""

    count: int
    last: datetime
    version: str


class _Content(msgspec.Struct, frozen=True):
    deaths: dict[str, Deaths]


class Quarantine:
    """For one process and its event loop. Keys name objects: `pods/default/a/UID`.

    Entered: the deaths of the process before are counted. Without a `directory` nothing is noted; where the disk takes
    nothing, or another process uses the directory, neither, and that is logged.
    """

    def __init__(self, directory: Path | None, clock: Clock, *, version: str = dray.__version__) -> None:
        self._directory = directory
        self._clock = clock
        self._version = version
        self._file: Checkpoint[_Content] | None = None
        self._deaths: dict[str, Deaths] = {}
        self._slots: mmap.mmap | None = None
        self._free: list[int] = []

    def __enter__(self) -> Quarantine:
        if self._directory is None:
            return self
        file = Checkpoint(self._directory / "deaths.json", Format(_Content), clock=self._clock)
        try:
            loaded = file.open()
            self._file = file
            if loaded.set_aside is not None:
                _log.warning(str(loaded.set_aside))
            self._slots = _mapped(self._directory / "handled")
            self._count(loaded.data.deaths if loaded.data is not None else {})
        except InvariantError:
            raise
        except Error as error:
            _log.warning("objects that end the process are not noted", error=str(error))
        self._free = list(range(_SLOTS))
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._slots is not None:
            self._slots.close()
            self._slots = None
        if self._file is not None:
            self._file.__exit__()

    @property
    def set_aside(self) -> Mapping[str, Deaths]:
        """The objects that are left alone."""
        now = self._clock.now()
        return {key: one for key, one in sorted(self._deaths.items()) if _is_aside(one, now)}

    def why(self, key: str) -> str:
        """Why the object is left alone, for its condition and Event; "" where it is not."""
        one = self._deaths.get(_short(key))
        if one is None or not _is_aside(one, self._clock.now()):
            return ""
        return (
            f"set aside until {one.last + REST:%Y-%m-%d %H:%M} UTC: Dray ended {one.count} times while it handled this object. "
            "Report it with `dray doctor --bundle`; to have it tried at once, delete it and create it again"
        )

    @contextmanager
    def handling(self, key: str) -> Iterator[None]:
        """Around all that is done for the object. What leaves it by a bug of ours stays noted: the process ends."""
        slot = self._note(key)
        try:
            yield
        except InvariantError:
            raise
        except (Error, asyncio.CancelledError):
            self._clear(slot)
            raise
        self._clear(slot)

    def _note(self, key: str) -> int:
        if self._slots is None or not self._free:
            return -1
        slot = self._free.pop()
        text = _short(key).encode()
        start = slot * _SLOT
        # The length last: who is killed in between leaves no half a name.
        self._slots[start + 2 : start + 2 + len(text)] = text
        self._slots[start : start + 2] = len(text).to_bytes(2, "big")
        return slot

    def _clear(self, slot: int) -> None:
        if slot < 0 or self._slots is None:
            return
        self._slots[slot * _SLOT : slot * _SLOT + 2] = b"\0\0"
        self._free.append(slot)

    def _count(self, before: Mapping[str, Deaths]) -> None:
        now = self._clock.now()
        known = {
            key: one for key, one in before.items() if one.version == self._version and now - one.last < REST
        }
        handled = self._handled()
        for key in handled:
            count = known[key].count + 1 if key in known else 1
            known[key] = Deaths(count, now, self._version)
            _log.warning("the process ended while it handled an object", object=key, deaths=count)
        newest = sorted(known.items(), key=lambda item: item[1].last)[-_KEPT:]
        self._deaths = dict(newest)
        if self._deaths != before and self._file is not None:
            self._file.save(_Content(self._deaths))
        # Not before they are counted on the disk: who is killed here counts once more, which is better than not at all.
        if handled and self._slots is not None:
            for slot in range(_SLOTS):
                self._slots[slot * _SLOT : slot * _SLOT + 2] = b"\0\0"

    def _handled(self) -> list[str]:
        assert self._slots is not None
        found = set()
        for start in range(0, _SLOTS * _SLOT, _SLOT):
            length = int.from_bytes(self._slots[start : start + 2], "big")
            if 0 < length <= _SLOT - 2:
                found.add(self._slots[start + 2 : start + 2 + length].decode(errors="ignore"))
        return sorted(found)


def _short(key: str) -> str:
    """As much of it as a slot holds."""
    return key if len(key) < _SLOT // 4 else key.encode()[: _SLOT - 2].decode(errors="ignore")


def _is_aside(one: Deaths, now: datetime) -> bool:
    return one.count >= DEATHS and now - one.last < REST


def _mapped(path: Path) -> mmap.mmap:
    """The file as memory. A new one, or one of another size, is all zeros."""
    try:
        make_directory(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, _SLOTS * _SLOT)
            return mmap.mmap(descriptor, _SLOTS * _SLOT)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise from_os_error(error, "map", str(path)) from error
