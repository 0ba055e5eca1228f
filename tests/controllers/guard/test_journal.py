from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.allocation.holding import Held
from dray.api.kinds import CONFIG_MAPS
from dray.client.client import Client
from dray.controllers.guard.holdings import Holding
from dray.controllers.guard.journal import Journal
from dray.controllers.guard.review import Subject
from dray.errors import ConflictError, UnavailableError
from dray.runtime.tasks import running
from dray.testing.check.api_server import Place
from tests.controllers.server import Cluster, cluster
from tests.waiting import wait_until

Both = tuple[Cluster, Client]
SHARE = Held("d", "n", "g", None, "00000000-0000-4000-8000-000000000001", {"memory": "1Gi"})
KEPT = Holding(Subject("default", "c", "u", 7), (SHARE,), is_stored=False)


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[Both]:
    async with cluster(tmp_path) as found:
        yield found


def journal(client: Client, identity: str = "a") -> Journal:
    return Journal(client, "default", "guard", identity)


async def test_what_is_kept_comes_back_whole(both: Both) -> None:
    _, client = both
    one = journal(client)
    assert await one.take_over() == ()
    async with running(one.run(lambda: (KEPT,)), name="journal"):
        await one.save()
    assert await journal(client, "b").take_over() == (KEPT,)
    assert await journal(client, "c").take_over() == (KEPT,)


async def test_those_who_wait_share_a_write(both: Both) -> None:
    api, client = both
    one = journal(client)
    await one.take_over()
    before = api.version
    async with running(one.run(lambda: (KEPT,)), name="journal"):
        await asyncio.gather(*(one.save() for _ in range(50)))
    assert api.version - before <= 2


async def test_two_that_take_over_at_once_come_one_after_the_other(both: Both) -> None:
    api, client = both
    await journal(client).take_over()
    refused = iter([True, True])

    def busy(method: str, place: Place, is_done: bool) -> None:
        if not is_done and next(refused, False):
            raise ConflictError("busy")

    api.fails = busy
    assert await journal(client, "b").take_over() == ()
    assert api.find(CONFIG_MAPS, "guard")["data"]["holder"] == "b"


async def test_who_waits_is_told_when_it_stops(both: Both) -> None:
    api, client = both
    one = journal(client)
    await one.take_over()
    api.stuck = CONFIG_MAPS
    async with running(one.run(lambda: (KEPT,)), name="journal"):
        waiting = asyncio.ensure_future(one.save())
        await wait_until(lambda: api.waiting)
    api.stuck = None
    with pytest.raises(UnavailableError, match="the guard stops"):
        await waiting


async def test_what_it_did_not_write_is_not_taken_for_nothing(both: Both) -> None:
    api, client = both
    data = {"holder": "x", "reservations": "nonsense"}
    await api.add(CONFIG_MAPS, {"metadata": {"name": "guard"}, "data": data})
    with pytest.raises(UnavailableError, match="reservations cannot be read"):
        await journal(client).take_over()
    assert api.find(CONFIG_MAPS, "guard")["data"]["reservations"] == "nonsense"
