"""One look over many files of a host: the root is opened once, each device's directory once.

A look is not a snapshot: devices come and go during it. One that goes is passed over in silence; one that is there and
cannot be read is told as a problem.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeVar

from dray.errors import Error, HardwareError, InvalidError, NotFoundError
from dray.hardware.facts import Found, Problem, problem_of
from dray.runtime.files.safefile import told
from dray.runtime.files.safepath import Links, Root, SafePath

_LIMIT = 1 << 20
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

T = TypeVar("T")


class Sweep:
    """A host's files, while the block lasts. Same calls as `HostRoot`, same errors; made by `HostRoot.sweep`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._root = Root(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._root.close()

    @contextmanager
    def sweep(self) -> Iterator[Sweep]:
        """Itself: what takes a `HostRoot` can be given a sweep that is under way."""
        yield self

    @property
    def is_this_host(self) -> bool:
        """Whether this is the machine we run on; elsewhere plain files may stand for device nodes."""
        return self.path == Path("/")

    def exists(self, path: str) -> bool:
        """Whether something is there; a link that leads nowhere is nothing."""
        try:
            with self.open(path):
                return True
        except NotFoundError:
            return False

    def stat(self, path: str) -> os.stat_result:
        """Type, mode and numbers of what is there, links followed."""
        with self.open(path) as file:
            return file.stat()

    def may_open(self, path: str) -> bool:
        """Whether this process may read and write it. Opening it would tell for sure, and might have effects."""
        with self.open(path) as file:
            return os.access(file.proc_path, os.R_OK | os.W_OK)

    def label(self, path: str) -> str:
        """Its SELinux label, empty where there is none."""
        with self.open(path) as file:
            return file.label()

    def read_text(self, path: str, limit: int = _LIMIT) -> str:
        """A small file's text, without the newline at its end. HardwareError where it is no text or too long."""
        with self.open(path) as file:
            try:
                return _decoded(file.read(limit), path)
            except InvalidError as error:
                raise HardwareError(
                    f"cannot read {path!r}: it does not hold a short text", path=path
                ) from error

    def read_link(self, path: str) -> str:
        """The text of a link, as it stands: for sysfs, whose links say what a device belongs to."""
        parent, _, name = path.rstrip("/").rpartition("/")
        with self.open(parent) as directory:
            return directory.readlink(name)

    def names(self, path: str) -> list[str]:
        """What a directory holds, sorted."""
        with self.open(path) as directory:
            return directory.listdir()

    def open(self, path: str) -> SafePath:
        """The file itself, links followed as the host would."""
        return self._root.open(path.strip("/") or ".", links=Links.FOLLOW)

    @contextmanager
    def directory(self, path: str) -> Iterator[SysDirectory]:
        """A directory to read several files of."""
        with self.open(path) as place, told("read", path):
            descriptor = os.open(".", _LIST, dir_fd=place.fileno())
        try:
            yield SysDirectory(descriptor, path)
        finally:
            os.close(descriptor)

    def read_each(
        self,
        path: str,
        read: Callable[[SysDirectory, list[Problem]], T],
        *,
        wanted: Callable[[str], bool] = bool,
    ) -> Found[T]:
        """What `read` makes of each directory in `path`, which need not exist; names not `wanted` are passed over.

        `read` adds the problems that it can live with, and raises Error for those that hide the device.
        UnavailableError when this process is out of descriptors or memory: then nothing is known of any device.
        """
        items: list[T] = []
        problems: list[Problem] = []
        try:
            names = self.names(path)
        except NotFoundError:
            return Found()
        except Error as error:
            return Found(problems=(problem_of(error, path),))
        for name in filter(wanted, names):
            met: list[Problem] = []
            try:
                with self.directory(f"{path}/{name}") as directory:
                    items.append(read(directory, met))
            except Error as error:
                hidden = problem_of(error, f"{path}/{name}", before=f"{name} is left out: ")
                met += [hidden] if self._is_there(path, name) else []
            problems += met
        return Found(tuple(items), tuple(problems))

    def _is_there(self, path: str, name: str) -> bool:
        """Whether the entry is still listed, a link that leads nowhere included."""
        try:
            return name in self.names(path)
        except NotFoundError:
            return False


class SysDirectory:
    """One device's directory, listed once. Files in it are read by name; a link among them is only ever text."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self.path = path
        self.name = path.rpartition("/")[2]
        with told("read", path), os.scandir(descriptor) as entries:
            self._modes = {entry.name: _kind(entry) for entry in entries}

    def __contains__(self, name: str) -> bool:
        return name in self._modes

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._modes))

    def text(self, name: str) -> str:
        """A file's text without the newline at its end; NotFoundError, or HardwareError where it is no short text."""
        path = f"{self.path}/{name}"
        # Looked at before it is opened: to open a device or a FIFO can have effects.
        if self._kind_of(name) != stat.S_IFREG:
            raise HardwareError(f"cannot read {path!r}: it is not a plain file", path=path)
        return _decoded(self._read(name, path), path)

    def link(self, name: str) -> str:
        """The text of a link; NotFoundError, or HardwareError where it is none."""
        path = f"{self.path}/{name}"
        if self._kind_of(name) != stat.S_IFLNK:
            raise HardwareError(f"cannot read {path!r}: it should be a link", path=path)
        with told("read the link", path):
            return os.readlink(name, dir_fd=self._descriptor)

    def names(self, name: str) -> tuple[str, ...]:
        """What a directory in it holds, sorted; nothing where there is none."""
        if name not in self._modes:
            return ()
        path = f"{self.path}/{name}"
        with told("read", path):
            descriptor = os.open(name, _LIST, dir_fd=self._descriptor)
            try:
                return tuple(sorted(os.listdir(descriptor)))  # noqa: PTH208  (by descriptor)
            finally:
                os.close(descriptor)

    def _kind_of(self, name: str) -> int:
        if name not in self._modes:
            path = f"{self.path}/{name}"
            raise NotFoundError(f"cannot read {path!r}: it does not exist", kind="file", name=path)
        return self._modes[name]

    def _read(self, name: str, path: str) -> bytes:
        with told("read", path):
            descriptor = os.open(name, _READ, dir_fd=self._descriptor)
            try:
                content = b""
                while len(content) <= _LIMIT and (part := os.read(descriptor, 1 << 16)):
                    content += part
            finally:
                os.close(descriptor)
        if len(content) > _LIMIT:
            raise HardwareError(f"cannot read {path!r}: it has more than {_LIMIT} bytes", path=path)
        return content


def _kind(entry: os.DirEntry[str]) -> int:
    """The file's type; the directory's listing tells it without another call on every usual file system."""
    if entry.is_symlink():
        return stat.S_IFLNK
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    return stat.S_IFREG if entry.is_file(follow_symlinks=False) else 0


def _decoded(content: bytes, path: str) -> str:
    try:
        return content.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise HardwareError(f"cannot read {path!r}: it does not hold a short text", path=path) from error
