"""Kubernetes' sample-device-plugin makes a file for each of its devices, in /tmp, wherever it runs."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILES = (Path("/tmp/Dev-1"), Path("/tmp/Dev-2"))


@contextmanager
def sample_files() -> Iterator[None]:
    """Around whatever runs it: one user of the files at a time on this machine, and none is left."""
    with Path(__file__).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            for file in FILES:
                file.unlink(missing_ok=True)
