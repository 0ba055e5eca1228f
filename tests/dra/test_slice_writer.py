from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.api.kinds import RESOURCE_SLICES
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.dra.parcels import NodeRef
from dray.dra.slices.known_slices import KnownSlices
from dray.dra.slices.layout import lay_out
from dray.dra.slices.publish_observer import NoObserver
from dray.dra.slices.reconcile import Creation, Deletion, PoolOwner, Update, make_plan
from dray.dra.slices.slice_writer import STEPS, SliceWriter
from dray.errors import ConflictError
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.runtime.clock import SystemClock
from tests.dra.pools import DRIVER, NODE, pool
from tests.dra.test_publish import add_node


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        api_server(ApiServerOptions(tmp_path / "data", Address())) as server,
        Client(find_access(server.kubeconfig)) as client,
    ):
        yield client


async def test_the_steps_of_a_plan(client: Client) -> None:
    owner = PoolOwner(DRIVER, NodeRef(NODE.name, await add_node(client)))
    reached: list[str] = []
    async with KnownSlices(client, DRIVER, NODE.name, lambda is_loss: None, clock=SystemClock()) as known:
        writer = SliceWriter(client, known, NoObserver(), reached.append)
        (creation,) = make_plan([], lay_out(pool(3), (1, 36)).slices, owner).steps
        assert isinstance(creation, Creation)
        made = await writer.carry_out(creation)
        assert made is not None
        assert await known.read() == (made,)
        (update,) = make_plan([made], lay_out(pool(4), (1, 36)).slices, owner).steps
        assert isinstance(update, Update)
        assert update.new.metadata.name == made.metadata.name
        changed = await writer.carry_out(update)
        assert changed is not None
        assert await known.read() == (changed,)
        with pytest.raises(ConflictError):
            await writer.carry_out(update)
        with pytest.raises(ConflictError):
            await writer.carry_out(Deletion(made))
        await writer.carry_out(Deletion(changed))
        await writer.carry_out(Deletion(changed))
        with pytest.raises(ConflictError, match="deleted meanwhile"):
            await writer.carry_out(update)
        assert await known.read() == ()
        assert (await client.list(RESOURCE_SLICES)).items == ()
        assert set(reached) == set(STEPS)
