"""A cluster that goes away, and one that does not tell everything: what is shown stays, and what is missing is said."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from dray.apiserver.access.identity import Identity
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.processes.apiserver import ApiServerOptions, api_server, issue_kubeconfig
from dray.processes.dashboard import DashboardOptions
from tests.dashboard.fleet_script import add_node, fill
from tests.dashboard.looking import IMPATIENT, NOBODY, looking, options_for
from tests.scheduler.unreliable import Fault, Line, unreliable
from tests.waiting import until


@asynccontextmanager
async def _behind_a_line(directory: Path) -> AsyncIterator[tuple[Client, Line, DashboardOptions]]:
    options = ApiServerOptions(directory / "server", Address(port=0))
    path = directory / "line.kubeconfig"
    async with (
        api_server(options) as found,
        Client(find_access(found.kubeconfig)) as client,
        unreliable(client.access, path) as line,
    ):
        await fill(client)
        yield client, line, options_for(find_access(path, environ={}))


async def test_the_cluster_goes_and_comes_back(tmp_path: Path) -> None:
    async with (
        _behind_a_line(tmp_path) as (client, line, options),
        looking(options) as looker,
        looker.follow() as stream,
    ):
        before = await looker.get("/api/fleet")
        line.judge = lambda method, path: Fault.LOST
        line.cut_watches()
        told = await stream.next("lag", lambda value: value["lagging"])
        assert told["reason"]
        lagging = await looker.get("/api/fleet")
        assert lagging["lag"]["since"] == told["since"]
        assert lagging["nodes"] == before["nodes"]
        await add_node(client, "new")
        line.judge = lambda method, path: None
        assert await stream.next("lag", lambda value: not value["lagging"]) == {"lagging": False}

        async def is_there() -> bool:
            fleet = await looker.get("/api/fleet")
            return fleet["lag"] is None and "new" in [one["name"] for one in fleet["nodes"]]

        await until(is_there)


async def test_a_cluster_that_was_never_there() -> None:
    async with looking(options_for(NOBODY, watch=replace(IMPATIENT, start=0.3))) as looker:
        fleet = await looker.get("/api/fleet")
        assert fleet["nodes"] == []
        assert "127.0.0.1:9" in fleet["lag"]["reason"]


async def test_a_kind_that_may_not_be_read_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    async with _behind_a_line(tmp_path) as (_, line, options):
        line.judge = lambda method, path: Fault.UNAUTHORIZED if path.endswith("/events") else None
        async with looking(options) as looker:
            fleet = await looker.get("/api/fleet")
            (note,) = fleet["notes"]
            assert note.startswith("may not read events: no events are shown")
            assert "ask for a role" in note
            assert fleet["summary"]["devices"] == 14
            line.judge = lambda method, path: None

            async def is_read() -> bool:
                return not (await looker.get("/api/fleet"))["notes"]

            await until(is_read)


async def test_a_user_without_rights_gets_notes_and_no_devices(tmp_path: Path) -> None:
    data, path = tmp_path / "server", tmp_path / "user.kubeconfig"
    async with api_server(ApiServerOptions(data, Address(port=0))):
        path.write_text(issue_kubeconfig(data, Identity("somebody")))
        async with looking(options_for(find_access(path))) as looker:
            fleet = await looker.get("/api/fleet")
            assert (fleet["nodes"], fleet["lag"], len(fleet["notes"])) == ([], None, 8)


async def test_a_server_that_tells_nothing_is_there_nevertheless(tmp_path: Path) -> None:
    async with _behind_a_line(tmp_path) as (_, line, options):
        line.judge = lambda method, path: Fault.UNAUTHORIZED
        async with looking(options) as looker:
            fleet = await looker.get("/api/fleet")
            assert (fleet["lag"], len(fleet["notes"])) == (None, 8)
