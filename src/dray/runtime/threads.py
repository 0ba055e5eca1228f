"""Blocking calls beside the event loop. One that the kernel never lets return costs one thread, not the process.

Not the library's pool: its hung worker is waited for when the process ends, and holds up whoever is queued behind it. Here
each call has a daemon thread to itself; one that is done waits for the next call, because starting one takes longer than
most calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

from dray.errors import Error, UnavailableError
from dray.runtime.logs import get_log

_log = get_log("runtime.threads")

MOST: Final = 32
IDLE_SECONDS: Final = 2.0
"""That a thread waits for the next call."""

T = TypeVar("T")


@dataclass(slots=True)
class _Running:
    """A call under way: what it is alone on, and when it should be done, in the loop's time."""

    names: tuple[str, ...]
    deadline: float


class Threads:
    """Runs blocking calls, at most `most` at once; a thread waits `idle` seconds for the next. Used from one event loop."""

    def __init__(self, most: int = MOST, idle: float = IDLE_SECONDS) -> None:
        self._most = most
        self._running = 0
        self._held: dict[str, _Running] = {}
        self._ended = asyncio.Event()
        self._idle = _Idle(idle)

    async def run(
        self,
        call: Callable[[], T],
        *,
        doing: str,
        seconds: float,
        alone_on: Collection[str] = (),
        late: Callable[[T], None] | None = None,
    ) -> T:
        """The call's result, or its error. Calls that have a name in `alone_on` in common run one after the other.

        UnavailableError after `seconds`, the wait for its turn included, and at once behind a call that is overdue. A
        thread cannot be stopped: the call goes on, keeps its names, and what it returns then is given to `late`, in
        the loop. It is the same when the caller is cancelled. `doing` is for people ("open /dev/net/tun").
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        started: _Running | None = None
        try:
            async with asyncio.timeout(seconds) as limit:
                await self._wait_turn(alone_on, doing)
                started = self._start(call, future, _Running(tuple(alone_on), limit.when() or 0.0), late)
                return await _taken(future, late)
        except TimeoutError as error:
            if not limit.expired():  # the call's own
                raise
            if started is not None:
                started.deadline = -math.inf  # timers may come a moment early
                _log.warning("call does not return, left behind", doing=doing, waited_s=seconds)
            reason = (
                "the kernel or a device does not answer" if started is not None else "others are still at it"
            )
            raise UnavailableError(f"could not {doing} in {seconds:g} s: {reason}") from error

    async def _wait_turn(self, names: Collection[str], doing: str) -> None:
        loop = asyncio.get_running_loop()
        while self._running >= self._most or not self._held.keys().isdisjoint(names):
            if any(name in self._held and self._held[name].deadline <= loop.time() for name in names):
                raise UnavailableError(f"cannot {doing}: an earlier attempt still waits in the kernel")
            await self._ended.wait()

    def _start(
        self,
        call: Callable[[], T],
        future: asyncio.Future[T],
        running: _Running,
        late: Callable[[T], None] | None,
    ) -> _Running:
        loop = future.get_loop()

        def tell(take: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends
                loop.call_soon_threadsafe(self._end, running, take)

        def body(rest: Callable[[], None]) -> None:
            try:
                value = call()
            except Error as error:
                rest()
                tell(partial(_fail, future, error))
            except BaseException as error:
                tell(partial(_fail, future, error))
                raise
            else:
                rest()
                tell(partial(_succeed, future, value, late))

        self._idle.run(body)
        self._running += 1
        self._held.update(dict.fromkeys(running.names, running))
        return running

    def _end(self, running: _Running, take: Callable[[], None]) -> None:
        self._running -= 1
        for name in running.names:
            del self._held[name]
        ended, self._ended = self._ended, asyncio.Event()
        ended.set()
        take()


_Body = Callable[[Callable[[], None]], None]
"""What a thread does. Before it tells anybody that it is done it calls what it is given: the next call may come at once."""


class _Idle:
    """The threads that are done, and wait a little for the next call."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._inboxes: list[SimpleQueue[_Body]] = []

    def run(self, body: _Body) -> None:
        """In the thread that was done last, else in a new one."""
        with self._lock:
            if self._inboxes:
                self._inboxes.pop().put(body)
                return
        try:
            threading.Thread(target=self._work, args=(body,), name="dray calls", daemon=True).start()
        except RuntimeError as error:
            raise UnavailableError(
                "cannot start a thread: raise the limit of processes (ulimit -u)"
            ) from error

    def _work(self, body: _Body) -> None:
        inbox: SimpleQueue[_Body] = SimpleQueue()
        while True:
            body(lambda: self._rest(inbox))
            del body  # with it the caller's things would live on
            try:
                body = inbox.get(timeout=self._seconds)
            except Empty:
                with self._lock:
                    if inbox in self._inboxes:
                        self._inboxes.remove(inbox)
                        return
                body = inbox.get()  # it came in the last moment

    def _rest(self, inbox: SimpleQueue[_Body]) -> None:
        with self._lock:
            self._inboxes.append(inbox)


async def _taken(future: asyncio.Future[T], late: Callable[[T], None] | None) -> T:
    """The result; if it comes in the same moment as a cancellation it is late too."""
    try:
        return await future
    except asyncio.CancelledError:
        if future.done() and not future.cancelled() and future.exception() is None and late is not None:
            late(future.result())
        raise


def _succeed(future: asyncio.Future[T], value: T, late: Callable[[T], None] | None) -> None:
    if not future.done():
        future.set_result(value)
    elif late is not None:
        late(value)


def _fail(future: asyncio.Future[T], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
    else:
        _log.debug("a call left behind has failed", error=str(error))
