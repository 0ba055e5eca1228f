"""Make the namespaces that the containers of a pod share: `python -I -S namespaces.py DIRECTORY HOSTNAME KIND...`.

A script of its own, because a process that enters new namespaces stays there. They are held by bind mounts on files
named like the kinds (ipc, net, uts), so no process has to live for them. In a new network only loopback is up.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import sys

_FLAGS = {"ipc": 0x08000000, "net": 0x40000000, "uts": 0x04000000}
_MS_BIND = 0x1000
_MNT_DETACH = 2
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1


def _raise_loopback() -> None:
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as handle:
        fcntl.ioctl(handle, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))


def _checked(result: int, doing: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{doing}: {os.strerror(code)}")


def main(directory: str, hostname: str, kinds: list[str]) -> None:
    """What is there and whole is left as it is: an earlier call may still run when its kubelet was killed."""
    libc = ctypes.CDLL(None, use_errno=True)
    lock = os.open(f"{directory}/making", os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    targets = {kind: f"{directory}/{kind}" for kind in kinds}
    if all(_is_held(target) for target in targets.values()):
        return
    for target in targets.values():
        os.close(os.open(target, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        while _is_held(target):
            _checked(libc.umount2(os.fsencode(target), _MNT_DETACH), f"cannot unmount {target}")
    flags = 0
    for kind in kinds:
        flags |= _FLAGS[kind]
    _checked(libc.unshare(flags), "cannot make namespaces")
    if "uts" in kinds:
        socket.sethostname(hostname)
    if "net" in kinds:
        _raise_loopback()
    for kind, target in targets.items():
        source = f"/proc/self/ns/{kind}".encode()
        result = libc.mount(source, os.fsencode(target), None, ctypes.c_ulong(_MS_BIND), None)
        _checked(result, f"cannot hold the {kind} namespace")


def _is_held(target: str) -> bool:
    try:
        return os.stat(target).st_dev == os.stat("/proc/self/ns/mnt").st_dev  # noqa: PTH116
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], sys.argv[3:])
    except OSError as error:
        sys.exit(str(error.strerror))
