"""Replace a file so that a reader, a kill or a power cut sees the old content or the new one, never a mixture.

A writer fills a file under a hidden temporary name, syncs it, gives it the real name in one step, and syncs the directory.
The keeper of each container (`kubelet/runtimes/shim.py`) imports this module, so it loads little of the standard library.
"""

from __future__ import annotations

import contextlib
import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` alone would cost every keeper half a megabyte
    from collections.abc import Iterator
    from pathlib import Path

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def temporary_name() -> str:
    """A hidden name that nobody else uses. A process killed at the wrong moment leaves such a file behind."""
    return f".dray-{os.urandom(6).hex()}.tmp"


def remove_temporaries(path: Path) -> None:
    """What killed processes left in the directory `path`. For its only writer, before it writes."""
    for left in path.glob(".dray-*.tmp"):
        with contextlib.suppress(OSError):
            left.unlink()


def write_durably(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """`replace_file` by path, for a directory that nobody else can bend: its links are followed."""
    with open_directory(path.parent) as directory:
        replace_file(directory, path.name, data, mode=mode)


def replace_file(dir_fd: int, name: str, data: bytes, *, mode: int) -> None:
    """Write `data` beside `name`, sync it, rename it over `name`, sync the directory.

    An OSError before the rename leaves the old content and no temporary file; one from the last sync leaves the new
    content, which may not survive a power cut. `dir_fd` must be a readable descriptor (not O_PATH).
    """
    put_in_place(dir_fd, name, data, mode=mode, temporary=temporary_name())
    sync_directory(dir_fd)


def create_file(dir_fd: int, name: str, data: bytes, *, mode: int) -> None:
    """As `replace_file`, but FileExistsError where `name` is taken: of several writers exactly one succeeds."""
    temporary = temporary_name()
    descriptor = _new_file(dir_fd, temporary)
    try:
        _fill(descriptor, data, mode, is_synced=True)
        os.link(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=dir_fd)
    sync_directory(dir_fd)


def put_in_place(
    dir_fd: int | None, name: str, data: bytes, *, mode: int, temporary: str, is_synced: bool = True
) -> None:
    """`replace_file` without the sync of the directory, under a temporary name of the caller's own.

    The caller is the only writer of `temporary`: what a killed process left there, or somebody planted, is removed, so
    that kills leave one such file at most. Without `is_synced` the content survives a kill, but not a power cut. With
    None as `dir_fd` both names are whole paths; an O_PATH descriptor will do too.
    """
    try:
        descriptor = _new_file(dir_fd, temporary)
    except FileExistsError:
        os.unlink(temporary, dir_fd=dir_fd)
        descriptor = _new_file(dir_fd, temporary)
    try:
        _fill(descriptor, data, mode, is_synced=is_synced)
        os.rename(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=dir_fd)
        raise


def _new_file(dir_fd: int | None, name: str) -> int:
    return os.open(name, _CREATE, 0o600, dir_fd=dir_fd)


def _fill(descriptor: int, data: bytes, mode: int, *, is_synced: bool) -> None:
    """Write, set the mode and sync; the descriptor is closed in every case, and a failing close counts."""
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fchmod(descriptor, mode)
        if is_synced:
            os.fsync(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(descriptor)
        raise
    os.close(descriptor)


def sync_directory(dir_fd: int) -> None:
    """Make renames and creations in the directory durable."""
    try:
        os.fsync(dir_fd)
    except OSError as error:
        # Some network file systems cannot sync a directory and say so; they order renames themselves.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


@contextlib.contextmanager
def open_directory(path: Path) -> Iterator[int]:
    """A readable descriptor of the directory, for the time of the block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_directory(path: Path, mode: int = 0o700) -> None:
    """Make `path` and its missing parents, each one durable before something is put into it."""
    if path.is_dir():
        return
    make_directory(path.parent, mode)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode)
    with open_directory(path.parent) as parent:
        sync_directory(parent)
