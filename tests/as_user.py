"""Run a command as a user without any right: `python -m tests.as_user COMMAND…`, for tests that root would skip.

Root gets a user namespace in which its own files belong to user 1000, and other users exist too, so that Python and the
clone may be anywhere. Anybody else is such a user already.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

USER = 1000
_CLONE_NEWUSER = 0x10000000
_IDS = f"{USER} 0 1\n0 100000 {USER}\n{USER + 1} {100000 + USER + 1} 60000\n"
"""Inside, outside, how many: USER is root outside."""


def become_user(command: list[str]) -> None:
    """In the child, once its ids mean something. The capabilities go with the exec."""
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    os.execvp(command[0], command)


def main(command: list[str]) -> int:
    """The command's exit code."""
    if os.geteuid() != 0:
        os.execvp(command[0], command)
    apart, mapped = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_CLONE_NEWUSER) != 0:
            os.write(2, f"no user namespace: {os.strerror(ctypes.get_errno())}\n".encode())
            os._exit(2)
        os.write(apart[1], b"x")
        os.close(mapped[1])
        if not os.read(mapped[0], 1):
            os._exit(2)
        become_user(command)
    os.close(apart[1])
    if os.read(apart[0], 1):
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{child}/{name}").write_text(_IDS)
        os.write(mapped[1], b"x")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
