"""The machine's side of the serial port: programs that run in the guest, as values to wait for and to talk to."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from dray.errors import UnavailableError

_CHUNK = 1 << 16


class GuestProgram:
    """One program in the guest. `stdout` and `stderr` are what it has printed so far; methods may be called by any thread."""

    def __init__(self, link: Link, id_: int, argv: Sequence[str]) -> None:
        self.argv = list(argv)
        self.stdout = ""
        self.stderr = ""
        self.returncode: int | None = None
        self.failure = ""
        self._pid = 0
        self._link = link
        self._id = id_
        self._read = 0

    @property
    def pid(self) -> int:
        """Its process id in the guest; waits for its start."""
        self._link.wait_for(lambda: self._pid > 0, 60.0, f"the start of {self._named}", self)
        return self._pid

    def write(self, text: str) -> None:
        """Give it something to read."""
        self._link.send(self._id, "input", text=text)

    def close_input(self) -> None:
        """Let it read the end of its input."""
        self._link.send(self._id, "input", text=None)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and its children; nothing happens where it has ended."""
        self._link.send(self._id, "signal", number=int(number))

    def wait(self, timeout: float) -> int:
        """Wait for its end and return the status, negative for a signal."""
        self._link.wait_for(lambda: self.returncode is not None, timeout, f"the end of {self._named}", self)
        assert self.returncode is not None
        return self.returncode

    def read_line(self, timeout: float) -> str:
        """The next line that it prints, without its end; lines are not lost when nobody waits."""
        wanted = f"a line from {self._named}"
        self._link.wait_for(lambda: "\n" in self.stdout[self._read :], timeout, wanted, self)
        end = self.stdout.index("\n", self._read)
        line, self._read = self.stdout[self._read : end], end + 1
        return line

    def stop(self, timeout: float = 20.0) -> None:
        """Ask it to end and wait; kill it after `timeout` seconds. Does nothing where it has ended."""
        if self.returncode is not None:
            return
        self.signal(signal.SIGTERM)
        try:
            self.wait(timeout)
        except UnavailableError:
            self.kill()

    def kill(self) -> None:
        """Kill it (SIGKILL) and wait until it is gone; does nothing where it has ended."""
        if self.returncode is None:
            self.signal(signal.SIGKILL)
            self.wait(20.0)

    def take(self, said: dict[str, Any]) -> None:
        """Called by the reader with what the guest says of it."""
        self.stdout += said.get("out", "")
        self.stderr += said.get("err", "")
        self.failure = said.get("failed", self.failure)
        self.returncode = said.get("exit", self.returncode)
        self._pid = said.get("pid", self._pid)

    @property
    def _named(self) -> str:
        return f"`{' '.join(self.argv)[:200]}` in the guest"


class Link:
    """The connection, which it owns. A thread of its own takes what the guest says, so that programs never wait for a reader."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._programs: dict[int, GuestProgram] = {}
        self._answers: dict[int, str] = {}
        self._last = 0
        self._ready = False
        self._closed = False
        self._reader = threading.Thread(target=self._read, name="guest", daemon=True)
        self._reader.start()

    @property
    def is_ready(self) -> bool:
        """Whether the guest has said that it takes requests."""
        return self._ready

    def start(self, argv: Sequence[str], env: Mapping[str, str]) -> GuestProgram:
        """Start a program; returns before it runs."""
        id_ = self._next()
        program = GuestProgram(self, id_, argv)
        with self._changed:
            self._programs[id_] = program
        self.send(id_, "start", argv=list(argv), env=dict(env))
        return program

    def write_file(self, path: str, text: str, timeout: float) -> None:
        """Write a file in the guest and wait until it is there."""
        id_ = self._next()
        self.send(id_, "write", path=path, text=text)
        self.wait_for(lambda: id_ in self._answers, timeout, f"{path} to be written in the guest")
        if failure := self._answers.pop(id_):
            raise UnavailableError(f"{path} was not written in the guest: {failure}")

    def send(self, id_: int, do: str, **values: Any) -> None:
        """Send one request."""
        line = json.dumps({"id": id_, "do": do, **values}).encode() + b"\n"
        try:
            with (
                self._sending
            ):  # not the other lock: the reader must go on, or both sides wait for each other
                self._socket.sendall(line)
        except OSError as error:
            raise UnavailableError(f"the guest is gone: {error}") from error

    def wait_for(
        self, condition: Callable[[], bool], timeout: float, what: str, program: GuestProgram | None = None
    ) -> None:
        """Wait until it is true; UnavailableError after `timeout`, when the guest is gone or the program has ended."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not condition():
                left = deadline - time.monotonic()
                ended = program is not None and (program.returncode is not None or program.failure)
                if self._closed or ended or left <= 0:
                    why = "the guest is gone" if self._closed else f"not in {timeout:g} s"
                    raise UnavailableError(f"waited for {what}: {_ending(program) if ended else why}")
                self._changed.wait(left)

    def close(self) -> None:
        """Close the connection and wait for the reader."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        with suppress(OSError):  # the other side was faster
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join(10.0)
        self._socket.close()

    def _next(self) -> int:
        with self._changed:
            self._last += 1
            return self._last

    def _read(self) -> None:
        pending = b""
        try:
            while data := self._socket.recv(_CHUNK):
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
        except OSError:  # the guest died; those who wait are told below
            pass
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _take(self, said: dict[str, Any]) -> None:
        with self._changed:
            program = self._programs.get(said["id"])
            if "ready" in said:
                self._ready = True
            elif program is None:
                self._answers[said["id"]] = said.get("failed", "")
            else:
                program.take(said)
            self._changed.notify_all()


def _ending(program: GuestProgram | None) -> str:
    assert program is not None
    if program.failure:
        return f"it did not start: {program.failure}"
    return f"it ended with status {program.returncode}: {program.stderr.strip()[-2000:]}"
