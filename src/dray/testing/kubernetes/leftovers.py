"""Remove everything a cluster made on this machine, whether it was left in order or killed.

A cluster is known by its private directory. Its processes carry the directory in their environment, or sit in its
cgroup (containers); its mounts live in a mount namespace of its own and end with its processes.
`sweep` may run twice, and on a directory that is half removed.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import socket
import stat
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dray.errors import UnavailableError
from dray.testing.kubernetes.part import MARKER

PARENT = Path("/tmp")  # noqa: S108 - a unix socket path holds 107 characters, so it must be short; entries are 0700
PREFIX = "dray-e2e-"
CGROUPS = Path("/sys/fs/cgroup")
KUBELET_DIR = Path("/var/lib/kubelet")
CNI_DIR = Path("/var/lib/cni")
HOST_DIRS = (KUBELET_DIR, CNI_DIR)
"""What a node's parts write to whatever they are told: a cluster mounts its own directories there, in its own namespace."""
# Says that a cluster, not the machine's owner, made the directory.
MARK = ".made-by-dray-e2e"
CHECKS = Path("/run/dray-check.lock")
"""Held by every `dray check` that mounts over KUBELET_DIR; names the directories that were made for them."""
LOCK = "lock"
KILL_TIMEOUT_S = 20.0
_MNT_DETACH = 2
_SIOCSIFFLAGS = 0x8914
_SIOCBRDELBR = 0x89A1


def bridge_name(directory: Path) -> str:
    """The network bridge of a cluster (an interface name holds 15 characters)."""
    return "dray" + directory.name.removeprefix(PREFIX)


def cgroup_dirs(directory: Path) -> list[Path]:
    """The cgroup of a cluster in every hierarchy where it exists."""
    roots = [CGROUPS, *sorted(path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink())]
    found = [root / directory.name for root in roots]
    return [path for path in found if path.is_dir()]


def make_directory() -> tuple[Path, int]:
    """A new private directory, and its lock, which is held until the descriptor and every copy of it is closed.

    The lock gets its name when it is held: one that others could find before would be tried by them in that moment,
    and the directory taken for that of a dead owner.
    """
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PARENT))
    unnamed = directory / f"{LOCK}.new"
    descriptor = _lock(unnamed)
    unnamed.rename(directory / LOCK)
    return directory, descriptor


def take_lock(directory: Path) -> int:
    """Lock a directory whose owner is dead, as `make_directory` does; BlockingIOError where somebody else has, or looks."""
    return _lock(directory / LOCK)


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    return descriptor


def is_live(directory: Path) -> bool:
    """Whether the owner of a cluster, or the process that cleans up after it, is alive."""
    try:
        descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        # Made a moment ago and not locked yet, or half removed.
        with suppress(FileNotFoundError):
            return time.time() - directory.stat().st_mtime < 60
        return False
    try:
        # Shared: two that look at the same time do not take each other for the owner.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def directories() -> list[Path]:
    """The private directories of all clusters on this machine, ours only (others could make such a name too)."""
    return [path for path in sorted(PARENT.glob(f"{PREFIX}*")) if _is_ours(path)]


def _is_ours(path: Path) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def sweep_dead() -> list[Path]:
    """Remove what clusters left whose owner died without cleaning up; those of a live owner are not touched."""
    swept = []
    for directory in directories():
        if is_live(directory):
            continue
        try:
            lock = take_lock(directory)
        except (BlockingIOError, FileNotFoundError):
            continue  # another one was faster
        try:
            sweep(directory)
        finally:
            os.close(lock)
        swept.append(directory)
    return swept


def sweep(directory: Path) -> None:
    """Kill the cluster's processes and remove its cgroups, bridge, mounts and directory."""
    _kill_all(directory)
    for cgroup in cgroup_dirs(directory):
        _remove_cgroup(cgroup)
    _remove_bridge(bridge_name(directory))
    for mount in reversed(mounts(directory)):
        _unmount(mount)
    if mounts(directory):
        raise UnavailableError(f"{directory} still has mounts ({mounts(directory)}), so it is not removed.")
    shutil.rmtree(directory, ignore_errors=True)
    # A second look: a process that was just dying may have written once more.
    if directory.exists():
        shutil.rmtree(directory)
    release_host_dirs()


def remains(directory: Path, ports: tuple[int, ...] = ()) -> list[str]:
    """What of a cluster is still on this machine, as readable lines; empty after a clean stop."""
    found = [f"process {pid}: {_command(pid)}" for pid in processes(directory)]
    found += [f"cgroup {path}" for path in cgroup_dirs(directory)]
    found += [f"mount {path}" for path in mounts(directory)]
    found += [f"port {port}" for port in ports if _is_listening(port)]
    paths = [directory, Path("/sys/class/net") / bridge_name(directory)]
    return found + [f"file {path}" for path in paths if path.exists()]


def processes(directory: Path) -> list[int]:
    """The cluster's processes: those that carry its marker and those in its cgroup."""
    marker = f"{MARKER}={directory}".encode()
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and marker in _environment(entry):
            found.add(int(entry.name))
    for cgroup in cgroup_dirs(directory):
        for folder in _tree(cgroup):
            with suppress(OSError):
                found.update(int(line) for line in (folder / "cgroup.procs").read_text().split())
    return sorted(found - {0, os.getpid()})


def mounts(directory: Path) -> list[Path]:
    """Mount points at or below the directory, in this process's mount namespace, in mount order."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [Path(line.split(" ")[4].encode().decode("unicode_escape")) for line in lines]
    return [point for point in points if point.is_relative_to(directory)]


@contextmanager
def host_dirs_lock() -> Iterator[None]:
    """Held while one of HOST_DIRS is made or removed, so that two clusters, or a cluster and a check, do not cross."""
    descriptor = os.open(KUBELET_DIR.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def claim_host_dirs() -> None:
    """Make those of HOST_DIRS that do not exist, so that a cluster can mount its own over them."""
    with host_dirs_lock():
        for directory in HOST_DIRS:
            if not directory.exists():
                directory.mkdir(mode=0o755)
                (directory / MARK).touch()


def release_host_dirs() -> None:
    """Remove those that a cluster made and nobody else needs: removing one would undo their mount. Checks get them instead."""
    with host_dirs_lock():
        made = [directory for directory in HOST_DIRS if (directory / MARK).exists()]
        if not made or any(is_live(other) for other in directories()):
            return
        with CHECKS.open("a") as checks:
            for directory in made:
                (directory / MARK).unlink()
                if _is_held(checks.fileno()):
                    checks.write(f"{directory}\n")
                else:
                    with suppress(OSError):
                        directory.rmdir()


def pass_on_host_dir(directory: Path) -> bool:
    """Whether a cluster needs a directory that a check made; the last cluster removes it then. Call with `host_dirs_lock`."""
    if directory not in HOST_DIRS or not any(is_live(other) for other in directories()):
        return False
    (directory / MARK).touch()
    return True


def made_for_checks() -> set[Path]:
    """The directories that checks made which run now."""
    if not CHECKS.exists():
        return set()
    with CHECKS.open("r") as checks:
        is_held = _is_held(checks.fileno())
        return {Path(text).resolve() for text in checks.read().splitlines()} if is_held else set()


def _is_held(lock: int) -> bool:
    """Whether somebody else holds it; it is not ours afterwards either."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(lock, fcntl.LOCK_UN)
    return False


def _environment(process: Path) -> list[bytes]:
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return "?"


def _kill_all(directory: Path) -> None:
    """Kill until none is left: a dying shim or kubelet may still have started one more."""
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while found := processes(directory):
        if time.monotonic() > deadline:
            names = ", ".join(f"{pid} ({_command(pid)})" for pid in found)
            raise UnavailableError(f"processes of {directory} do not end after SIGKILL: {names}.")
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _tree(cgroup: Path) -> list[Path]:
    """A cgroup and those below it, parents first. Somebody else may be removing them: what is gone is left out."""
    return [Path(folder) for folder, _, _ in os.walk(cgroup)]


def _remove_cgroup(cgroup: Path) -> None:
    """Remove a cgroup and its children, deepest first. The kernel says "busy" for a moment after the last exit."""
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while cgroup.is_dir():
        for path in reversed(_tree(cgroup)):
            with suppress(OSError):
                path.rmdir()
        if cgroup.is_dir():
            if time.monotonic() > deadline:
                raise UnavailableError(f"the cgroup {cgroup} cannot be removed: something still runs in it.")
            time.sleep(0.05)


def _remove_bridge(name: str) -> None:
    """Take the bridge down and delete it, by ioctl: the machine may have no `ip` command."""
    if not (Path("/sys/class/net") / name).exists():
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH22x", name.encode(), 0))
        fcntl.ioctl(control, _SIOCBRDELBR, struct.pack("16s24x", name.encode()))


def _unmount(path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(os.fsencode(path), _MNT_DETACH) != 0:
        error = ctypes.get_errno()
        raise UnavailableError(f"cannot unmount {path}: {os.strerror(error)}.")


def _is_listening(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
