"""`dray up` as a user starts it: a process of its own, and the other commands beside it."""

from __future__ import annotations

import io
import logging
import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

from dray.cli.main import main
from dray.up.choice import free_port
from dray.up.place import RunningUp, UpPlace
from tests.waiting import PATIENCE, block_until

DRAY = (sys.executable, "-m", "dray")


@dataclass(frozen=True)
class Answer:
    """What a command gave."""

    returncode: int
    stdout: str
    stderr: str


def dray(*words: str) -> Answer:
    """Run a command to its end in this process, which nobody can be asked in: a new one takes seconds on a busy machine."""
    out, err = io.StringIO(), io.StringIO()
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main(words)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    return Answer(code, out.getvalue(), err.getvalue())


def dray_apart(*words: str) -> Answer:
    """The same in a process of its own, for those that leave something running."""
    done = subprocess.run(
        [*DRAY, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


@dataclass
class UpProgram:
    """One on `place`, in the foreground; may be started again. Its port is one that nobody else in the tests has."""

    place: UpPlace
    words: tuple[str, ...] = ("--runtime", "process")
    environment: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def flag(self) -> tuple[str, str]:
        """Which one it is, for other commands."""
        return "--data-dir", str(self.place.data_dir)

    @property
    def out(self) -> str:
        return self._file("out").read_text()

    @property
    def err(self) -> str:
        return self._file("err").read_text()

    def start(self, *more: str) -> RunningUp:
        """Return when it is ready."""
        listen = (
            ()
            if "--listen" in more or self.place.kubeconfig.exists()
            else ("--listen", f"127.0.0.1:{self.port}")
        )
        with self._file("out").open("wb") as out, self._file("err").open("wb") as err:
            self._process = subprocess.Popen(
                [*DRAY, "up", *self.flag, *self.words, *listen, *more],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **self.environment},
            )
        process = self._process

        def is_ready() -> bool:
            assert process.poll() is None, self.err
            known = self.place.read(RunningUp)
            return known is not None and known.pid == process.pid

        block_until(is_ready, "dray up")
        found = self.place.read(RunningUp)
        assert found is not None
        return found

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(PATIENCE)

    def end(self) -> None:
        """However the test went: nothing is left running."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE)
        dray("down", "--purge", "--yes", *self.flag)

    def _file(self, name: str) -> Path:
        return self.place.data_dir.with_name(f"{self.place.data_dir.name}.{name}")
