from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dray.api.codec import to_raw
from dray.api.kinds import RESOURCE_SLICES
from dray.api.resource.slice import ResourceSlice
from dray.client.client import Client
from dray.dra.slices.known_slices import KnownSlices
from dray.dra.slices.layout import lay_out
from dray.dra.slices.reconcile import Creation, make_plan
from dray.errors import UnavailableError
from dray.runtime.clock import SystemClock
from tests.controllers.server import Cluster, cluster
from tests.dra.pools import DRIVER, NODE, OWNER, pool
from tests.waiting import until, wait_until


@asynccontextmanager
async def known_by(client: Client) -> AsyncIterator[tuple[KnownSlices, list[bool]]]:
    noticed: list[bool] = []
    async with KnownSlices(client, DRIVER, NODE.name, noticed.append, clock=SystemClock()) as known:
        yield known, noticed


async def make(client: Client) -> ResourceSlice:
    (step,) = make_plan([], lay_out(pool(1), (1, 36)).slices, OWNER).steps
    assert isinstance(step, Creation)
    return await client.create(RESOURCE_SLICES, step.new)


async def has_caught_up(server: Cluster, known: KnownSlices) -> bool:
    """Whether it knows all that was written without a question."""
    server.is_away = True
    try:
        await known.read()
    except UnavailableError:
        return False
    finally:
        server.is_away = False
    return True


async def test_the_picture_is_never_older_than_our_own_writes(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (server, client), known_by(client) as (known, _):
        assert await known.read() == ()
        for _ in range(20):
            made = await make(client)
            known.wrote(made)
            assert await known.read() == (made,)
            changed = await client.update(RESOURCE_SLICES, dict(to_raw(made)))
            known.wrote(changed)
            assert await known.read() == (changed,)
            await client.delete(RESOURCE_SLICES, made.metadata.name)
            known.deleted(changed)
            assert await known.read() == ()
        assert not server.refused


async def test_the_watch_is_enough_once_it_has_caught_up(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (server, client), known_by(client) as (known, noticed):
        made = await make(client)
        assert await known.read() == (made,)
        await wait_until(lambda: noticed)
        server.is_away = True
        assert await known.read() == (made,)
        assert noticed == [False]


async def test_a_loss_is_told_apart_from_our_own_deletion(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (server, client), known_by(client) as (known, noticed):
        for is_ours in (True, False):
            made = await make(client)
            await wait_until(lambda: noticed)
            if is_ours:
                known.deleted(made)
            await server.remove(RESOURCE_SLICES, made.metadata.name)
            await wait_until(lambda: len(noticed) == 2)
            assert noticed == [False, not is_ours]
            noticed.clear()


async def test_made_by_us_and_gone_before_the_watch_saw_it(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (server, client), known_by(client) as (known, noticed):
        made = await make(client)
        known.wrote(made)
        await server.remove(RESOURCE_SLICES, made.metadata.name)
        assert await known.read() == ()
        other = await make(client)
        known.wrote(other)
        await until(lambda: has_caught_up(server, known))
        # So the watch has brought all that was before it too.
        assert await known.read() == (other,)
        assert noticed in ([False, True, False], [False])


async def test_a_deletion_that_the_watch_brought_needs_no_question(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (server, client), known_by(client) as (known, noticed):
        made = await make(client)
        assert await known.read() == (made,)
        await wait_until(lambda: noticed)
        known.wrote(made)
        await server.remove(RESOURCE_SLICES, made.metadata.name)
        await wait_until(lambda: len(noticed) == 2)
        server.is_away = True
        assert await known.read() == ()


async def test_after_a_conflict_the_server_is_asked(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client), known_by(client) as (known, _):
        assert await known.read() == ()
        known.distrust()
        made = await make(client)
        assert await known.read() == (made,)
