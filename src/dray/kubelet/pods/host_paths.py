"""hostPath volumes: opened once, checked and created by file descriptor, and held for the container that mounts them.

Symbolic links in the path are followed when it is opened, as by every kubelet. After that the path does not matter: the
container gets the file or directory that was checked.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from dray.errors import DeniedError, InvalidError, NotFoundError
from dray.kubelet.pods import subpaths
from dray.kubelet.runtimes import mounts
from dray.runtime.files.safefile import told
from dray.runtime.files.safepath import SafePath

_FOLLOWING = os.O_PATH | os.O_CLOEXEC
_CREATING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS: dict[str, Callable[[int], bool]] = {
    "Directory": stat.S_ISDIR,
    "DirectoryOrCreate": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "FileOrCreate": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}


def open_host_path(path: Path, kind: str) -> SafePath | None:
    """The file or directory at `path`, created if `kind` says so. None if it is missing and no kind is required.

    InvalidError if it is of another kind, or `kind` is unknown.
    """
    if kind and kind not in _KINDS:
        raise InvalidError(
            f"hostPath.type {kind!r} must be one of {', '.join(_KINDS)}", field="hostPath.type"
        )
    try:
        found = _open(path)
    except NotFoundError:
        if not kind:
            return None
        if not kind.endswith("OrCreate"):
            raise _other_kind(path, kind) from None
        found = _made(path, kind)
    if kind and not _KINDS[kind](found.stat().st_mode):
        found.close()
        raise _other_kind(path, kind)
    return found


def hold(found: SafePath, place: Path) -> Path:
    """Mount the open file or directory at `place`, until the next call, and return the path to give to a runtime.

    A directory with other mounts below it is not held, because they would be missing: its resolved path is returned. The
    same if the kubelet may not mount.
    """
    lies = Path(found.proc_path).readlink()
    if stat.S_ISDIR(found.stat().st_mode) and any(path != lies for path in mounts.mounted_below(lies)):
        subpaths.release(place)
        return lies
    try:
        subpaths.hold(found, place)
    except DeniedError:
        return lies
    return place


def _open(path: Path) -> SafePath:
    with told("open", str(path)):
        try:
            # As a directory first: this makes an automounter mount it.
            return SafePath(os.open(path, _FOLLOWING | os.O_DIRECTORY), str(path))
        except NotADirectoryError:
            return SafePath(os.open(path, _FOLLOWING), str(path))


def _made(path: Path, kind: str) -> SafePath:
    """Create the file or the missing directories, one below the other; a symbolic link in the way is refused."""
    if kind == "FileOrCreate":
        with _open(path.parent) as above, told("create", str(path)):
            with contextlib.suppress(FileExistsError):  # another process was faster, or it is a dangling link
                os.close(os.open(path.name, _CREATING, 0o644, dir_fd=above.fileno()))
            return above.child(path.name)
    above, missing = _open_existing(path)
    for name in missing:
        with above, told("create", str(path)):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=above.fileno())
            above = above.child(name)
    return above


def _open_existing(path: Path) -> tuple[SafePath, list[str]]:
    """The deepest existing directory of the path, and the names below it that are missing."""
    missing: list[str] = []
    for each in (path, *path.parents):
        try:
            return _open(each), missing
        except NotFoundError:
            missing.insert(0, each.name)
    raise NotFoundError(f"cannot open {str(path)!r}: not even / is there", kind="file", name=str(path))


def _other_kind(path: Path, kind: str) -> InvalidError:
    what = kind.removesuffix("OrCreate")
    return InvalidError(f"hostPath type check failed: {path} is not a {what}", field="hostPath.type")
