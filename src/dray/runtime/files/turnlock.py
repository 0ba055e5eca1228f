"""A lock that is taken and given back all day: a turn opens no file and writes none."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Final

from dray.errors import ConflictError
from dray.runtime.files.filelock import FileLock

_TRIES: Final = 10


class TurnLock(FileLock):
    """As FileLock; its file stays open until `close`. The process id in it is that of who opened it last."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._is_taken = False

    def acquire(self) -> None:
        """Take the lock, or ConflictError at once. Does nothing when it is held already.

        A lock file that was removed or replaced meanwhile is taken anew.
        """
        if self._is_taken and self._is_held():
            return
        if self._take_again():
            self._is_taken = True
            self._note_taken()
            return
        self.close()
        for _ in range(_TRIES):
            self._descriptor = self._take()
            if self._is_held():
                self._sign()
                self._is_taken = True
                self._note_taken()
                return
            self.close()
        raise ConflictError(
            f"the lock file {str(self._path)!r} is being replaced again and again: who removes it?"
        )

    def release(self) -> None:
        """Give the lock back; safe to call twice."""
        if self._is_taken:
            self._is_taken = False
            self._note_taken(is_taken=False)
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give it back, and close the file; it may be taken again."""
        self._is_taken = False
        super().release()

    def _take_again(self) -> bool:
        """With the file that is open; False where there is none, or it is not the one that others would lock."""
        if self._descriptor < 0:
            return False
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConflictError(f"{str(self._path)!r} is locked by another process") from None
        return self._is_held()
