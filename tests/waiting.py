"""Waiting for what other tasks, threads and processes do: for a condition, never for a time."""

from __future__ import annotations

import asyncio
import selectors
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextvars import Context
from typing import Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PATIENCE: Final = 60.0
"""Seconds after which a wait is given up. It only ends a test that hangs, so it is long: no test measures with it."""


async def wait_until(
    condition: Callable[[], T | None],
    what: str = "",
    story: Callable[[], object] = str,
    seconds: float = PATIENCE,
) -> T:
    """Return what the condition gives once that is something. TimeoutError, with `what` did not come and `story`, when it never is."""

    async def look() -> T | None:
        return condition()

    return await until(look, what, story, seconds)


async def until(
    condition: Callable[[], Awaitable[T | None]],
    what: str = "",
    story: Callable[[], object] = str,
    seconds: float = PATIENCE,
) -> T:
    """The same for a condition that takes awaiting, such as a call to a server."""
    try:
        async with asyncio.timeout(seconds) as limit:
            for pause in _pauses():
                if found := await condition():
                    return found
                await asyncio.sleep(pause)
    except TimeoutError as error:
        if not limit.expired():  # the condition's own
            raise
        raise _in_vain(what, story, seconds) from error
    raise AssertionError


def block_until(
    condition: Callable[[], T | None],
    what: str = "",
    story: Callable[[], object] = str,
    seconds: float = PATIENCE,
) -> T:
    """The same for a test without an event loop."""
    end = time.monotonic() + seconds
    for pause in _pauses():
        if found := condition():
            return found
        if time.monotonic() > end:
            break
        time.sleep(pause)
    raise _in_vain(what, story, seconds)


def _pauses() -> Iterator[float]:
    """Short at first; what takes long is looked at less often, because looking may take a processor as well."""
    pause = 0.002
    while True:
        yield pause
        pause = min(pause * 1.1, 0.05)


def _in_vain(what: str, story: Callable[[], object], seconds: float) -> TimeoutError:
    return TimeoutError(f"not in {seconds:g} s: {what}\n{story()}".rstrip())


class Sleeps(selectors.DefaultSelector):
    """The selector of an event loop that tells when the loop goes to sleep, and counts how often it wakes up."""

    def __init__(self) -> None:
        super().__init__()
        self.wakeups = 0
        self._is_asleep = threading.Event()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Called by the loop in each of its turns; `timeout` is how long it will be before something is due."""
        self.wakeups += 1
        if timeout is None or timeout > 10.0:
            self._is_asleep.set()
        return super().select(timeout)

    async def wait_asleep(self) -> None:
        """Return once nothing is due by itself for ten seconds; TimeoutError when something always is."""
        self._is_asleep.clear()
        if not await asyncio.to_thread(self._is_asleep.wait, PATIENCE):
            raise TimeoutError("the event loop never rests")

    def run(self, scenario: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run it in an event loop of its own that uses this selector."""
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(self)) as runner:
            runner.run(scenario())


class RestingLoop(asyncio.SelectorEventLoop):
    """An event loop that adds up the short rests taken in it: as they were asked for, not as measured."""

    rested = 0.0

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Called for every sleep."""
        self.rested += delay if delay < 0.1 else 0.0
        return super().call_later(delay, callback, *args, context=context)
