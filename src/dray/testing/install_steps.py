"""The commands of an installation: run to their end, tried again when the network fails, with a sign of life."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dray.errors import UnavailableError

ATTEMPTS = 3
PAUSE_S = 5.0
HEARTBEAT_S = 30.0

Say = Callable[[str], None]
"""Gets one line of progress at a time."""
Waiting = Callable[[float], None]
"""Is told now and then for how many seconds a command has been running."""


def run_again(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None, waiting: Waiting | None = None
) -> None:
    """Like `run_step`, but a failure (most often the network) is tried twice more."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            run_step(argv, cwd, env, waiting)
            return
        except UnavailableError:
            if attempt == ATTEMPTS:
                raise
            time.sleep(PAUSE_S * attempt)


def run_step(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None, waiting: Waiting | None = None
) -> None:
    """Run a command to its end; UnavailableError with the end of its output where it fails."""
    started = time.monotonic()
    output = subprocess.PIPE
    with subprocess.Popen(
        ["nice", *argv], cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
    ) as process:
        while True:
            try:
                said, _ = process.communicate(timeout=HEARTBEAT_S)
                break
            except subprocess.TimeoutExpired:
                if waiting is not None:
                    waiting(time.monotonic() - started)
            except BaseException:
                process.kill()
                raise
    if process.returncode != 0:
        why = last_line(said.decode(errors="replace"))
        raise UnavailableError(f"`{' '.join(argv[:3])} ...` failed ({process.returncode}): {why}")


def last_line(text: str) -> str:
    """The last lines that say something, short enough for one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-3:])[-500:] or "no output"
