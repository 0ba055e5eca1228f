"""The newest state of a checkpoint beside its file, for what must survive a kill and need not survive a power cut.

Such a write waits for no disk. It counts only while the file it is based on is the one there: after the next durable
write of that file there is no recent state. Where that file is damaged it may be all that is left.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final, Generic, TypeVar

from dray.runtime.files.checkpoint_format import Format, Unreadable
from dray.runtime.files.durable import put_in_place
from dray.runtime.files.oserrors import from_os_error

T = TypeVar("T")

_CHUNK: Final = 1 << 20
_FIRST_LINE: Final = 100
"""Bytes that it has at most."""
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Recent(Generic[T]):
    """The file `<name>.recent`. Whoever calls holds the checkpoint's lock, and has loaded it."""

    def __init__(self, path: Path, layout: Format[T]) -> None:
        self._main = path
        self._path = path.with_name(f"{path.name}.recent")
        self._temporary = path.with_name(f".{path.name}.recent.tmp")
        self._layout = layout
        self._is_there = True
        self._known: tuple[bytes, T] | None = None

    def read(self) -> T | None:
        """The state, if there is one that is newer than the checkpoint."""
        try:
            content, wanted = _content(self._path, self._layout.max_size + _FIRST_LINE), self._base()
        except OSError:  # none, or nothing that we wrote
            return None
        self._is_there = True
        base, _, rest = content.partition(b"\n")
        return self._decode(rest) if base == wanted else None

    def salvage(self) -> T | None:
        """The state that is there, whatever it is based on: for where the checkpoint is lost."""
        try:
            content = _content(self._path, self._layout.max_size + _FIRST_LINE)
        except OSError:
            return None
        return self._decode(content.partition(b"\n")[2])

    def tidy(self) -> None:
        """Remove what a killed process was about to write."""
        with contextlib.suppress(OSError):
            self._temporary.unlink()

    def write(self, data: T) -> None:
        """Put it in the place of the one before, at once or not at all. Errors are those of `Checkpoint.save`."""
        content = self._layout.encode(data)
        self._is_there = True
        try:
            put_in_place(
                None,
                str(self._path),
                b"%s\n%s" % (self._base(), content),
                mode=0o600,
                temporary=str(self._temporary),
                is_synced=False,
            )
        except OSError as error:
            self._known = None
            raise from_os_error(
                error, "write", str(self._path), after="the previous state is kept"
            ) from error
        self._known = (content, data)

    def remove(self) -> None:
        """Call after each durable write; what cannot be removed does not count either."""
        if self._is_there:
            for path in (self._path, self._temporary):
                with contextlib.suppress(OSError):
                    path.unlink()
            self._is_there, self._known = False, None

    def _decode(self, content: bytes) -> T | None:
        if self._known is None or self._known[0] != content:
            try:
                self._known = (content, self._layout.decode(content))
            except Unreadable:  # after a power cut
                return None
        return self._known[1]

    def _base(self) -> bytes:
        """The checkpoint as it is: each write of it makes another file."""
        found = os.lstat(self._main)
        return b"%d %d %d" % (found.st_ino, found.st_mtime_ns, found.st_size)


def _content(path: Path, limit: int) -> bytes:
    descriptor = os.open(path, _READ)
    try:
        content = bytearray()
        while len(content) <= limit and (part := os.read(descriptor, _CHUNK)):
            content += part
        return bytes(content)
    finally:
        os.close(descriptor)
