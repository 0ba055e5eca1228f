"""Linux file leases: be told before anyone opens a file for writing, and let them wait until we are ready.

A read lease lets readers through. A writer's open() sleeps in the kernel until the holder gives the lease up (45 s at
most, `fs.lease-break-time`), and the holder's thread gets SIGIO. Works for the owner of the file, without root, on ext4,
xfs, btrfs and tmpfs. A writer that opens with O_NONBLOCK gets EAGAIN instead of waiting.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import struct
import threading

_F_SETOWN_EX = 15
_F_OWNER_TID = 0

_libc = ctypes.CDLL(None, use_errno=True)


def open_signals() -> int:
    """A descriptor that turns readable when a lease of the calling thread is being broken (SIGIO, for it alone)."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
    mask = (ctypes.c_uint64 * 16)(1 << (signal.SIGIO - 1))
    descriptor: int = _libc.signalfd(-1, ctypes.byref(mask), os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "signalfd")
    return descriptor


def take(descriptor: int, thread: int) -> bool:
    """Lease a file that nobody has open for writing; False where the file system or the owner does not allow it."""
    try:
        fcntl.fcntl(descriptor, _F_SETOWN_EX, struct.pack("ii", _F_OWNER_TID, thread))
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError:
        return False
    return True


def is_breaking(descriptor: int) -> bool:
    """Whether someone waits to open the file for writing (or the kernel took the lease after its time limit)."""
    return fcntl.fcntl(descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK


def release(descriptor: int) -> None:
    """Let the waiting writers go on."""
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def current_thread() -> int:
    """The kernel's number of this thread, for `take`."""
    return threading.get_native_id()
