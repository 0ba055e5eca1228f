"""The directories that claims write to. No symbolic link in them is followed, so nothing is written anywhere else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dray.errors import DeniedError, NotFoundError
from dray.runtime.files.durable import make_directory, put_in_place
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.files.safefile import told
from dray.runtime.files.safepath import Root, SafePath
from dray.runtime.files.saferesolve import check_name


@contextmanager
def open_whole(path: Path) -> Iterator[SafePath]:
    """A directory that others share (CDI), made where it is missing. DeniedError where it is a link: it may lead anywhere.

    Its parents are the administrator's: /var/run is a link itself.
    """
    _make(path, 0o755)
    with Root(path.parent) as root, root.open(path.name) as directory:
        yield directory


@contextmanager
def open_below(data_dir: Path, path: str, mode: int = 0o700) -> Iterator[SafePath]:
    """A directory of our own below the data directory, made where it is missing. DeniedError where a link is in the way."""
    check_own(data_dir)
    _make(data_dir, 0o700)
    with Root(data_dir) as root:
        directory = root.open(".")
        for name in path.split("/"):
            with directory:
                directory = child(directory, name, mode)
        with directory:
            yield directory


def check_own(data_dir: Path) -> None:
    """DeniedError where the data directory itself is a link: it may lead anywhere. Its parents are the administrator's."""
    if data_dir.is_symlink():
        shown = str(data_dir)
        raise DeniedError(
            f"cannot use {shown!r}: it is a symbolic link; remove it, and a directory is made",
            what=f"open {shown}",
        )


def child(directory: SafePath, name: str, mode: int) -> SafePath:
    """The directory in it, made where it is missing."""
    return directory.directory(name, mode)


def read_entry(directory: SafePath, name: str, limit: int) -> bytes | None:
    """The content of a regular file; None where there is none."""
    try:
        with directory.child(name) as file:
            return file.read(limit)
    except NotFoundError:
        return None


def put_entry(directory: SafePath, name: str, data: bytes, mode: int) -> None:
    """Put a file there, atomically; what is there under the name, a link too, is replaced itself.

    It need not be durable: after a power cut the claim is dropped, and files that differ are written again. The caller is
    the only one to write this name now. What is under way has a name that belongs to it, so that a killed process
    leaves no more than one file, and `remove_entry` finds it.
    """
    check_name(name)
    with told("write", f"{directory.shown}/{name}"):
        put_in_place(directory.fileno(), name, data, mode=mode, temporary=under_way(name), is_synced=False)


def remove_entry(directory: SafePath, name: str) -> None:
    """Remove a file, a link or an empty directory, and what a killed process left of writing it."""
    for one in (under_way(name), name):
        with contextlib.suppress(NotFoundError):
            directory.remove(one)


def under_way(name: str) -> str:
    """The hidden name of a file that is being written; runtimes look at no such file."""
    return f".{name}.tmp"


def meant(name: str) -> str:
    """The name that a file has, or was to have."""
    if name.startswith(".") and name.endswith(".tmp"):
        return name.removeprefix(".").removesuffix(".tmp")
    return name


def _make(path: Path, mode: int) -> None:
    try:
        make_directory(path, mode)
    except OSError as error:
        raise from_os_error(error, "make the directory", str(path)) from error
