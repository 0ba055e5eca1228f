"""A small value that outlives the process: what was good when it was last seen."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final, Generic, TypeVar

from dray.errors import InvalidError
from dray.runtime.files.checkpoint_format import Format, Unreadable
from dray.runtime.files.durable import make_directory, write_durably
from dray.runtime.logs import get_log

T = TypeVar("T")

_log = get_log("state")
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LastKnown(Generic[T]):
    """One file, replaced as a whole. It is a help and never a must: what cannot be read or written is told in the log.

    Several processes may share it, as in a rolling update: the last to save is the one that is read.
    """

    def __init__(self, path: Path, layout: Format[T]) -> None:
        self._path = path
        self._layout = layout
        self._saved: bytes | None = None
        self._trouble = ""

    def load(self) -> T | None:
        """What was saved; None where nothing was, or nothing that can be used."""
        try:
            content = self._read()
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.warning("not read, going on without it", path=self._path, error=error.strerror)
            return None
        try:
            value = self._layout.decode(content)
        except Unreadable as error:
            _log.warning("not usable, going on without it", path=self._path, error=error)
            return None
        self._saved = content
        return value

    def save(self, value: T) -> None:
        """On disk when it returns, unless the log says otherwise. The same again costs nothing."""
        try:
            content = self._layout.encode(value)
            if content != self._saved:
                self._write(content)
        except (OSError, InvalidError) as error:
            self._tell(str(error))
        else:
            self._saved, self._trouble = content, ""

    def _read(self) -> bytes:
        with contextlib.closing(os.fdopen(os.open(self._path, _READ), "rb")) as file:
            return file.read(self._layout.max_size + 1)

    def _write(self, content: bytes) -> None:
        make_directory(self._path.parent)
        write_durably(self._path, content)

    def _tell(self, trouble: str) -> None:
        """Once for as long as it is so."""
        if trouble != self._trouble:
            _log.warning("not saved: a restart will not know it", path=self._path, error=trouble)
        self._trouble = trouble
