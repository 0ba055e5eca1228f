"""One writer per file: a lock beside it that the kernel drops when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from dray.errors import ConflictError
from dray.runtime.files.oserrors import from_os_error

_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_taken: dict[int, tuple[int, int]] = {}
"""The files that this process holds, by descriptor: two in different containers may have the same process id."""


class FileLock:
    """An exclusive lock on `path`, a file of its own that holds nothing but the holder's process id.

    The file is never removed: between a removal and a new file two processes could both believe to hold it. A second
    lock in the same process conflicts too.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def acquire(self) -> None:
        """Take the lock, or ConflictError at once with the holder's process id. Does nothing when it is held already.

        A lock file that was removed or replaced meanwhile (somebody cleared the directory) is taken anew.
        """
        if self._is_held():
            return
        self.release()
        for _ in range(10):
            self._descriptor = self._take()
            if self._is_held():
                self._note_taken()
                self._sign()
                return
            self.release()
        raise ConflictError(
            f"the lock file {str(self._path)!r} is being replaced again and again: who removes it?"
        )

    def release(self) -> None:
        """Give the lock back; safe to call twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            _taken.pop(descriptor, None)
            os.close(descriptor)

    def _take(self) -> int:
        try:
            descriptor = os.open(self._path, _OPEN, 0o600)
        except OSError as error:
            raise from_os_error(error, "lock", str(self._path)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = self._holder(descriptor)
            os.close(descriptor)
            raise ConflictError(
                f"{str(self._path)!r} is locked by {holder}: stop it first, or use another directory"
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise from_os_error(error, "lock", str(self._path)) from error
        return descriptor

    def _is_held(self) -> bool:
        """True when our descriptor is still the file that others would lock."""
        if self._descriptor < 0:
            return False
        try:
            there = self._path.stat(follow_symlinks=False)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == _file(self._descriptor)

    def _note_taken(self, *, is_taken: bool = True) -> None:
        if is_taken:
            _taken[self._descriptor] = _file(self._descriptor)
        else:
            _taken.pop(self._descriptor, None)

    def _sign(self) -> None:
        # Only told to people; a full disk must not keep us from working.
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    @staticmethod
    def _holder(descriptor: int) -> str:
        if _file(descriptor) in list(_taken.values()):
            return "this process itself"
        try:
            text = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        except OSError:
            text = ""
        if not text.isdigit():
            return "another process"
        return f"process {text}" if _is_seen(int(text)) else f"process {text} of another container"


def _file(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _is_seen(pid: int) -> bool:
    """Whether another process has this number where we are."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return pid != os.getpid()
