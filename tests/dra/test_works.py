from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dray.dra.parcels import ClaimRef, PreparedDevice
from dray.dra.works import ClaimWorks, Devices
from dray.errors import ConflictError, Error, InvariantError, UnavailableError
from dray.runtime.clock import SystemClock, settle
from dray.runtime.quarantine import PLACE, Quarantine, object_key
from tests.deadly import make_deadly
from tests.dra.tiny import ref_of
from tests.waiting import wait_until

DEVICE = PreparedDevice(("main",), "pool", "dev")


class Job:
    """Work that waits for `gate`."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.gate = asyncio.Event()
        self.error = error
        self.runs = 0
        self.cancelled = False

    async def __call__(self) -> Devices:
        self.runs += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self.error is not None:
            raise self.error
        return (DEVICE,)


async def test_the_same_work_is_joined_and_another_waits() -> None:
    works, first, second, undo = ClaimWorks(), Job(), Job(), Job()
    async with asyncio.timeout(60), works.hosting(), asyncio.TaskGroup() as group:
        one = group.create_task(works.do("prepare", ref_of("a"), first))
        two = group.create_task(works.do("prepare", ref_of("a"), second))
        await wait_until(lambda: first.runs == 1)
        three = group.create_task(works.do("unprepare", ref_of("a"), undo))
        await settle()
        assert (len(works), second.runs, undo.runs) == (1, 0, 0)
        first.gate.set()
        assert await one == await two == (DEVICE,)
        await wait_until(lambda: undo.runs == 1)
        undo.gate.set()
        assert await three == (DEVICE,)
    assert (first.runs, second.runs, len(works)) == (1, 0, 0)


async def test_the_same_uid_under_another_name_is_not_joined() -> None:
    works, first, second = ClaimWorks(), Job(), Job()
    first.gate.set()
    second.gate.set()
    async with works.hosting():
        await asyncio.gather(
            works.do("prepare", ClaimRef("ns", "a", "u"), first),
            works.do("prepare", ClaimRef("ns", "b", "u"), second),
        )
    assert (first.runs, second.runs) == (1, 1)


async def test_a_caller_that_gives_up_leaves_the_work_running() -> None:
    works, job = ClaimWorks(), Job()
    async with works.hosting():
        caller = asyncio.ensure_future(works.do("prepare", ref_of("a"), job))
        await wait_until(lambda: job.runs == 1)
        caller.cancel()
        await asyncio.wait({caller})
        assert caller.cancelled()
        assert len(works) == 1
        later = asyncio.gather(works.do("prepare", ref_of("a"), Job()))
        await settle()
        job.gate.set()
        assert (await later)[0] == (DEVICE,)
        await works.wait_idle()
    assert not job.cancelled


async def test_errors_are_values_and_a_bug_names_its_class_only() -> None:
    works, known, bug = ClaimWorks(), Job(ConflictError("held")), Job(ValueError("secret"))
    known.gate.set()
    bug.gate.set()
    async with works.hosting():
        found = await works.do("prepare", ref_of("a"), known)
        assert isinstance(found, ConflictError)
        assert str(found) == "held"
        found = await works.do("prepare", ref_of("b"), bug)
        assert type(found) is Error
        assert str(found) == "claim ns/b: prepare failed with ValueError; see the driver's log"
        lost = Job(asyncio.CancelledError())
        lost.gate.set()
        found = await works.do("prepare", ref_of("c"), lost)
        assert "CancelledError" in str(found)


async def test_our_own_bug_ends_the_body() -> None:
    works, job = ClaimWorks(), Job(InvariantError("broken"))
    job.gate.set()
    with pytest.raises(InvariantError, match="broken"):
        async with works.hosting():
            await works.do("prepare", ref_of("a"), job)
            await asyncio.sleep(60)


async def test_no_more_than_so_many_at_once() -> None:
    works, jobs = ClaimWorks(most=2), [Job() for _ in range(5)]
    async with works.hosting(), asyncio.TaskGroup() as group:
        for number, job in enumerate(jobs):
            group.create_task(works.do("prepare", ref_of(f"c{number}"), job))
        await settle()
        assert sum(job.runs for job in jobs) == 2
        for job in jobs:
            job.gate.set()
    assert [job.runs for job in jobs] == [1] * 5


async def test_who_waits_when_it_ends_is_told() -> None:
    works, job = ClaimWorks(), Job()
    async with asyncio.TaskGroup() as group:
        async with works.hosting():
            waiting = group.create_task(works.do("prepare", ref_of("a"), job))
            await wait_until(lambda: job.runs == 1)
        assert job.cancelled
        found = await waiting
    assert isinstance(found, UnavailableError)
    assert "the driver is stopping" in str(found)
    assert isinstance(await works.do("prepare", ref_of("a"), job), UnavailableError)


async def test_a_claim_that_ended_the_driver_is_refused_and_may_still_be_given_back(tmp_path: Path) -> None:
    ref = ref_of("a")
    make_deadly(tmp_path, f"prepare {object_key('resourceclaims', ref.namespace, ref.name, ref.uid)}")
    again, undo, other = Job(), Job(), Job()
    undo.gate.set()
    other.gate.set()
    with Quarantine(tmp_path / PLACE, SystemClock()) as quarantine:
        works = ClaimWorks(quarantine=quarantine)
        async with works.hosting():
            refused = await works.do("prepare", ref, again)
            assert (
                await works.do("unprepare", ref, undo)
                == await works.do("prepare", ref_of("b"), other)
                == (DEVICE,)
            )
    assert isinstance(refused, Error) and str(refused).startswith(f"claim {ref}: set aside until ")
    assert again.runs == 0
