"""What a subPath means, held so that nobody can change it: by descriptor, then by a bind mount in the kubelet's own place.

A container may write to its volume while the next one is started, so a path in it means nothing for long. The file or
directory is opened below the volume without leaving it, and that very one is mounted where no container can write; the
runtime gets the place of the mount. What a mount of an earlier try shows is never looked at: it is taken off.
"""

from __future__ import annotations

import stat
from pathlib import Path

from dray.errors import DeniedError, Error, InvalidError, NotFoundError
from dray.kubelet.failure import prefixed
from dray.kubelet.runtimes import mounts
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.files.removal import remove_tree
from dray.runtime.files.safepath import Links, Root, SafePath

_DIRECTORIES_MADE = 64
"""So many missing directories are made for one subPath; more is somebody's mistake."""


def check_sub_path(path: str) -> str:
    """Without empty parts and dots. InvalidError for one that is absolute or climbs, whatever is on the disk."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "\0" in path:
        raise InvalidError(f"subPath {path!r} leads out of the volume", field="subPath")
    return "/".join(part for part in parts if part not in ("", ".")) or "."


def open_sub_path(volume: Path, path: str, shown: str = "") -> SafePath:
    """What is at `path` below the volume, a directory made where nothing is. Links count while they stay in the volume.

    DeniedError for one that leads out of it. New directories get the volume's mode, as the kubelet makes them. `shown`
    is what errors call the volume, where `volume` is only a descriptor's path.
    """
    with Root(volume, shown=shown) as root:
        try:
            return root.open(path, links=Links.WITHIN)
        except NotFoundError:
            return _make(root, path)


def hold(found: SafePath, place: Path) -> None:
    """Mount this very file or directory at `place`; what was mounted there before is taken off first."""
    release(place)
    try:
        place.parent.mkdir(0o700, parents=True, exist_ok=True)
        if stat.S_ISDIR(found.stat().st_mode):
            place.mkdir(0o700)
        else:
            place.touch(0o600, exist_ok=False)
    except OSError as error:
        raise from_os_error(error, "make", str(place)) from error
    mounts.mount(found.proc_path, place, "", mounts.MS_BIND)


def is_held(place: Path) -> bool:
    """Whether something is mounted at `place`. After a reboot nothing is."""
    return place.parent.resolve() / place.name in mounts.mounted_below(place.parent.resolve())


def release(place: Path) -> None:
    """Take the mount at `place` off, with all that lies over it, and remove the place."""
    mounts.unmount_below(place)
    remove_tree(place)


def _make(root: Root, path: str) -> SafePath:
    """The missing directories, one below the other; a link that appears meanwhile is refused, not followed."""
    above, missing = _existing(root, path)
    with root.open(".") as volume:
        mode = stat.S_IMODE(volume.stat().st_mode)
    for name in missing:
        with above:
            above = above.directory(name, mode)
    return above


def _existing(root: Root, path: str) -> tuple[SafePath, list[str]]:
    """The last directory on the way that is there, and the names that are not."""
    if path.count("/") >= _DIRECTORIES_MADE:
        raise InvalidError(
            f"subPath {path!r} has more than {_DIRECTORIES_MADE} parts that would have to be made",
            field="subPath",
        )
    missing: list[str] = []
    while path:
        path, _, name = path.rpartition("/")
        missing.insert(0, name)
        try:
            return root.open(path or ".", links=Links.WITHIN), missing
        except NotFoundError:
            continue
    raise DeniedError(f"{root.shown!r} is gone", what=f"open {root.shown}")


def told(error: Error, volume: str, container: str) -> Error:
    """With the kubelet's words before ours. It is the pod's fault, so the container waits with CreateContainerConfigError."""
    where = f'failed to prepare subPath for volumeMount "{volume}" of container "{container}"'
    return (
        InvalidError(f"{where}: {error}", field="subPath")
        if isinstance(error, DeniedError)
        else prefixed(where, error)
    )
