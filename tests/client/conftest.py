"""Fixtures of the client's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dray.client.access import ClusterAccess
from dray.client.client import Client
from tests.client.certificates import Authority
from tests.client.servers import ScriptedServer, scripted


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """A scripted API server without TLS."""
    async with scripted() as running:
        yield running


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[Client]:
    """A client of it."""
    async with Client(ClusterAccess(server.url)) as entered:
        yield entered


@pytest.fixture(scope="session")
def authority() -> Authority:
    """The CA that clients trust."""
    return Authority()
