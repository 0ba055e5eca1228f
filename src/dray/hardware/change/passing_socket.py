"""Sockets that Dray makes on the host for one container each, to hand it a descriptor. The host's only files of ours.

They are no `HostChange`: such a socket lives as long as the process that listens, and goes with it.
"""

from __future__ import annotations

import contextlib
import fnmatch
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from dray.errors import ConflictError, Error, NotFoundError
from dray.hardware.change.access import Access
from dray.runtime.files.safefile import closed_on_error
from dray.runtime.files.safepath import Root, SafePath
from dray.runtime.logs import get_log

_log = get_log("hardware.change")

DIRECTORY_MODE = 0o755
SOCKET_MODE = 0o666
"""Whoever the container runs as may connect: who sees the socket is decided by the mount."""
_UNFINISHED = ".dray-*.tmp"


class PassingSocket:
    """Listens at `path` of the host; `listener` does not block. `close` ends it, and is safe to call twice."""

    def __init__(self, root: Path, directory: str, name: str) -> None:
        """Make it, with its directory. Errors: DeniedError (a link in the way, or no right), ConflictError (name taken)."""
        self.path = f"{directory}/{name}"
        self._root, self._directory, self._name = root, directory, name
        self._identity: tuple[int, int] | None = None
        _make_directory(root, directory)
        with _opened(root, directory) as place:
            self.listener = place.listen(name, SOCKET_MODE, backlog=1)
            self.listener.setblocking(False)
            with closed_on_error(self.listener), place.child(name) as made:
                self._identity = _identity(made)

    def close(self) -> None:
        """Remove the file, if it is still this socket's, and listen no more. What fails is logged."""
        identity, self._identity = self._identity, None
        try:
            if identity is not None:
                self._remove(identity)
        finally:
            self.listener.close()

    def _remove(self, identity: tuple[int, int]) -> None:
        try:
            with _opened(self._root, self._directory) as place:
                with place.child(self._name) as found:
                    ours = _identity(found) == identity
                if ours:
                    place.remove(self._name)
        except NotFoundError:
            pass
        except Error as error:
            _log.warning("socket left behind", path=self.path, error=str(error))


def remove_dead_sockets(root: Path, directory: str, pattern: str) -> list[str]:
    """Remove the sockets in `directory` that nobody holds any more, with names like `pattern`; returns their paths.

    For the start: a killed process leaves them. All that is no socket, or has a listener, stays; nobody notices the look.
    """
    removed: list[str] = []
    try:
        with _opened(root, directory) as place:
            for name in place.listdir():
                if fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, _UNFINISHED):
                    removed += [f"{directory}/{name}"] if _remove_if_dead(place, name) else []
    except NotFoundError:
        return removed
    return removed


def _remove_if_dead(place: SafePath, name: str) -> bool:
    try:
        with place.child(name) as found:
            if not stat.S_ISSOCK(found.stat().st_mode) or _is_alive(found):
                return False
        place.remove(name)
    except Error as error:  # a link, or gone meanwhile
        _log.debug("left as it is", path=f"{place.shown}/{name}", error=str(error))
        return False
    return True


def _is_alive(found: SafePath) -> bool:
    """Whether some process holds the socket. To connect would take what is meant for a container.

    A datagram socket cannot connect to a stream socket, but only for one that somebody holds does the kernel say that.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(found.proc_path)
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True


@contextlib.contextmanager
def _opened(root: Path, directory: str) -> Iterator[SafePath]:
    if directory:
        top, place = Access(root).open(
            f"{directory}/"
        )  # with the slash, so that /var/run too is what it links to
    else:
        top = Root(root)
        place = top.open(".")
    with top, place:
        yield place


def _make_directory(root: Path, directory: str) -> None:
    """With its parents, where missing; what exists keeps its mode. A link in the way is refused."""
    try:
        with _opened(root, directory):
            return
    except NotFoundError:
        parent, _, name = directory.rpartition("/")
    _make_directory(root, parent)
    with (
        _opened(root, parent) as place,
        contextlib.suppress(ConflictError),
    ):  # somebody else made it meanwhile
        place.mkdir(name, DIRECTORY_MODE).close()


def _identity(found: SafePath) -> tuple[int, int]:
    status = found.stat()
    return status.st_dev, status.st_ino
