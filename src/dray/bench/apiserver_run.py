"""One side's whole run: its load is made by other processes, which are told and heard over pipes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from typing import IO, Any, Final

from dray.bench.agent import percentile
from dray.bench.apiserver_connection import Target, ask, connect
from dray.bench.apiserver_load import Listed
from dray.bench.apiserver_loads import CONFIG_MAPS_PATH, Asking, Sizes, Writes, config_map, write_loads
from dray.bench.apiserver_side import Side
from dray.bench.apiserver_watchers import READY
from dray.errors import InvariantError, ProtocolError
from dray.testing.install_steps import Say

_COMMAND: Final = (sys.executable, "-m", "dray.bench.apiserver_load")
_SECONDS: Final = 900.0
_WATCHED: Final = "watched"


@dataclass(frozen=True, slots=True)
class Written:
    """A load of writes: each one's seconds, and those of all together."""

    times: tuple[float, ...]
    total: float

    @property
    def rate(self) -> float:
        """Writes a second."""
        return len(self.times) / self.total

    def milliseconds(self, share: float) -> float:
        """What that share of them did not exceed."""
        return percentile(self.times, share) * 1e3


@dataclass(frozen=True, slots=True)
class Fanned:
    """Seconds from each single write to the last watcher, and deliveries a second when writes do not wait."""

    singles: tuple[float, ...]
    rate: float


@dataclass(frozen=True, slots=True)
class Run:
    """What one side did."""

    writes: tuple[Written, ...]
    whole: Listed
    paged: Listed
    fanned: Fanned
    idle: float
    full: float
    after: float


def run_side(side: Side, sizes: Sizes, say: Say) -> Run:
    """Everything, in the order in which memory is looked at."""
    time.sleep(sizes.rest_seconds)
    idle = side.memory()
    writes = []
    for load in write_loads(sizes):
        say(f"{side.name}: {load.name}, {load.count} times")
        writes.append(_write(side.target, load))
    time.sleep(sizes.rest_seconds)
    full = side.memory()
    say(f"{side.name}: list of {sizes.objects} objects")
    whole, paged = (_best_list(side.target, limit, sizes) for limit in (0, sizes.page))
    say(f"{side.name}: {sizes.watchers} watchers")
    fanned = _fan_out(side.target, sizes)
    time.sleep(sizes.rest_seconds)
    return Run(tuple(writes), whole, paged, fanned, idle, full, side.memory())


def _write(target: Target, load: Writes) -> Written:
    answer = _told(target, do="write", load=asdict(load))
    return Written(tuple(answer["times"]), answer["total"])


def _best_list(target: Target, limit: int, sizes: Sizes) -> Listed:
    """The fastest of several. InvariantError where it has not all objects."""
    lists = [
        Listed(**_told(target, do="list", path=CONFIG_MAPS_PATH, limit=limit))
        for _ in range(sizes.list_rounds)
    ]
    for one in lists:
        if one.items != sizes.objects:
            raise InvariantError(f"the list has {one.items} objects, not {sizes.objects}")
    return min(lists, key=lambda one: one.last)


class _Watched:
    """The object that is changed before everyone's eyes."""

    def __init__(self, target: Target, size: int) -> None:
        self._target = target
        self._size = size
        self._connection = connect(target, target.tls())
        body = json.dumps(config_map(_WATCHED, size)).encode()
        made = ask(self._connection, target, Asking("POST", CONFIG_MAPS_PATH, body=body))
        self.revision = json.loads(made.body())["metadata"]["resourceVersion"]

    def write(self, number: int) -> float:
        """Give it its nth value; gives the time before that."""
        body = json.dumps(config_map(_WATCHED, self._size, mark=f"{number:08}")).encode()
        began = time.monotonic()
        asking = Asking("PUT", f"{CONFIG_MAPS_PATH}/{_WATCHED}", body=body)
        ask(self._connection, self._target, asking)
        return began

    def close(self) -> None:
        """Close the writer's connection."""
        self._connection.close()


def _fan_out(target: Target, sizes: Sizes) -> Fanned:
    with closing(_Watched(target, sizes.bytes_each)) as watched:
        path = f"{CONFIG_MAPS_PATH}?watch=true&resourceVersion={watched.revision}&timeoutSeconds=600"
        with _watchers(target, path, sizes.watchers) as said:
            singles = []
            for number in range(1, sizes.single_events + 1):
                began = watched.write(number)
                singles.append(_wait_event(said, number) - began)
            seconds = _stream(watched, said, sizes)
    return Fanned(tuple(singles), sizes.streamed_events * sizes.watchers / seconds)


def _stream(watched: _Watched, said: IO[str], sizes: Sizes) -> float:
    """Seconds from the first write until everyone has the last."""
    complete, last = sizes.single_events, sizes.single_events + sizes.streamed_events
    started = ended = time.monotonic()
    for number in range(complete + 1, last + 1):
        watched.write(number)
        while number - complete >= sizes.window:
            complete, ended = _next_event(said)
    while complete < last:
        complete, ended = _next_event(said)
    return ended - started


def _wait_event(said: IO[str], number: int) -> float:
    while True:
        event, moment = _next_event(said)
        if event >= number:
            return moment


def _next_event(said: IO[str]) -> tuple[int, float]:
    line = said.readline()
    if not line:
        raise ProtocolError("the watchers ended before they had all events")
    told = json.loads(line)
    if isinstance(told, dict):
        raise ProtocolError(f"the watchers ended: {told['error']}")
    return told[0], told[1]


@contextmanager
def _watchers(target: Target, path: str, watchers: int) -> Iterator[IO[str]]:
    """Entered: all of them watch. Gives what they say."""
    with subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            document = {"target": asdict(target), "do": "watch", "path": path, "watchers": watchers}
            process.stdin.write(json.dumps(document) + "\n")
            process.stdin.flush()
            line = process.stdout.readline().strip()
            if line != READY:
                raise ProtocolError(f"the watchers did not begin: {line}")
            yield process.stdout
            process.stdin.close()
            process.wait(_SECONDS)
        finally:
            process.kill()


def _told(target: Target, **what: Any) -> dict[str, Any]:
    done = subprocess.run(
        _COMMAND,
        input=json.dumps({"target": asdict(target), **what}) + "\n",
        stdout=subprocess.PIPE,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    answer: dict[str, Any] = json.loads(done.stdout or "{}")
    if done.returncode or not answer or "error" in answer:
        raise ProtocolError(f"a load failed: {answer.get('error', done.returncode)}")
    return answer
