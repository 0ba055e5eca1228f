from __future__ import annotations

import asyncio

from dray.dra.meeting import Meeting
from dray.runtime.clock import settle
from tests.dra.tiny import ref_of
from tests.waiting import wait_until

A, B, C = ref_of("a"), ref_of("b"), ref_of("c")


async def test_all_go_on_when_the_last_has_come_or_left() -> None:
    meeting = Meeting([A, B, C], patience=3600.0)
    here: list[str] = []

    async def come(name: str) -> None:
        await meeting.come(ref_of(name))
        here.append(name)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(come("a"))
        group.create_task(come("b"))
        await settle()
        meeting.leave(B)
        meeting.leave(B)
        await settle()
        assert here == []
        meeting.leave(C)
        await wait_until(lambda: here == ["a", "b"])
        await meeting.come(C)  # it is over


async def test_nobody_waits_for_one_that_is_slow() -> None:
    meeting = Meeting([A, B], patience=0.01)
    async with asyncio.timeout(60):
        await meeting.come(A)


async def test_one_alone_does_not_wait() -> None:
    meeting = Meeting([A], patience=3600.0)
    async with asyncio.timeout(60):
        await meeting.come(A)
