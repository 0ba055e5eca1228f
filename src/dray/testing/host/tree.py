"""The files themselves: directories that appear and vanish in one step, attributes that change in one step.

A reader never sees a half-made device: a directory is built under `.staging` and renamed into place, and an
attribute is replaced by a rename. Paths are strings below the root without a leading slash (`sys/bus/pci`).
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar, cast

from dray.errors import InvalidError, NotFoundError

_STAGING = ".staging"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One file of sysfs: what a reader gets, and its mode."""

    text: str | bytes
    mode: int = 0o444


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link to another place of the tree, named from the root."""

    target: str


@dataclass(frozen=True, slots=True)
class Directory:
    """An empty directory."""


Entry = Attribute | Link | Directory


def ro(text: object) -> Attribute:
    """A readable attribute: the text and a newline, as the kernel prints it."""
    return Attribute(f"{text}\n")


def rw(text: object) -> Attribute:
    """An attribute that may be written too."""
    return Attribute(f"{text}\n", 0o644)


def wo(mode: int = 0o200) -> Attribute:
    """An attribute that is only written: a verb of the kernel."""
    return Attribute("", mode)


class Watching(Protocol):
    """Whoever wants to know what is written into the tree (`watcher.Watcher`)."""

    def wants(self, path: str) -> bool:
        """Whether writes to this file act."""
        ...

    def arm(self, place: Path, path: str) -> None:
        """Watch a freshly made file that still lies in `place` and may still be read; `path` will be its name."""
        ...

    def replaced(self, path: str) -> None:
        """The file armed last has its name now; the one before has lost it."""
        ...

    def vanished(self, path: str) -> None:
        """This file or directory is gone."""
        ...


class Tree:
    """Writes below one root. Every call is one step for a reader; `lock` makes several calls one step for verbs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lock = threading.RLock()
        self.watching: Watching | None = None
        self._serial = 0
        (root / _STAGING).mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        """Where `name` lies in the real file system."""
        return self.root / name

    def name(self, path: str | Path) -> str:
        """A path as users write it (`/dev/kvm`, `sys/…`, or a Path below the root) as a name below the root."""
        text = os.fspath(path)
        inside = (
            os.path.relpath(text, self.root) if Path(text).is_relative_to(self.root) else text.lstrip("/")
        )
        name = os.path.normpath(inside)
        if name == "." or name.split("/")[0] == "..":
            raise InvalidError(f"{text!r} is not below the host's root {self.root}", field="path")
        return name

    def mkdir(self, name: str) -> None:
        """Make a directory and its parents."""
        self.path(name).mkdir(parents=True, exist_ok=True)

    def place(self, name: str, entries: Mapping[str, Entry]) -> None:
        """Make a whole directory appear at once; keys may have slashes (`power/control`)."""
        staged = self._staged()
        staged.mkdir()
        for key, entry in sorted(entries.items()):
            place = staged / key
            place.parent.mkdir(parents=True, exist_ok=True)
            self._make(place, f"{name}/{key}", entry)
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        staged.rename(self.path(name))

    def write(self, name: str, attribute: Attribute) -> None:
        """Make or replace one file."""
        staged = self._staged()
        self._make(staged, name, attribute)
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        staged.rename(self.path(name))
        if self.watching is not None:
            self.watching.replaced(name)

    def rewrite(self, name: str) -> None:
        """Give a file a new inode with the same text and mode: whoever has the old one open keeps that."""
        mode = self.path(name).lstat().st_mode & 0o7777
        data = self.path(name).read_bytes() if mode & 0o400 else b""
        self.write(name, Attribute(data, mode))

    def link(self, name: str, target: str) -> None:
        """Make or replace a symbolic link."""
        staged = self._staged()
        staged.symlink_to(link_text(name, target))
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        staged.rename(self.path(name))

    def remove(self, name: str) -> None:
        """Make a file, link or whole directory vanish at once; nothing happens when it is not there."""
        staged = self._staged()
        try:
            self.path(name).rename(staged)
        except FileNotFoundError:
            return
        if self.watching is not None:
            self.watching.vanished(name)
        if staged.is_dir() and not staged.is_symlink():
            shutil.rmtree(staged)
        else:
            staged.unlink()

    def exists(self, name: str) -> bool:
        """Whether something has this name, a dangling link included."""
        return os.path.lexists(self.path(name))

    def require(self, name: str) -> Path:
        """Where an existing entry lies; for verbs that break things, which should not break by a slip of the pen."""
        if not self.exists(name):
            raise NotFoundError(f"the host has no {name!r}; add the device first", kind="file", name=name)
        return self.path(name)

    def _staged(self) -> Path:
        with self.lock:
            self._serial += 1
            return self.root / _STAGING / str(self._serial)

    def _make(self, place: Path, name: str, entry: Entry) -> None:
        match entry:
            case Directory():
                place.mkdir(parents=True, exist_ok=True)
            case Link(target):
                place.symlink_to(link_text(name, target))
            case Attribute(text, mode):
                place.write_bytes(text.encode() if isinstance(text, str) else text)
                self._finish(place, name, mode)

    def _finish(self, place: Path, name: str, mode: int) -> None:
        """Set the mode last: its owner could not watch a write-only file."""
        if self.watching is not None and self.watching.wants(name):
            self.watching.arm(place, name)
        place.chmod(mode)


def link_text(name: str, target: str) -> str:
    """The text sysfs gives a link: up to the nearest directory above *both* ends, then down.

    So a link to its own grandparent reads `../../../parent`, where `os.path.relpath` would say `../..`.
    """
    common = os.path.commonpath([os.path.dirname(f"/{name}"), os.path.dirname(f"/{target}")])  # noqa: PTH120
    up = os.path.relpath(common, os.path.dirname(f"/{name}"))  # noqa: PTH120
    return os.path.normpath(f"{up}/{os.path.relpath(f'/{target}', common)}")


_P = ParamSpec("_P")
_R = TypeVar("_R")


class _HasTree(Protocol):
    @property
    def tree(self) -> Tree: ...


def verb(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """One change of the machine, by a method of something with a `tree`: a test's verb and a write never mix."""

    @wraps(method)
    def locked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with cast("_HasTree", args[0]).tree.lock:
            return method(*args, **kwargs)

    return locked
