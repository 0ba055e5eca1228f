"""Runs inside the guest: starts programs and reports what they print, one JSON line at a time over a serial port.

Of the standard library alone, so that it starts fast there and works with any virtual environment. Requests:
`start` (argv, env), `input` (text; null closes), `signal` (number), `write` (path, text). Each names the `id` of a
program, or of the request. Answers: `pid`, `out`, `err` (text), `exit` (status), `done`, `failed` (why), and `ready` once.
"""

from __future__ import annotations

import codecs
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHUNK = 65536


class Input:
    """What a program is still to read. Written when it has room: one that does not read must not stop the others."""

    def __init__(self, selector: selectors.BaseSelector, pipe: Any) -> None:
        self.selector = selector
        self.pipe = pipe
        self.waiting = b""
        self.ends = False
        self.registered = False
        os.set_blocking(pipe.fileno(), False)

    def add(self, data: bytes | None) -> None:
        """More to read; None: no more will come."""
        self.waiting += data or b""
        self.ends = self.ends or data is None
        self.write()

    def write(self) -> None:
        """Write what fits, and come back for the rest."""
        if self.pipe.closed:
            return
        try:
            while self.waiting:
                self.waiting = self.waiting[os.write(self.pipe.fileno(), self.waiting) :]
        except BlockingIOError:
            self.watch()
            return
        except BrokenPipeError:
            self.waiting, self.ends = b"", True
        self.unwatch()
        if self.ends:
            self.close()

    def close(self) -> None:
        """Let the program read the end."""
        self.unwatch()
        self.pipe.close()

    def watch(self) -> None:
        """Be called when there is room."""
        if not self.registered:
            self.selector.register(self.pipe, selectors.EVENT_WRITE, self.write)
            self.registered = True

    def unwatch(self) -> None:
        """No longer."""
        if self.registered:
            self.selector.unregister(self.pipe)
            self.registered = False


class Agent:
    """Serves one port until it closes."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.selector = selectors.DefaultSelector()
        self.programs: dict[int, subprocess.Popen[bytes]] = {}
        self.inputs: dict[int, Input] = {}
        self.pending = b""
        self.handlers: dict[str, Callable[[int, dict[str, Any]], None]] = {
            "start": self.start,
            "input": self.input,
            "signal": self.signal,
            "write": self.write,
        }

    def serve(self) -> None:
        """Say that we are ready, then work."""
        self.selector.register(self.port, selectors.EVENT_READ, self.read_requests)
        self.send(0, "ready", True)
        while True:
            for key, _ in self.selector.select():
                key.data()

    def send(self, id_: int, what: str, value: Any) -> None:
        """Write one line; it blocks until the other side takes it."""
        data = json.dumps({"id": id_, what: value}).encode() + b"\n"
        while data:
            data = data[os.write(self.port, data) :]

    def read_requests(self) -> None:
        """Take what is there; a line may come in pieces."""
        data = os.read(self.port, CHUNK)
        if not data:
            raise SystemExit("the machine closed the port")
        *lines, self.pending = (self.pending + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            try:
                self.handlers[request["do"]](request["id"], request)
            except OSError as error:
                self.send(request["id"], "failed", str(error))

    def start(self, id_: int, request: dict[str, Any]) -> None:
        """Start a program in a session of its own."""
        pipe = subprocess.PIPE
        program = subprocess.Popen(
            request["argv"],
            env=request["env"],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            cwd="/tmp",  # noqa: S108 - the guest has nobody else
            start_new_session=True,
        )
        self.programs[id_] = program
        self.send(id_, "pid", program.pid)
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stderr is not None
        self.inputs[id_] = Input(self.selector, program.stdin)
        flushes = [self.follow(id_, "out", program.stdout), self.follow(id_, "err", program.stderr)]
        ended = os.pidfd_open(program.pid)

        def report() -> None:
            self.selector.unregister(ended)
            os.close(ended)
            status = program.wait()
            for flush in flushes:
                flush()
            del self.programs[id_]
            self.inputs.pop(id_).close()
            self.send(id_, "exit", status)

        self.selector.register(ended, selectors.EVENT_READ, report)

    def follow(self, id_: int, name: str, pipe: Any) -> Callable[[], None]:
        """Report what comes out of a pipe; the result reports what is left in it and closes it."""
        os.set_blocking(pipe.fileno(), False)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")

        def forward() -> bool:
            if pipe.closed:  # by the end of the program, which was told with this
                return False
            try:
                data = os.read(pipe.fileno(), CHUNK)
            except BlockingIOError:
                return False
            text = decoder.decode(data, final=not data)
            if text:
                self.send(id_, name, text)
            if not data:
                close()
            return bool(data)

        def close() -> None:
            self.selector.unregister(pipe)
            pipe.close()

        def flush() -> None:
            while not pipe.closed and forward():
                pass
            if not pipe.closed:  # a child of the program still holds it
                close()

        self.selector.register(pipe, selectors.EVENT_READ, forward)
        return flush

    def input(self, id_: int, request: dict[str, Any]) -> None:
        """Give a program something to read, as fast as it does. One that has ended reads nothing more."""
        if id_ in self.inputs:
            text = request["text"]
            self.inputs[id_].add(None if text is None else text.encode())

    def signal(self, id_: int, request: dict[str, Any]) -> None:
        """Signal a program and its children."""
        program = self.programs.get(id_)
        if program is not None and program.poll() is None:
            os.killpg(program.pid, signal.Signals(request["number"]))

    def write(self, id_: int, request: dict[str, Any]) -> None:
        """Write a file whole: readers see the old or the new one."""
        path = Path(request["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + ".new")
        unfinished.write_text(request["text"])
        unfinished.replace(path)
        self.send(id_, "done", True)


if __name__ == "__main__":
    Agent(os.open(sys.argv[1], os.O_RDWR)).serve()
