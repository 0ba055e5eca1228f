"""One look at the disk for a file watch: what is under each path, and which directories decide about it.

Every directory is watched before something is looked up in it, so a change after the look is always an event.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from dray.runtime.files import syscalls
from dray.runtime.files.syscalls import Statx

_LINKS_ALLOWED = 40
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_WALK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Key = tuple[Path, str]


class Kind(StrEnum):
    """The type of a directory entry."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    SOCKET = "socket"
    CHARACTER_DEVICE = "character-device"
    BLOCK_DEVICE = "block-device"
    FIFO = "fifo"


_KINDS = {
    stat.S_IFREG: Kind.FILE,
    stat.S_IFDIR: Kind.DIRECTORY,
    stat.S_IFLNK: Kind.SYMLINK,
    stat.S_IFSOCK: Kind.SOCKET,
    stat.S_IFCHR: Kind.CHARACTER_DEVICE,
    stat.S_IFBLK: Kind.BLOCK_DEVICE,
    stat.S_IFIFO: Kind.FIFO,
}


@dataclass(frozen=True, slots=True)
class Found:
    """What is there, by what the kernel calls it. `target` is the text of a symbolic link."""

    kind: Kind
    device: int
    inode: int
    birth_ns: int
    target: str = ""


@dataclass(frozen=True, slots=True)
class Interests:
    """Which names in which watched directory concern whom. The empty name stands for every name in a directory."""

    by_watch: dict[int, dict[str, set[Key]]] = field(default_factory=dict)

    def add(self, watch: int, name: str, key: Key) -> None:
        """A change of `name` concerns `key`."""
        self.by_watch.setdefault(watch, {}).setdefault(name, set()).add(key)

    def renewed(self, paths: Collection[Path], newer: Interests) -> Interests:
        """These, with `newer` in place of all that concerned `paths`."""
        merged = Interests()
        for interests, keep_all in ((self, False), (newer, True)):
            for watch, names in interests.by_watch.items():
                for name, keys in names.items():
                    kept = keys if keep_all else {key for key in keys if key[0] not in paths}
                    if kept:
                        merged.by_watch.setdefault(watch, {}).setdefault(name, set()).update(kept)
        return merged

    def concerned(self, watch: int, name: str) -> set[Key]:
        """Whom a change of `name` concerns; entries of a listed directory come as (directory, name)."""
        names = self.by_watch.get(watch, {})
        return names.get(name, set()) | {(path, name) for path, _ in names.get("", ())}


class Look:
    """One pass over all paths, which lie below `root`. Use it once; then read `interests`."""

    def __init__(
        self, watch_directory: Callable[[int], int], *, follow: bool, root: Path = Path("/")
    ) -> None:
        self._watch_directory = watch_directory
        self._follow = follow
        self._root = root
        self.interests = Interests()

    def at_path(self, path: Path) -> Found | None:
        """What is under `path`; None when it, or a parent, is not there."""
        with contextlib.ExitStack() as stack:
            resolved = self._resolve(stack, path, follow=self._follow)
            return _found(*resolved) if resolved else None

    def in_directory(self, path: Path) -> dict[str, Found] | None:
        """All entries of the directory `path` (a link to one will do); None when there is no such directory."""
        with contextlib.ExitStack() as stack:
            resolved = self._resolve(stack, path, follow=True)
            if resolved is None or not stat.S_ISDIR(resolved[2].mode):
                return None
            parent, name, _ = resolved
            descriptor = _open(
                stack, name, parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            )
            if descriptor is None:
                return None
            self.interests.add(self._watch_directory(descriptor), "", (path, ""))
            names: list[str] = []
            with _none_when_changed():
                names = sorted(os.listdir(descriptor))  # noqa: PTH208  (by descriptor)
            entries = ((name, self._entry(descriptor, name)) for name in names)
            return {name: found for name, found in entries if found is not None}

    def _entry(self, descriptor: int, name: str) -> Found | None:
        status = _status(descriptor, name)
        return _found(descriptor, name, status) if status else None

    def _resolve(
        self, stack: contextlib.ExitStack, path: Path, *, follow: bool
    ) -> tuple[int, str, Statx] | None:
        """The directory (open), name and status of the entry that `path` leads to; None when the way ends before."""
        todo = _parts(str(path))
        links = 0
        top = self._open_root(stack)
        if top is None:
            return None
        current = top
        while True:
            name = todo.pop()
            if name == ".." and os.path.samestat(os.fstat(current), os.fstat(top)):
                name = "."
            self.interests.add(self._watch_directory(current), name, (path, ""))
            status = _status(current, name)
            if status is None:
                return None
            if stat.S_ISLNK(status.mode) and (todo or follow):
                links += 1
                text = _link_text(current, name)
                if text is None or links > _LINKS_ALLOWED:
                    return None
                todo += _parts(text)
                current = top if text.startswith("/") else current
            elif not todo:
                return current, name, status
            else:
                below = _open(stack, name, current, _WALK)
                if below is None:
                    return None
                current = below

    def _open_root(self, stack: contextlib.ExitStack) -> int | None:
        with _none_when_changed():
            descriptor = os.open(self._root, _WALK & ~os.O_NOFOLLOW)
            stack.callback(os.close, descriptor)
            return descriptor
        return None


def _parts(path: str) -> list[str]:
    """The names on the way, last one first; the root directory itself is the name "."."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")] or ["."]


@contextlib.contextmanager
def _none_when_changed() -> Iterator[None]:
    # Between two steps the entry may vanish or become something else. It was watched, so an event brings us back. What we
    # may not look at, or a link with a name that no file can have, is not there either: for us.
    try:
        yield
    except OSError as error:
        if error.errno in _EXHAUSTED:
            raise


def _open(stack: contextlib.ExitStack, name: str, dir_fd: int, flags: int) -> int | None:
    with _none_when_changed():
        descriptor = os.open(name, flags, dir_fd=dir_fd)
        stack.callback(os.close, descriptor)
        return descriptor
    return None


def _status(dir_fd: int, name: str) -> Statx | None:
    with _none_when_changed():
        return syscalls.statx(name, dir_fd=dir_fd)
    return None


def _link_text(dir_fd: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=dir_fd)
    except OSError:  # no link any more
        return None


def _found(dir_fd: int, name: str, status: Statx) -> Found:
    kind = _KINDS.get(stat.S_IFMT(status.mode), Kind.FILE)
    target = (_link_text(dir_fd, name) or "") if kind is Kind.SYMLINK else ""
    return Found(kind, status.device, status.inode, status.birth_ns, target)
