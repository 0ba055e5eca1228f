"""Unix sockets as files: made with the right mode before anyone can connect, replaced when stale, removed when ours."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import secrets
import socket
import stat
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dray.errors import ConflictError, InvalidError, UnavailableError
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log

_log = get_log("wire.sockets")

PATH_BYTES = 107
"""What fits into the kernel's socket address. Longer paths go through a descriptor of their directory."""
BACKLOG = 128
LOCK_SECONDS = 1.0
RETRY_SECONDS = 0.01
# A leading dot: the kubelet's plugin watcher does not look at such names.
_TEMPORARY = ".dray-socket-"


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

    def __init__(
        self, path: Path, directory: int, listening: socket.socket, identity: tuple[int, int]
    ) -> None:
        self.path = str(path)
        self.socket = listening
        self._name = path.name
        self._directory = directory
        self._identity: tuple[int, int] | None = identity

    def unlink(self) -> None:
        """Remove the file if it is still ours. Done before the socket is closed: until then its inode is not reused."""
        identity, self._identity = self._identity, None
        if identity is None:
            return
        try:
            if _identity(os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)) == identity:
                os.unlink(self._name, dir_fd=self._directory)
        except FileNotFoundError:
            pass
        except OSError as error:
            _log.warning("socket file left behind", path=self.path, error=str(error))


@asynccontextmanager
async def listening(path: Path, *, mode: int, directory_mode: int | None = None) -> AsyncIterator[Listener]:
    """A listening socket at `path`, removed on the way out.

    It is bound to a hidden name, gets its mode, begins to listen and is then renamed: whoever sees the name can
    connect at once, and nobody could before. A watcher of the directory sees it as created.
    """
    path = checked(path)
    if directory_mode is not None:
        _make_parents(path.parent, directory_mode)
    with _directory(path) as directory, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.setblocking(False)
        async with _alone(directory, path) as alone:
            try:
                if alone:
                    _sweep(directory)
                identity = _publish(listener, directory, path, mode)
            except OSError as error:
                raise from_os_error(error, "listen on", str(path)) from error
        found = Listener(path, directory, listener, identity)
        try:
            yield found
        finally:
            found.unlink()


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
        connection.connect(_through(directory, path.name))
    finally:
        os.close(directory)


def _through(directory: int, name: str) -> str:
    return f"/proc/self/fd/{directory}/{name}"


@contextmanager
def _directory(path: Path) -> Iterator[int]:
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise from_os_error(error, "open the directory of socket", str(path)) from error
    try:
        yield directory
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


@asynccontextmanager
async def _alone(directory: int, path: Path) -> AsyncIterator[bool]:
    """One Dray process at a time looks at the name and takes it. Whoever can read the directory can hold this lock,
    so after a while it goes without: then two that start at once may both believe to have the name."""
    alone = False
    for _ in range(int(LOCK_SECONDS / RETRY_SECONDS)):
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
            break
        except BlockingIOError:
            await asyncio.sleep(RETRY_SECONDS)
        except OSError:
            break
    else:
        _log.warning("directory is locked by somebody, going on without", path=path.parent)
    try:
        yield alone
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(directory, fcntl.LOCK_UN)


def _publish(listener: socket.socket, directory: int, path: Path, mode: int) -> tuple[int, int]:
    _check_free(directory, path)
    temporary = _TEMPORARY + secrets.token_hex(4)
    # The plain path where it fits: it is what `ss` and `lsof` show.
    plain = str(path.with_name(temporary))
    listener.bind(plain if len(os.fsencode(plain)) <= PATH_BYTES else _through(directory, temporary))
    try:
        # Until it listens nobody can connect, so its first mode, left to the umask, opens nothing.
        _set_mode(directory, temporary, mode)
        listener.listen(BACKLOG)
        made = os.stat(temporary, dir_fd=directory, follow_symlinks=False)
        os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
    return _identity(made)


def _set_mode(directory: int, name: str, mode: int) -> None:
    """On the socket itself: whoever may write here could have put a symbolic link in its place."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        Path(f"/proc/self/fd/{handle}").chmod(mode)
    finally:
        os.close(handle)


def _check_free(directory: int, path: Path) -> None:
    """Return if the name is free or held by a socket that nobody listens on."""
    try:
        found = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise InvalidError(
            f"{str(path)!r} exists and is no socket: remove it or choose another path", field=str(path)
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(_through(directory, path.name))
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except OSError as error:
            reason = "" if isinstance(error, BlockingIOError) else f" ({error.strerror})"
            raise ConflictError(
                f"{str(path)!r} is in use by another server{reason}: stop it first"
            ) from error
    raise ConflictError(f"{str(path)!r} is in use by another server: stop it first")


def _sweep(directory: int) -> None:
    """Remove what a killed process left between bind and rename."""
    for name in os.listdir(directory):
        if name.startswith(_TEMPORARY):
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                    os.unlink(name, dir_fd=directory)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
