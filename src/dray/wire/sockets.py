"""Unix sockets as files: made with the right mode before anyone can connect, replaced when stale, removed when ours."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from dray.errors import InvalidError, UnavailableError
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log
from dray.wire.socket_files import PATH_BYTES, RETRY_SECONDS, Folder, Identity, alone, opened, publish, sweep

_log = get_log("wire.sockets")


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end, as the kernel saw it when the connection was made."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """The credentials of the process that connected (or, on its side, of the one that listens)."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return Peer(*struct.unpack("3i", data))


class Listener:
    """A socket that listens under its name. Holds its directory open, so that a moved directory does no harm."""

    def __init__(self, path: Path, folder: Folder, made: tuple[socket.socket, Identity]) -> None:
        self.path = str(path)
        self.socket, identity = made
        self._name = path.name
        self._folder = folder
        self._identity: Identity | None = identity

    def unlink(self) -> None:
        """Remove the file if it is still ours. Done before the socket is closed: until then its inode is not reused."""
        identity, self._identity = self._identity, None
        try:
            if identity is not None and self._folder.identity(self._name) == identity:
                self._folder.unlink(self._name)
        except FileNotFoundError:
            pass
        except OSError as error:
            _log.warning("socket file left behind", path=self.path, error=str(error))


@asynccontextmanager
async def listening(
    path: Path, *, mode: int, directory_mode: int | None = None, staging: Path | None = None
) -> AsyncIterator[Listener]:
    """A listening socket at `path`, removed on the way out.

    It is bound to a hidden name, gets its mode, begins to listen and is then renamed: whoever sees the name can
    connect at once, and nobody could before. A watcher of the directory sees it as created. With `staging` the hidden
    name is in that directory: no other name than the socket's own ever appears beside it. Where nothing can be renamed
    from there to here, as between two mounts, it is bound to its own name at once.
    """
    path = checked(path)
    if directory_mode is not None:
        _make_parents(path.parent, directory_mode)
    async with AsyncExitStack() as stack:
        folder = _open(stack, path.parent, path)
        staged = folder if staging is None else _open(stack, staging, staging / path.name)
        if os.path.samestat(os.fstat(folder.descriptor), os.fstat(staged.descriptor)):
            staged = folder  # one lock, not two that wait for each other
        found = Listener(path, folder, await _published(folder, path.name, mode, staged))
        stack.enter_context(found.socket)
        try:
            yield found
        finally:
            found.unlink()


def _open(stack: AsyncExitStack, directory: Path, path: Path) -> Folder:
    try:
        return stack.enter_context(opened(directory))
    except OSError as error:
        raise from_os_error(error, "open the directory of socket", str(path)) from error


async def _published(folder: Folder, name: str, mode: int, staging: Folder) -> tuple[socket.socket, Identity]:
    async with AsyncExitStack() as stack:
        try:
            for one in dict.fromkeys((folder, staging)):
                if await stack.enter_async_context(alone(one)):
                    sweep(one)
            return publish(folder, name, mode, staging)
        except OSError as error:
            raise from_os_error(error, "listen on", str(folder.path / name)) from error


async def dial(path: Path) -> socket.socket:
    """A connected socket. UnavailableError where nobody listens, DeniedError without the right to connect.

    Waits for as long as the listener's queue is full; the caller sets the limit.
    """
    path = checked(path)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        while True:
            try:
                _connect(connection, path)
            except BlockingIOError:
                # A unix socket has no connection in progress: the queue is full, and select() would not tell.
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return connection
    except OSError as error:
        connection.close()
        raise _refused(error, path) from error
    except BaseException:
        connection.close()
        raise


def checked(path: Path) -> Path:
    """The path, if a socket can have it."""
    text = os.fsencode(path)
    if not path.name or b"\0" in text:
        raise InvalidError(
            f"{str(path)!r} is not a socket path: give a file name below a directory", field=str(path)
        )
    if len(os.fsencode(path.name)) > PATH_BYTES - len("/proc/self/fd/99999/"):
        raise InvalidError(
            f"the socket name {path.name!r} is too long for the kernel: shorten it", field=str(path)
        )
    return path


def _refused(error: OSError, path: Path) -> Exception:
    if error.errno == errno.ENOENT:
        return UnavailableError(f"no socket at {str(path)!r}: is its server running?")
    if error.errno == errno.ECONNREFUSED:
        return UnavailableError(f"nobody listens on {str(path)!r}: its server has ended")
    if error.errno == errno.EPROTOTYPE:
        return InvalidError(
            f"{str(path)!r} is a socket of another kind, not a stream socket", field=str(path)
        )
    return from_os_error(error, "connect to", str(path))


def _connect(connection: socket.socket, path: Path) -> None:
    if len(os.fsencode(path)) <= PATH_BYTES:
        connection.connect(str(path))
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)


def _make_parents(directory: Path, mode: int) -> None:
    """Make what is missing, with this mode whatever the umask; what exists keeps its own."""
    missing = []
    while not directory.exists():
        missing.append(directory)
        directory = directory.parent
    for folder in reversed(missing):
        try:
            folder.mkdir(mode=mode & 0o700)
            folder.chmod(mode)
        except FileExistsError:
            pass
        except OSError as error:
            raise from_os_error(error, "make the directory", str(folder)) from error
