"""The one thread that waits for the disk. What it does not finish is left behind with it; the process can end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

from dray.errors import Error, InvariantError

T = TypeVar("T")


class Worker:
    """Runs calls one after the other in a thread of its own, and `last` at the very end. Used from one event loop."""

    def __init__(self, name: str, last: Callable[[], None]) -> None:
        self._last = last
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._broken = False
        # A daemon: a disk that never answers must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._thread.start()

    def submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run it after all that were submitted before; the future has its result or its error.

        An error that is not one of ours ends the thread, and all that is submitted after it fails.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._broken or self._ended.done():
            future.set_exception(InvariantError(f"the thread {self._thread.name!r} has ended"))
        else:
            self._calls.put(partial(self._answer, call, future))
        return future

    async def stop(self, seconds: float) -> bool:
        """Let it finish what was submitted, and `last`, for this long; False where it did not."""
        self._calls.put(None)
        await asyncio.wait({self._ended}, timeout=seconds)
        return self._ended.done()

    def _run(self) -> None:
        try:
            while (call := self._calls.get()) is not None:
                call()
                if self._broken:  # whoever waits for the call hears of it
                    break
        finally:
            try:
                self._last()
            finally:
                _tell(self._ended, partial(_succeed, self._ended, None))

    def _answer(self, call: Callable[[], T], future: asyncio.Future[T]) -> None:
        with _Telling(self, future):
            value = call()
            _tell(future, partial(_succeed, future, value))

    def broke(self) -> None:
        """Something happened that nobody foresaw: no further call is made."""
        self._broken = True


class _Telling:
    """Whatever goes wrong inside is raised where the future is awaited, not in the thread."""

    def __init__(self, worker: Worker, future: asyncio.Future[Any]) -> None:
        self._worker = worker
        self._future = future

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            return False
        if not isinstance(error, Error):
            self._worker.broke()  # before anyone can hear of it
        _tell(self._future, partial(_fail, self._future, error))
        return True


def _tell(future: asyncio.Future[T], how: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends
        future.get_loop().call_soon_threadsafe(how)


def _succeed(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[T], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
