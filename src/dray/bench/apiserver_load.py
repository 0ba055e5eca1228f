"""The clients of the benchmark, in a process of their own: `python -m dray.bench.apiserver_load`, told by one line of JSON."""

from __future__ import annotations

import json
import re
import resource
import selectors
import ssl
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

import msgspec

from dray.bench.apiserver_connection import READ_BYTES, Answer, Target, connect, target_of
from dray.bench.apiserver_loads import Asking, Writes, request_of
from dray.errors import Error, ProtocolError

_SECONDS: Final = 300.0
_CONTINUE: Final = re.compile(rb'"continue":"([^"]+)"')


@dataclass(frozen=True, slots=True)
class Listed:
    """One list, whole or in pages. Seconds from the first request to the first and to the last byte."""

    first: float
    last: float
    size: int
    items: int


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


class Writer:
    """A connection with one request on its way."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self.connection = connection
        self._started = 0.0
        self._answer = Answer()
        self._asked = ""

    def send(self, request: bytes) -> None:
        """Requests are small, so there is room for them."""
        self._answer = Answer()
        self._asked = request.split(b"\r\n", 1)[0].decode()
        self._started = time.monotonic()
        self.connection.sendall(request)

    def read(self) -> float | None:
        """Seconds since the request, when the answer is complete."""
        while True:
            try:
                piece = self.connection.recv(READ_BYTES)
            except ssl.SSLWantReadError:
                return None
            if not piece:
                raise ProtocolError(f"{self._asked}: the connection was closed")
            if self._answer.feed(piece):
                self._answer.check(self._asked)
                return time.monotonic() - self._started


def write(target: Target, load: Writes) -> dict[str, Any]:
    """All requests of a load: seconds in all, and of each."""
    tls = target.tls()
    requests = [target.encode(request_of(load, load.first + number)) for number in range(load.count)]
    requests.reverse()
    writers = [Writer(connect(target, tls)) for _ in range(min(load.writers, load.count))]
    times: list[float] = []
    with selectors.EpollSelector() as waiting:
        for writer in writers:
            writer.connection.setblocking(False)
            waiting.register(writer.connection, selectors.EVENT_READ, writer)
        started = time.monotonic()
        for writer in writers:
            writer.send(requests.pop())
        while len(times) < load.count:
            ready = waiting.select(_SECONDS)
            if not ready:
                raise ProtocolError(f"{load.name}: no answer for {_SECONDS:.0f} s")
            for key, _ in ready:
                spent = key.data.read()
                if spent is not None:
                    times.append(spent)
                    if requests:
                        key.data.send(requests.pop())
        total = time.monotonic() - started
    for writer in writers:
        writer.connection.close()
    return {"total": total, "times": times}


def list_all(target: Target, path: str, limit: int) -> Listed:
    """One list; what it had is counted after the clock was stopped."""
    connection = connect(target, target.tls())
    answers: list[Answer] = []
    token, first = "", 0.0
    started = time.monotonic()
    while True:
        query = f"?limit={limit}" + (f"&continue={token}" if token else "") if limit else ""
        answer, began = _timed(connection, target, Asking("GET", path + query))
        first = first or began - started
        answers.append(answer)
        found = _CONTINUE.search(answer.data, 0, 4096)
        if found is None:
            break
        token = found[1].decode()
    last = time.monotonic() - started
    connection.close()
    items = sum(len(msgspec.json.decode(answer.body(), type=_Items).items) for answer in answers)
    return Listed(first, last, sum(len(answer.data) for answer in answers), items)


def _timed(connection: ssl.SSLSocket, target: Target, asking: Asking) -> tuple[Answer, float]:
    connection.sendall(target.encode(asking))
    answer, buffer, began = Answer(), bytearray(READ_BYTES), 0.0
    view = memoryview(buffer)
    while True:
        count = connection.recv_into(buffer)
        began = began or time.monotonic()
        if not count:
            raise ProtocolError(f"GET {asking.path}: the connection was closed")
        if answer.feed(view[:count]):
            answer.check(f"GET {asking.path}")
            return answer, began


def say(line: str) -> None:
    """To the process that started this one."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Do what the line on stdin says; the answer is one line, or what `apiserver_watchers.py` says."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit != hard_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    told = json.loads(sys.stdin.readline())
    target = target_of(told["target"])
    answer: Any
    try:
        if told["do"] == "write":
            answer = write(target, Writes(**told["load"]))
        elif told["do"] == "list":
            answer = asdict(list_all(target, told["path"], told["limit"]))
        else:
            from dray.bench.apiserver_watchers import follow

            follow(target, told["path"], told["watchers"], say)
            return
    except (Error, OSError) as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    say(json.dumps(answer))


if __name__ == "__main__":
    main()
