"""One running program of the cluster, with its log file; and waiting with a deadline."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dray.errors import UnavailableError

# Every program of a cluster carries this variable with the private directory as value; leftovers are found by it.
MARKER = "DRAY_E2E_CLUSTER"
POLL_S = 0.05
TAIL_LINES = 15


class Part:
    """A program that runs until it is stopped. `start` may be called again after `stop` or `kill`."""

    def __init__(
        self, name: str, argv: Sequence[str | Path], directory: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.argv = [str(word) for word in argv]
        self.log = directory / "logs" / f"{name}.log"
        self._env = {**environment(directory), **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the program in a session of its own, so that Ctrl-C reaches only the one who stops the cluster."""
        if self.is_running:
            raise UnavailableError(f"{self.name} is already running; stop it first.")
        self.log.parent.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        """Whether the program has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """The exit status of the last run; None while it runs or before it was started."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int:
        """The process id of the running program."""
        if self._process is None:
            raise UnavailableError(f"{self.name} has not been started.")
        return self._process.pid

    def stop(self, timeout: float = 10.0) -> None:
        """Ask it to end, wait, and kill it after `timeout` seconds. Does nothing when it does not run."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill it (SIGKILL) and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10.0)

    def require_running(self) -> None:
        """Raise with the end of the log when the program has ended by itself."""
        if not self.is_running:
            raise UnavailableError(
                f"{self.name} ended with status {self.returncode}; its log ends: {self.tail(3)}"
            )

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines of the log."""
        return last_lines(self.log, lines)


def environment(directory: Path) -> dict[str, str]:
    """The environment of every part: nothing of the caller's but PATH, so that a proxy or locale changes nothing."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(directory), MARKER: str(directory)}


def last_lines(path: Path, lines: int = TAIL_LINES) -> str:
    """The end of a text file; empty when there is none."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            file.seek(max(0, size - 200 * 1024))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def wait_until(
    condition: Callable[[], bool], what: str, timeout: float, parts: Sequence[Part] = (), poll: float = POLL_S
) -> None:
    """Wait until `condition()` is true. Raise when `timeout` seconds pass or when one of `parts` ends meanwhile."""
    deadline = time.monotonic() + timeout
    while not condition():
        for part in parts:
            part.require_running()
        if time.monotonic() > deadline:
            tails = "; ".join(f"{part.name}: {part.tail(1)}" for part in parts)
            raise UnavailableError(f"waited {timeout:.0f} s in vain for {what}. {tails}")
        time.sleep(poll)
