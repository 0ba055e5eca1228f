"""A directory that stays open from one claim to the next: most of the time one look tells that it is still the same."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from dray.runtime.files.safepath import SafePath

Opener = Callable[[], AbstractContextManager[SafePath]]
"""Opens it, and makes it where it is missing. DeniedError where a link is in the way."""


class KeptDirectory:
    """Used from any thread, by one at a time: who comes meanwhile opens it for himself."""

    def __init__(self, path: Path, opener: Opener) -> None:
        self._path = str(path)
        self._opener = opener
        self._using = threading.Lock()
        self._stack = ExitStack()
        self._kept: SafePath | None = None

    def close(self) -> None:
        """Let go of it; it may be used again."""
        with self._using:
            self._drop()

    @contextmanager
    def opened(self) -> Iterator[SafePath]:
        """The directory that is at the path now. Errors are those of the opener."""
        if not self._using.acquire(blocking=False):
            with self._opener() as directory:
                yield directory
            return
        try:
            yield self._current()
        finally:
            self._using.release()

    def _current(self) -> SafePath:
        if self._kept is not None and self._is_same(self._kept):
            return self._kept
        self._drop()
        self._kept = self._stack.enter_context(self._opener())
        return self._kept

    def _is_same(self, kept: SafePath) -> bool:
        """An inode that is open is no other directory's, so its number tells."""
        with contextlib.suppress(OSError):
            return os.path.samestat(os.lstat(self._path), kept.stat())
        return False

    def _drop(self) -> None:
        self._kept = None
        self._stack.close()
