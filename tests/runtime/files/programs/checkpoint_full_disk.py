"""Save on a small tmpfs that is really full, at every amount of free space from none to enough.

Arguments: directory to mount over. Needs a mount namespace of its own (`unshare -Urm`). Prints one JSON object.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path

from dray.errors import UnavailableError
from dray.runtime.files.checkpoint import Checkpoint
from dray.runtime.files.checkpoint_format import Format

FORMAT = Format(bytes)
OLD, NEW = b"old " * 3000, b"new " * 9000
_MS_RDONLY, _MS_REMOUNT = 1, 32


def mount(target: Path, options: str, flags: int = 0) -> None:
    """mount(2), or SystemExit with the reason."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(target), b"tmpfs", flags, options.encode()) != 0:
        raise SystemExit(f"cannot mount a tmpfs: {os.strerror(ctypes.get_errno())}")


def fill(path: Path, free: int) -> None:
    """Take all space but `free` bytes."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
        file.truncate(max(0, file.tell() - free))


def attempt(checkpoint: Checkpoint[bytes], data: bytes) -> str:
    """Empty when it was saved, or the error's text."""
    try:
        checkpoint.save(data)
    except UnavailableError as error:
        return str(error)
    return ""


def check(directory: Path, error: str) -> list[str]:
    """What is wrong after a save that gave `error`."""
    faults = []
    with Checkpoint(directory / "state", FORMAT) as again:
        loaded = again.load()
    if loaded.data != (OLD if error else NEW) or loaded.set_aside:
        faults.append(f"after {error!r}: found {(loaded.data or b'')[:8]!r}, {loaded.set_aside}")
    if error and not ("state" in error and "previous state is kept" in error):
        faults.append(f"unclear: {error}")
    if extra := {path.name for path in directory.iterdir()} - {"state", "state.lock", "filler"}:
        faults.append(f"left behind: {sorted(extra)}")
    return faults


def try_with(directory: Path, free: int) -> tuple[bool, list[str]]:
    """Fill, save, look, free, save again."""
    with Checkpoint(directory / "state", FORMAT) as checkpoint:
        checkpoint.load()
        checkpoint.save(OLD)
        fill(directory / "filler", free)
        error = attempt(checkpoint, NEW)
    faults = check(directory, error)
    (directory / "filler").unlink()
    with Checkpoint(directory / "state", FORMAT) as checkpoint:
        checkpoint.load()
        later = attempt(checkpoint, NEW)
    faults += check(directory, later) + ([f"still refused after space was freed: {later}"] if later else [])
    return bool(error), [f"{free} bytes free: {fault}" for fault in faults]


def no_inodes(directory: Path) -> list[str]:
    """No inode is left for the temporary file, and none for the lock file of a successor."""
    mount(directory, "size=1m,nr_inodes=6")
    with Checkpoint(directory / "state", FORMAT) as checkpoint:
        checkpoint.load()
        checkpoint.save(OLD)
        (directory / "state.lock").unlink()
        made = 0
        try:
            for made in range(10):
                (directory / f"filler{made}").touch()
        except OSError:
            pass
    with Checkpoint(directory / "state", FORMAT) as checkpoint:
        data = checkpoint.load().data
        error = attempt(checkpoint, NEW)
        (directory / "filler0").unlink()
        (directory / "filler1").unlink()
        recovered = not attempt(checkpoint, NEW)
    return [] if data == OLD and "inodes" in error and recovered else [f"no inodes: {error!r} {recovered=}"]


def read_only(directory: Path) -> list[str]:
    """A damaged file on a read-only disk is told, not moved, and not overwritten when the disk comes back."""
    mount(directory, "size=1m")
    (directory / "state").write_bytes(b"damaged")
    mount(directory, "size=1m", _MS_REMOUNT | _MS_RDONLY)
    with Checkpoint(directory / "state", FORMAT) as checkpoint:
        loaded = checkpoint.load()
        error = attempt(checkpoint, NEW)
        mount(directory, "size=1m", _MS_REMOUNT)
        later = attempt(checkpoint, NEW)
    kept = [path.read_bytes() for path in directory.glob("state.corrupt-*")]
    told = loaded.set_aside is not None and loaded.set_aside.moved_to is None
    fine = told and "read-only" in error and not later and kept == [b"damaged"]
    return [] if fine else [f"read-only: {loaded} {error!r} {later!r} {kept}"]


def main() -> None:
    """Every amount of free space, a page at a time and around each page boundary."""
    directory = Path(sys.argv[1])
    mount(directory, "size=256k")
    refused, faults, amounts = 0, list[str](), list[int]()
    for page in range(14):
        amounts += [page * 4096 + offset for offset in (0, 1, 2048, 4095)]
    for free in amounts:
        failed, found = try_with(directory, free)
        refused += failed
        faults += found
    faults += no_inodes(directory) + read_only(directory)
    print(json.dumps({"tried": len(amounts), "refused": refused, "faults": faults}))


if __name__ == "__main__":
    main()
