"""The whole control plane under faults. In the end a checker finds every pod bound or explained, and nothing twice."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

from dray.client.client import Client
from dray.runtime.tasks import running
from tests.campaign import campaign
from tests.processes.control_plane import Program, control_plane
from tests.processes.cutting_proxy import cutting_proxy
from tests.processes.meddler import Meddler
from tests.processes.workload import Workload, look, settle
from tests.scheduler.live import until

SEED = int(os.environ.get("DRAY_SEED", "1"))
PODS = campaign(60, 1000)
PATIENCE = float(campaign(60, 900))
LEASE = (
    "--leader-elect-lease-duration=3",
    "--leader-elect-renew-deadline=2",
    "--leader-elect-retry-period=0.3",
)

Fault = Callable[[], Awaitable[None]]


async def finish(work: Workload) -> None:
    """Comes to rest in order; then room for all comes and all are bound; then all pods go, and nothing is left of them."""
    await settle(work.client, PATIENCE)
    await work.relieve()

    async def none_waits() -> bool:
        return not await work.waiting()

    try:
        await until(none_waits, PATIENCE)
    except TimeoutError:
        raise AssertionError(f"still wait: {await work.waiting()}") from None
    await settle(work.client, PATIENCE)
    await work.clear()
    await settle(work.client, PATIENCE)
    left = [one for one in (await look(work.client)).claims if one.metadata.owner_references]
    assert left == []


async def furnished(client: Client, seed: int = SEED) -> Workload:
    work = Workload(client, random.Random(seed))
    await work.furnish(campaign(3, 25))
    return work


async def storm(work: Workload, faults: int, fault: Fault) -> None:
    """While pods come and go and are scheduled, one fault after the other at moments that nobody foresees."""
    for number in range(faults):
        pods = PODS * (number + 1) // faults - PODS * number // faults
        async with asyncio.TaskGroup() as group:
            group.create_task(work.run(pods))
            await asyncio.sleep(work.rng.random() * 0.04 * pods)
            await fault()


async def test_the_api_server_is_killed(tmp_path: Path) -> None:
    async with control_plane(tmp_path) as (plane, client):
        work = await furnished(client)
        await asyncio.gather(*(one.start() for one in (plane.scheduler(), plane.controllers())))
        await storm(work, campaign(5, 100), plane.restart_server)
        await finish(work)


async def test_every_program_is_killed(tmp_path: Path) -> None:
    async with control_plane(tmp_path) as (plane, client):
        work = await furnished(client)
        await asyncio.gather(*(one.start() for one in (plane.scheduler(), plane.controllers())))

        async def kill_one() -> None:
            one = work.rng.choice(plane.programs)
            await one.kill()
            await one.start()

        await storm(work, campaign(4, 100), kill_one)
        await finish(work)


async def test_connections_are_cut_and_held_up(tmp_path: Path) -> None:
    async with (
        control_plane(tmp_path) as (plane, client),
        cutting_proxy(plane.port, random.Random(SEED)) as (port, proxy),
    ):
        work = await furnished(client)
        both = plane.scheduler(through=port), plane.controllers(through=port)
        await asyncio.gather(*(one.start() for one in both))
        await storm(work, campaign(6, 100), proxy.disturb)
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
        schedulers = [plane.script("tests.processes.elected_scheduler") for _ in range(2)]
        controllers = [plane.controllers("--leader-elect", *LEASE) for _ in range(2)]
        for two in (schedulers, controllers):
            await two[0].start()
            await two[1].start(until="another one leads")
        async with asyncio.TaskGroup() as group:
            group.create_task(work.run(PODS))
            for _ in range(campaign(1, 10)):
                for two in (schedulers, controllers):
                    await take_over(two, work.rng.random() < 0.5)
        await finish(work)


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
        meddler = Meddler(client, random.Random(SEED))
        async with running(meddler.run(), name="meddler"):
            await work.run(PODS)
        assert meddler.taken > 0
        await finish(work)
