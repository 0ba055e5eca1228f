"""Swap two names in one step (RENAME_EXCHANGE) without pause until killed. Arguments: one path, the other path."""

from __future__ import annotations

import ctypes
import os
import sys

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def main() -> None:
    one, other = os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2])
    swap = ctypes.CDLL(None, use_errno=True).renameat2
    if swap(_AT_FDCWD, one, _AT_FDCWD, other, _RENAME_EXCHANGE) != 0:
        raise SystemExit(f"cannot swap: {os.strerror(ctypes.get_errno())}")
    print("swapping", flush=True)
    while True:
        swap(_AT_FDCWD, one, _AT_FDCWD, other, _RENAME_EXCHANGE)


if __name__ == "__main__":
    main()
