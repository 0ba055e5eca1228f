"""The names of unix sockets in a directory: taken by one process at a time, never seen half made, cleaned after kills."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import secrets
import socket
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.errors import ConflictError, InvalidError
from dray.runtime.logs import get_log

_log = get_log("wire.sockets")

PATH_BYTES: Final = 107
"""What fits into the kernel's socket address. Longer paths go through a descriptor of their directory."""
BACKLOG: Final = 128
LOCK_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 0.01
SECOND_LOOK_SECONDS: Final = 0.1
# A leading dot: nobody takes it for a plugin.
_TEMPORARY: Final = ".dray-socket-"

Identity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Folder:
    """An open directory: what is done through it stays in it, wherever it is moved."""

    path: Path
    descriptor: int

    def through(self, name: str) -> str:
        """A short path to one of its files."""
        return f"/proc/self/fd/{self.descriptor}/{name}"

    def names(self) -> list[str]:
        """All that is in it, sorted."""
        descriptor: int = self.descriptor
        return sorted(os.listdir(descriptor))

    def look(self, name: str) -> os.stat_result:
        """At the file itself, not at what it points to."""
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)

    def identity(self, name: str) -> Identity:
        """What another file of the same name would not have."""
        found = self.look(name)
        return found.st_dev, found.st_ino

    def unlink(self, name: str) -> None:
        """Remove the name."""
        os.unlink(name, dir_fd=self.descriptor)


@contextmanager
def opened(path: Path) -> Iterator[Folder]:
    """The directory, for the time of the block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield Folder(path, descriptor)
    finally:
        os.close(descriptor)


@asynccontextmanager
async def alone(folder: Folder) -> AsyncIterator[bool]:
    """One Dray process at a time looks at the names and takes one. Whoever can read the directory can hold this lock,
    so after a while it goes without: then two that start at once may both believe to have the name."""
    is_alone = False
    for _ in range(int(LOCK_SECONDS / RETRY_SECONDS)):
        try:
            fcntl.flock(folder.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_alone = True
            break
        except BlockingIOError:
            await asyncio.sleep(RETRY_SECONDS)
        except OSError:
            break
    else:
        _log.warning("directory is locked by somebody, going on without", path=folder.path)
    try:
        yield is_alone
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(folder.descriptor, fcntl.LOCK_UN)


def publish(folder: Folder, name: str, mode: int, staging: Folder) -> tuple[socket.socket, Identity]:
    """A socket that listens under its name. Made in `staging` and moved, so that nobody sees it half made.

    Where nothing can be moved from there to here it is made in its place: between two system calls the name is there
    and connections are refused. Watchers that are told of the name come later than that.
    """
    _find_dead(folder, name)
    try:
        return _made_and_moved(folder, name, mode, staging)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    return _made_in_place(folder, name, mode)


def _made_and_moved(folder: Folder, name: str, mode: int, staging: Folder) -> tuple[socket.socket, Identity]:
    temporary = _TEMPORARY + secrets.token_hex(4)
    with _bound(staging, temporary, mode) as listener:
        # Until it listens nobody can connect, so its first mode, left to the umask, opens nothing.
        _set_mode(staging, temporary, mode)
        listener.listen(BACKLOG)
        identity = staging.identity(temporary)
        os.rename(temporary, name, src_dir_fd=staging.descriptor, dst_dir_fd=folder.descriptor)
    return listener, identity


def _made_in_place(folder: Folder, name: str, mode: int) -> tuple[socket.socket, Identity]:
    with contextlib.suppress(FileNotFoundError):
        folder.unlink(name)
    with _bound(folder, name, mode) as listener:
        listener.listen(BACKLOG)
        _set_mode(folder, name, mode)
        identity = folder.identity(name)
    return listener, identity


@contextmanager
def _bound(folder: Folder, name: str, mode: int) -> Iterator[socket.socket]:
    """Where the block fails, the socket and its name are gone."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        # The file gets the descriptor's mode less the umask: never more than was asked for.
        os.fchmod(listener.fileno(), mode)
        # The plain path where it fits: it is what `ss` and `lsof` show.
        plain = str(folder.path / name)
        listener.bind(plain if len(os.fsencode(plain)) <= PATH_BYTES else folder.through(name))
        try:
            yield listener
        except BaseException:
            with contextlib.suppress(OSError):
                folder.unlink(name)
            raise
    except BaseException:
        listener.close()
        raise


def _set_mode(folder: Folder, name: str, mode: int) -> None:
    """On the socket itself: whoever may write here could have put a symbolic link in its place."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder.descriptor)
    try:
        Path(f"/proc/self/fd/{handle}").chmod(mode)
    finally:
        os.close(handle)


def _find_dead(folder: Folder, name: str) -> Identity | None:
    """None if the name is free, the identity of a socket that nobody listens on; everything else is an error."""
    path = str(folder.path / name)
    try:
        found = folder.look(name)
    except FileNotFoundError:
        return None
    if not stat.S_ISSOCK(found.st_mode):
        raise InvalidError(f"{path!r} exists and is no socket: remove it or choose another path", field=path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(folder.through(name))
        except (ConnectionRefusedError, FileNotFoundError):
            return found.st_dev, found.st_ino
        except OSError as error:
            reason = "" if isinstance(error, BlockingIOError) else f" ({error.strerror})"
            raise ConflictError(f"{path!r} is in use by another server{reason}: stop it first") from error
    raise ConflictError(f"{path!r} is in use by another server: stop it first")


def sweep(folder: Folder) -> None:
    """Remove what a killed process left between bind and rename. For who is `alone` here."""
    for name in folder.names():
        if name.startswith(_TEMPORARY):
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(folder.look(name).st_mode):
                    folder.unlink(name)


async def remove_dead(directory: Path, is_ours: Callable[[str], bool]) -> None:
    """Remove sockets of these names that killed processes left. What lives, or cannot be looked at, stays."""
    with contextlib.suppress(OSError), opened(directory) as folder:
        async with alone(folder) as is_alone:
            if not is_alone or not (first := _dead(folder, is_ours)):
                return
            # A server that does not take turns with us may be between bind and listen: at the next look it listens.
            await asyncio.sleep(SECOND_LOOK_SECONDS)
            for name, _ in sorted(first & _dead(folder, is_ours)):
                folder.unlink(name)
                _log.info("removed a socket that a kill left behind", path=directory / name)


def _dead(folder: Folder, is_ours: Callable[[str], bool]) -> set[tuple[str, Identity]]:
    found = set()
    for name in filter(is_ours, folder.names()):
        with contextlib.suppress(ConflictError, InvalidError, OSError):
            if (identity := _find_dead(folder, name)) is not None:
                found.add((name, identity))
    return found
