"""Blocking calls beside the event loop. One that the kernel never lets return costs one thread, not the process.

Not a pool: a pool's hung worker is waited for when the process ends, and holds up whoever is queued behind it. Here each
call has a daemon thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from dray.errors import Error, UnavailableError
from dray.runtime.logs import get_log

_log = get_log("runtime.threads")

MOST = 32

T = TypeVar("T")


@dataclass(slots=True)
class _Running:
    """A call under way: what it is alone on, and when it should be done, in the loop's time."""

    names: tuple[str, ...]
    deadline: float


class Threads:
    """Runs blocking calls, at most `most` at once. Used from one event loop."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._running = 0
        self._held: dict[str, _Running] = {}
        self._ended = asyncio.Event()

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

        def body() -> None:
            try:
                value = call()
            except Error as error:
                tell(partial(_fail, future, error))
            except BaseException as error:
                tell(partial(_fail, future, error))
                raise
            else:
                tell(partial(_succeed, future, value, late))

        thread = threading.Thread(target=body, name="dray call", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise UnavailableError(
                "cannot start a thread: raise the limit of processes (ulimit -u)"
            ) from error
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
