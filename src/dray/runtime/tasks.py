"""Task trees: who runs beside whom, and who is joined before whom. The only place that creates tasks.

Every long-lived thing is an async context manager: entered means ready, left means stopped. `running` is the
brick for it, `restarting` the loop around something that may fail, `run_until_signalled` the root of a process.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NoReturn

from dray.errors import Error, InvariantError
from dray.runtime.backoff import Backoff
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log, say_as_started, say_more
from dray.runtime.traces import start_traces, stop_traces
from dray.runtime.watchdog import watchdog

_log = get_log("runtime.tasks")

STOP_TIMEOUT = 10.0
"""Seconds a cancelled task gets for its own cleanup before it is left behind and reported."""


@asynccontextmanager
async def running(
    coroutine: Coroutine[Any, Any, None], *, name: str, stop_timeout: float = STOP_TIMEOUT
) -> AsyncIterator[None]:
    """Run `coroutine` beside the body of the `async with`.

    The body's end cancels and joins it, for at most `stop_timeout` seconds. If it fails first, the body is
    cancelled and the failure is raised as it was, not wrapped in a group. If it ends well, the body goes on.
    """
    failed: list[Error | InvariantError] = []
    try:
        async with asyncio.TaskGroup() as group:
            child = group.create_task(_bounded(coroutine, name, stop_timeout), name=f"{name} (keeper)")
            # Both tasks take their first step now: one cancelled before it would never run its `finally`.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            try:
                yield
            except (Error, InvariantError) as error:
                # Held back: a group that has a failure drops a cancellation that comes while it joins its children.
                failed.append(error)
            finally:
                child.cancel()
    except BaseExceptionGroup as failures:
        failure = single(BaseExceptionGroup(name, [*failed, *failures.exceptions]))
        raise failure from failure.__cause__  # which callers look at: a status, an errno
    if failed:
        raise failed[0]


async def _bounded(coroutine: Coroutine[Any, Any, None], name: str, stop_timeout: float) -> None:
    """Hold a task and make sure that cancelling it takes bounded time."""
    task = asyncio.get_running_loop().create_task(coroutine, name=name)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task}, timeout=stop_timeout)
        if not task.done():
            _log.error("task does not stop, left behind", task=name, waited_s=stop_timeout)
        elif not task.cancelled() and (failure := task.exception()) is not None:
            raise failure from None
        raise


def single(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one exception inside nested groups, or the group itself where there are several."""
    inner: BaseException = failures
    while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
        inner = inner.exceptions[0]
    return inner


async def restarting(
    run_once: Callable[[], Awaitable[None]],
    *,
    name: str,
    clock: Clock,
    backoff: Backoff,
    steady_after: float = 10.0,
) -> NoReturn:
    """Run `run_once` for ever: it is joined before its successor starts.

    A Dray error, or a plain return, leads to the next run after a backoff, which starts over once a run lasted
    `steady_after` seconds. Anything else, and our own bugs, end this loop and so the process.
    """
    while True:
        started = clock.monotonic()
        try:
            await run_once()
        except Error as error:
            _log.warning("stopped, will start again", task=name, error=str(error))
        if clock.monotonic() - started >= steady_after:
            backoff.reset()
        await clock.sleep(backoff.next())


async def wait_first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Return when the first of these is done; the others are cancelled and joined."""
    loop = asyncio.get_running_loop()
    tasks = {loop.create_task(wait) for wait in waits}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=STOP_TIMEOUT)
    for task in done:
        task.result()


def run_until_signalled(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """The root of a process: run `main` until it ends or SIGINT/SIGTERM asks to stop.

    The first signal cancels `main`, which unwinds its tree; a second one no longer waits for anything. Both are heard also
    where they were ignored at the start (`dray up &` in a script), as Go's programs do.
    A loop that works for a minute without a turn ends the process (`watchdog`).
    SIGUSR1 makes the log say one level more, SIGUSR2 as much as at the start. Traces are sent meanwhile, if asked for.
    """

    async def root() -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(main(), name="main")
        asked = False

        def stop(number: signal.Signals) -> None:
            nonlocal asked
            if asked:
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            asked = True
            _log.info("stopping", signal=number.name)
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
        loop.add_signal_handler(signal.SIGUSR1, say_more, "SIGUSR1")
        loop.add_signal_handler(signal.SIGUSR2, say_as_started, "SIGUSR2")
        try:
            with watchdog():
                await task
        except asyncio.CancelledError:
            if not asked:
                raise
        except BaseExceptionGroup as failures:
            raise single(failures) from None

    start_traces()
    try:
        asyncio.run(root())
    finally:
        stop_traces()
