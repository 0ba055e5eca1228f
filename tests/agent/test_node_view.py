from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.agent.config.last_known import LastKnown
from dray.agent.node_view import LAYOUT, NodeView
from dray.api.kinds import NODES
from dray.client.client import Client
from dray.dra.parcels import NodeRef
from dray.runtime.clock import SystemClock
from tests.processes.agent_server import NODE, AgentServer, agent_server
from tests.waiting import wait_until


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[AgentServer]:
    async with agent_server(tmp_path / "server") as found:
        yield found


def view(client: Client, state: Path, name: str = NODE) -> NodeView:
    return NodeView(client, name, LastKnown(state / "node-labels", LAYOUT), SystemClock(), patience=0.5)


async def uid(server: AgentServer) -> str:
    return (await server.client.get(NODES, NODE)).metadata.uid


async def test_labels_and_uid_are_followed(server: AgentServer, tmp_path: Path) -> None:
    await server.put_node(gpu="a")
    await server.client.create(NODES, {"metadata": {"name": "other", "labels": {"gpu": "z"}}})
    async with Client(server.access) as client, view(client, tmp_path) as node:
        first = await uid(server)
        assert (node.labels, node.ref) == ({"gpu": "a"}, NodeRef(NODE, first))
        generation = node.generation
        change = {"status": {"allocatable": {"cpu": "1"}}}
        beat = await server.client.patch(NODES, NODE, change, subresource="status")
        await server.put_node(gpu="b")
        await node.wait_newer(generation)
        assert (node.labels, node.generation) == ({"gpu": "b"}, generation + 1), "a heartbeat is no change"
        assert beat.metadata.uid == first
        await server.client.delete(NODES, NODE)
        await node.wait_newer(generation + 1)
        assert (node.labels, node.ref) == ({"gpu": "b"}, None)
        await server.put_node(gpu="c")
        assert await node.wait_ref() == NodeRef(NODE, await uid(server)) != NodeRef(NODE, first)
        assert node.labels == {"gpu": "c"}


async def test_labels_of_an_earlier_run_serve_until_the_server_answers(
    server: AgentServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await server.put_node(gpu="a")
    async with Client(server.access) as client, view(client, tmp_path) as node:
        assert node.ref is not None
    await server.stop()
    async with Client(server.access) as client, view(client, tmp_path, "another") as node:
        assert node.labels is None
    async with Client(server.access) as client, view(client, tmp_path) as node:
        assert (node.labels, node.ref) == ({"gpu": "a"}, None)
        assert "no answer about this node yet" in caplog.text
        await server.start()
        await server.put_node(gpu="b")
        assert (await node.wait_ref()).name == NODE
        await wait_until(lambda: node.labels == {"gpu": "b"}, "the new labels")


async def test_a_node_that_is_not_there_yet(
    server: AgentServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(server.access) as client, view(client, tmp_path) as node:
        assert (node.labels, node.ref) == (None, None)
        assert "is --node-name right?" in caplog.text
        await server.put_node()
        assert (await node.wait_ref()).uid == await uid(server)
        assert node.labels == {}
