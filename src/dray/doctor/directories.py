"""The directories on which everything stands: there, writable, on a file system that keeps things, with room."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from dray.doctor.finding import Finding, cannot_look, fault, note, ok, warning
from dray.doctor.places import Entry, Places, State, look_at, read_text
from dray.up.place import DATA_DIR_BYTES
from dray.wire.socket_files import PATH_BYTES

MIB: Final = 1 << 20
_SOCKET_DIR_BYTES: Final = PATH_BYTES - len("/iommufd.dray.internal-reg.sock")
_AWAY: Final = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs")
_GONE_AT_BOOT: Final = ("tmpfs", "ramfs")


class Directory(msgspec.Struct, frozen=True):
    """One of them. `role` is what it is for; `space` and `inodes` are free and total, of the file system it is on."""

    role: str
    entry: Entry
    filesystem: str = ""
    space: tuple[int, int] = (0, 0)
    inodes: tuple[int, int] = (0, 0)

    @property
    def path(self) -> str:
        """Where it is."""
        return self.entry.path


class Directories(msgspec.Struct, frozen=True):
    """`is_root`: whether what may not be seen is missing for lack of rights."""

    all: tuple[Directory, ...]
    is_root: bool


def look_at_directories(places: Places) -> Directories:
    """Those of the agent, or of `dray up`."""
    if places.is_laptop:
        wanted = [("data", places.data_dir)]
    else:
        wanted = [
            ("kubelet", places.kubelet_dir),
            ("device-plugins", places.device_plugin_dir),
            ("registry", places.kubelet_dir / "plugins_registry"),
            ("plugins", places.kubelet_dir / "plugins"),
            ("cdi", places.cdi_dir),
            ("state", places.state_dir),
        ]
    mounts = read_text(Path("/proc/self/mountinfo")).text
    return Directories(tuple(_look(role, path, mounts) for role, path in wanted), os.geteuid() == 0)


def _look(role: str, path: Path, mounts: str) -> Directory:
    entry = look_at(path)
    there = path
    while entry.state is State.MISSING and not there.exists() and there != there.parent:
        there = there.parent  # where it would be made
    try:
        room = os.statvfs(there)
    except OSError:
        return Directory(role, entry)
    return Directory(
        role,
        entry,
        filesystem_of(os.path.realpath(there), mounts),
        (room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize),
        (room.f_favail, room.f_files),
    )


def filesystem_of(path: str, mountinfo: str) -> str:
    """The type of the mount that a path is on; of several on one place the last is seen."""
    best, found = -1, ""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        words = left.split()
        if len(words) < 5 or not right:
            continue
        place = words[4].replace("\\040", " ")
        is_below = path == place or path.startswith(place.rstrip("/") + "/")
        if is_below and len(place) >= best:
            best, found = len(place), right.split()[0]
    return found


def check_directories(facts: Directories) -> Iterator[Finding]:
    """Each, then the room on the file systems they share."""
    for one in facts.all:
        yield _check_there(one, facts.is_root)
        yield from _check_filesystem(one)
        yield from _check_length(one)
    seen: set[tuple[int, int]] = set()
    for one in facts.all:
        if one.space[1] and (one.space[1], one.inodes[1]) not in seen:
            seen.add((one.space[1], one.inodes[1]))
            yield from _check_room(one)


def _check_there(one: Directory, is_root: bool) -> Finding:
    name, entry = f"directory-{one.role}", one.entry
    if entry.state is State.DENIED:
        return cannot_look(name, one.path)
    if entry.state is State.MISSING:
        return _missing(name, one)
    if entry.state is State.BROKEN or not entry.is_directory:
        return fault(name, f"{one.path} is no directory", _WHY[one.role], "remove it, or name another one")
    if not entry.is_writable:
        if not is_root:
            return note(name, f"{one.path} is not writable for this user", _WHY[one.role], "run as root")
        fix = "remount the file system writable, or mount the directory into the pod without readOnly"
        return fault(name, f"{one.path} is read-only", _WHY[one.role], fix)
    return ok(name, f"{one.path} is there and writable")


_WHY: Final = {
    "kubelet": "device plugins and DRA drivers meet the kubelet there",
    "device-plugins": "device plugins register there; without it no resource is offered",
    "registry": "the kubelet finds DRA drivers by their sockets there",
    "plugins": "DRA drivers serve and keep their claims there",
    "cdi": "the runtime reads there what a container gets",
    "state": "the agent keeps there who holds which device",
    "data": "`dray up` keeps everything there",
}


def _missing(name: str, one: Directory) -> Finding:
    if one.role in ("state", "data", "cdi", "plugins"):
        return ok(name, f"{one.path} is not there yet: it is made at the first start")
    flag = "--device-plugin-dir" if one.role == "device-plugins" else "--kubelet-dir"
    fix = f"start the kubelet, give {flag} where its directory is elsewhere, or in a pod mount it"
    if one.role == "registry":
        return warning(name, f"{one.path} does not exist", _WHY[one.role], fix)
    return fault(name, f"{one.path} does not exist", _WHY[one.role], fix)


def _check_filesystem(one: Directory) -> Iterator[Finding]:
    name, kind = f"filesystem-{one.role}", one.filesystem
    if one.role in ("kubelet", "device-plugins") and kind == "overlay" and one.entry.state is State.THERE:
        why = "it is a container's own directory, and no kubelet looks there"
        yield warning(name, f"{one.path} is on an overlay", why, f"mount the host's {one.path} into the pod")
    elif one.role in ("state", "data", "kubelet", "plugins") and kind in _GONE_AT_BOOT:
        why = "it is empty after a reboot: who holds which device is forgotten"
        yield warning(name, f"{one.path} is on {kind}", why, "put it on a disk")
    elif kind in _AWAY:
        why = "locks and sockets do not work there as they must"
        yield warning(name, f"{one.path} is on {kind}", why, "put it on a local disk")


def _check_length(one: Directory) -> Iterator[Finding]:
    most = {"device-plugins": _SOCKET_DIR_BYTES, "registry": _SOCKET_DIR_BYTES, "data": DATA_DIR_BYTES}.get(
        one.role
    )
    size = len(os.fsencode(one.path))
    if most is not None and size > most:
        what = f"{one.path} has {size} bytes, and a directory for sockets may have {most}"
        why = f"the kernel ends a socket's path at {PATH_BYTES} bytes"
        yield fault(f"socket-length-{one.role}", what, why, "choose a shorter directory")


def _check_room(one: Directory) -> Iterator[Finding]:
    free, total = one.space
    what = f"{free // MIB} MiB of {total // MIB} MiB are free below {one.path}"
    why, fix = "a full disk stops every change of who holds what", "free space on it"
    if free < 64 * MIB:
        yield fault("disk-space", what, why, fix)
    elif free < min(1024 * MIB, total // 20):
        yield warning("disk-space", what, why, fix)
    else:
        yield ok("disk-space", what)
    left, inodes = one.inodes
    if inodes and left < min(10_000, inodes // 100):
        what = f"{left} of {inodes} inodes are free below {one.path}"
        yield warning("disk-inodes", what, "without inodes no file can be made", "remove small files on it")
