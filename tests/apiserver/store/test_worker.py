"""The thread that waits for the disk."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from dray.apiserver.store.worker import Worker
from dray.errors import InvariantError, NotFoundError
from tests.waiting import PATIENCE


def _not_found() -> None:
    raise NotFoundError("no")


async def test_calls_run_one_after_the_other_in_one_thread() -> None:
    seen: list[tuple[int, str]] = []
    worker = Worker("w", lambda: seen.append((99, threading.current_thread().name)))
    worker.start()
    futures = [
        worker.submit(lambda n=n: seen.append((n, threading.current_thread().name)))  # type: ignore[misc]
        for n in range(20)
    ]
    await asyncio.gather(*futures)
    assert seen == [(n, "w") for n in range(20)]
    with pytest.raises(NotFoundError):
        await worker.submit(_not_found)
    assert await worker.submit(lambda: 7) == 7
    assert await worker.stop(5)
    assert seen[-1] == (99, "w")
    with pytest.raises(InvariantError, match="has ended"):
        await worker.submit(lambda: 7)


async def test_a_call_that_hangs_is_left_behind() -> None:
    door = threading.Event()
    worker = Worker("w", lambda: None)
    worker.start()
    waiting = worker.submit(lambda: door.wait(60))
    assert not await worker.stop(0.02)
    door.set()
    assert await waiting


async def test_an_unknown_error_ends_it() -> None:
    last: list[int] = []
    worker = Worker("w", lambda: last.append(1))
    worker.start()
    with pytest.raises(ZeroDivisionError):
        await worker.submit(lambda: 1 // 0)
    with pytest.raises(InvariantError, match="has ended"):
        await worker.submit(lambda: 7)
    assert await worker.stop(5)
    assert last == [1]


async def test_nothing_that_was_submitted_before_an_unknown_error_runs_after_it() -> None:
    door, ran = threading.Event(), list[int]()
    worker = Worker("w", lambda: None)
    worker.start()

    def fail() -> None:
        assert door.wait(PATIENCE)
        raise ZeroDivisionError("a bug")

    failed = worker.submit(fail)
    worker.submit(lambda: ran.append(1))
    door.set()
    with pytest.raises(ZeroDivisionError):
        await failed
    assert await worker.stop(5)
    assert ran == []


async def test_an_error_that_nobody_waits_for_any_more_harms_nobody() -> None:
    door = threading.Event()
    worker = Worker("w", lambda: None)
    worker.start()

    def fail_late() -> None:
        door.wait(PATIENCE)
        raise NotFoundError("no")

    given_up: list[asyncio.Future[Any]] = [worker.submit(fail_late), worker.submit(lambda: 7)]
    for future in given_up:
        future.cancel()
    door.set()
    assert await worker.submit(lambda: 8) == 8
    assert all(future.cancelled() for future in given_up)
    assert await worker.stop(PATIENCE)
