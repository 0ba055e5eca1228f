"""The whole control plane under faults. In the end a checker finds every pod bound or explained, and nothing twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.campaign import campaign, seeded
from tests.processes.control_plane import Program, control_plane
from tests.processes.cutting_proxy import cutting_proxy
from tests.processes.meddler import Meddler
from tests.processes.storm import PATIENCE, PODS, finish, furnished, storm
from tests.processes.workload import settle

LEASE = (
    "--leader-elect-lease-duration=10",
    "--leader-elect-renew-deadline=8",
    "--leader-elect-retry-period=0.5",
)


async def test_the_api_server_is_killed(tmp_path: Path) -> None:
    async with control_plane(tmp_path) as (plane, client):
        work = await furnished(client)
        await asyncio.gather(*(one.start() for one in (plane.scheduler(), plane.controllers())))
        await storm(work, campaign(4, 100), plane.restart_server)
        await finish(work)


async def test_every_program_is_killed(tmp_path: Path) -> None:
    async with control_plane(tmp_path) as (plane, client):
        work = await furnished(client)
        await asyncio.gather(*(one.start() for one in (plane.scheduler(), plane.controllers())))

        async def kill_one() -> None:
            one = work.rng.choice(plane.programs)
            await one.kill()
            await one.start()

        await storm(work, campaign(3, 100), kill_one)
        await finish(work)


async def test_connections_are_cut_and_held_up(tmp_path: Path) -> None:
    async with (
        control_plane(tmp_path) as (plane, client),
        cutting_proxy(plane.port, seeded(1)) as (port, proxy),
    ):
        work = await furnished(client)
        both = plane.scheduler(through=port), plane.controllers(through=port)
        await asyncio.gather(*(one.start() for one in both))
        await storm(work, campaign(5, 100), proxy.disturb)
        await settle(client, PATIENCE)
        assert proxy.cuts > 5
        proxy.trouble = False
        proxy.cut_all()
        await finish(work)


async def test_two_of_each_at_once(tmp_path: Path) -> None:
    """Nobody leads: they race for every claim and every pod."""
    async with control_plane(tmp_path) as (plane, client):
        work = await furnished(client)
        all_of_them = [plane.scheduler(f"--seed={number}") for number in range(2)]
        all_of_them += [plane.controllers() for _ in range(2)]
        await asyncio.gather(*(one.start() for one in all_of_them))
        await work.run(PODS)
        await finish(work)


async def test_leaders_are_killed_and_held_still(tmp_path: Path) -> None:
    """One of two leads. When it does not answer the other takes over, and it ends when it wakes up."""
    async with control_plane(tmp_path) as (plane, client):
        work = await furnished(client)
        schedulers = [plane.scheduler("--leader-elect", *LEASE) for _ in range(2)]
        controllers = [plane.controllers("--leader-elect", *LEASE) for _ in range(2)]
        for two in (schedulers, controllers):
            await two[0].start()
            await two[1].start(until="another one leads")
        async with asyncio.TaskGroup() as group:
            group.create_task(work.run(PODS))
            group.create_task(hand_over(schedulers, by_a_kill=False))
            group.create_task(hand_over(controllers, by_a_kill=True))
        await finish(work)


async def hand_over(two: list[Program], *, by_a_kill: bool) -> None:
    """Again and again, one way and the other."""
    for _ in range(campaign(1, 10)):
        await take_over(two, by_a_kill)
        by_a_kill = not by_a_kill


async def take_over(two: list[Program], by_a_kill: bool) -> None:
    """The leader, which is the first, goes; the second leads, and the first comes back as a candidate."""
    if by_a_kill:
        await two[0].kill()
        await two[1].wait_line("msg=ready")
    else:
        two[0].pause()
        await two[1].wait_line("msg=ready")
        two[0].go_on()
        assert await two[0].wait_end() == 1
    two.reverse()
    await two[1].start(until="another one leads")


async def test_others_write_too(tmp_path: Path) -> None:
    async with control_plane(tmp_path) as (plane, client):
        work = await furnished(client)
        await asyncio.gather(*(one.start() for one in (plane.scheduler(), plane.controllers())))
        meddler = Meddler(client, seeded(1))
        async with asyncio.TaskGroup() as group:
            group.create_task(meddler.run())
            await work.run(PODS)
            meddler.is_over = True
        assert meddler.taken > 0 and meddler.refused > 0
        await finish(work)
