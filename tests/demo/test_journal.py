"""What happens on a real server is found in the journal, also later, with the time of its first sight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dray.api.kinds import EVENTS, NODES
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.demo.journal import Journal
from dray.errors import UnavailableError
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.runtime.clock import SystemClock
from dray.runtime.tasks import running


@asynccontextmanager
async def watched(directory: Path, patience: float = 20.0) -> AsyncIterator[tuple[Client, Journal]]:
    journal, has_server = Journal(SystemClock(), patience), asyncio.Event()
    kubeconfig = directory / "admin.kubeconfig"
    async with (
        running(journal.follow(kubeconfig, has_server), name="journal"),
        api_server(ApiServerOptions(directory, Address("127.0.0.1", 0))),
        Client(find_access(kubeconfig)) as client,
    ):
        has_server.set()
        try:
            yield client, journal
        finally:
            await journal.end()


async def test_the_first_sight_counts_and_the_last_state_is_kept(tmp_path: Path) -> None:
    async with watched(tmp_path) as (client, journal):
        await client.create(NODES, {"metadata": {"name": "one"}})
        _, first = await journal.first(NODES, lambda one: one.metadata.name == "one", "node one")
        await client.patch(NODES, "one", {"metadata": {"labels": {"colour": "red"}}})
        red, later = await journal.first(NODES, lambda one: "colour" in one.metadata.labels, "a red node")
        assert later > first and red.metadata.name == "one"
        assert (await journal.first(NODES, lambda one: one.metadata.name == "one", "node one"))[1] == first
        assert [one.metadata.labels for one in journal.now(NODES)] == [{"colour": "red"}]
        await client.delete(NODES, "one")
        assert await journal.gone(NODES, "one", "the end of node one") > later
        assert journal.now(NODES) == ()


async def test_what_does_not_come_is_named_with_the_newest_warning(tmp_path: Path) -> None:
    async with watched(tmp_path, patience=0.5) as (client, journal):
        about = {"kind": "Node", "name": "one", "namespace": "default"}
        for name, kind, message in (("a", "Normal", "all is well"), ("b", "Warning", "it is on fire")):
            event = {
                "metadata": {"name": name},
                "involvedObject": about,
                "type": kind,
                "reason": "Told",
                "message": message,
            }
            await client.create(EVENTS, event, namespace="default")
        found, _ = await journal.event("one", "Told")
        assert found.message == "all is well"
        with pytest.raises(
            UnavailableError, match=r"waited 0\.5 s for a miracle; the newest warning is Told: it is on fire"
        ):
            await journal.first(NODES, lambda one: True, "a miracle")
