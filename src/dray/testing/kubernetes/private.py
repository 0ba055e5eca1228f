"""The private directory of one cluster, cleaned up however its owner ends.

Three layers: the owner sweeps when it leaves; a small process of its own sweeps when the owner dies without (its
stdin closes, even after SIGKILL); and the next cluster to start sweeps what both left.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from dray.testing.kubernetes import leftovers

REAPER_TIMEOUT_S = 30.0


class PrivateDirectory:
    """Made at once; `close` removes it with everything that belongs to it, and may be called once."""

    def __init__(self) -> None:
        leftovers.sweep_dead()
        self.path, self._lock = leftovers.make_directory()
        (self.path / "logs").mkdir()
        self._reaper = subprocess.Popen(
            [sys.executable, "-m", "dray.testing.kubernetes", "reap", str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(self._lock,),  # the lock is held until both are gone
            cwd="/",
            start_new_session=True,
        )

    @property
    def reaper_pid(self) -> int:
        """The process that sweeps after the owner."""
        return self._reaper.pid

    def close(self) -> None:
        """Sweep, then let the reaper end."""
        try:
            leftovers.sweep(self.path)
        finally:
            os.close(self._lock)
            self._reaper.communicate(timeout=REAPER_TIMEOUT_S)

    def save_logs(self, parent: Path) -> Path:
        """Copy the logs to a directory of their own below `parent`."""
        target = parent / self.path.name.removeprefix(leftovers.PREFIX)
        # The kubelet's `containers` holds links only, which lead nowhere from outside.
        shutil.copytree(
            self.path / "logs", target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("containers")
        )
        return target
