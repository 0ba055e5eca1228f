"""One fault after the other while pods come and go, and the judgement in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dray.client.client import Client
from tests.campaign import campaign, seeded
from tests.processes.workload import Workload, look, settle
from tests.waiting import until

PODS = campaign(40, 1000)
PATIENCE = float(campaign(60, 900))
Fault = Callable[[], Awaitable[None]]


async def finish(work: Workload) -> None:
    """Comes to rest in order; then room for all comes and all are bound; then all pods go, and nothing is left of them."""
    await settle(work.client, PATIENCE)
    await work.relieve()

    async def none_waits() -> bool:
        return not await work.waiting()

    try:
        await until(none_waits)
    except TimeoutError:
        raise AssertionError(f"still wait: {await work.waiting()}") from None
    await settle(work.client, PATIENCE)
    await work.clear()
    await settle(work.client, PATIENCE)
    left = [one for one in (await look(work.client)).claims if one.metadata.owner_references]
    assert left == []


async def furnished(client: Client) -> Workload:
    work = Workload(client, seeded(1))
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
