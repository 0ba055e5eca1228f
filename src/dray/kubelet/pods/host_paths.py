"""What a hostPath means: opened once, checked and made by descriptor, and held for the container that mounts it.

Links on the way were put there by the administrator, or by whoever may write there: they are followed, as by every kubelet,
when the path is opened. From then on the name does not count: what was checked is what the container gets.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from dray.errors import ConflictError, DeniedError, InvalidError, NotFoundError
from dray.kubelet.pods import subpaths
from dray.kubelet.runtimes import mounts
from dray.runtime.files.safefile import told
from dray.runtime.files.safepath import SafePath

_FOLLOWING = os.O_PATH | os.O_CLOEXEC
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
    """What is there, made where `kind` says so. None: nothing is, and no kind is demanded.

    InvalidError where it is of another kind, or `kind` is none of Kubernetes'.
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
    """The path by which a runtime gets this very file or directory: `place`, where it is mounted until the next call.

    A directory below which others are mounted is not held, because they would be missing: the answer is where it lies,
    without links. So it is where the kubelet may not mount.
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
            # As a directory first: what an automounter keeps is only then mounted, and bound.
            return SafePath(os.open(path, _FOLLOWING | os.O_DIRECTORY), str(path))
        except NotADirectoryError:
            return SafePath(os.open(path, _FOLLOWING), str(path))


def _made(path: Path, kind: str) -> SafePath:
    """The missing directories or the file, one below the other: a link that appears meanwhile is refused, not followed."""
    if kind == "FileOrCreate":
        with _open(path.parent) as above:
            with contextlib.suppress(ConflictError):  # somebody was faster, or it is a link to nothing
                above.mknod(path.name, stat.S_IFREG | 0o644)
            return above.child(path.name)
    above, missing = _open_existing(path)
    for name in missing:
        with above:
            above = above.directory(name, 0o755)
    return above


def _open_existing(path: Path) -> tuple[SafePath, list[str]]:
    """The last directory on the way that is there, and the names that are not."""
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
