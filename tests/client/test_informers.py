from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from dray.api.core import ConfigMap
from dray.api.kinds import CONFIG_MAPS, NODES, PODS
from dray.client.client import Client
from dray.client.follow import FollowConfig
from dray.client.informers import Informers
from dray.client.reflector import ReflectorConfig
from dray.client.requests import Selection
from dray.errors import DeniedError, InvariantError
from dray.runtime.backoff import BackoffPolicy
from tests.client.answers import HANG, config_map, page
from tests.client.servers import ScriptedServer, status
from tests.waiting import PATIENCE, wait_until

FAST = ReflectorConfig(
    follow=FollowConfig(backoff=BackoffPolicy(first=0.01, limit=0.05)), refusal_patience=0.0
)


def serve(server: ScriptedServer, refuse: str = "", wait: asyncio.Barrier | None = None) -> None:
    """Lists are empty but for ConfigMaps; watches stay open."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await HANG(request)
        if wait is not None:
            await wait.wait()
        if refuse and request.path.endswith(refuse):
            return await status(403, "Forbidden", "no")(request)
        items = [config_map("a", 3, app="x")] if request.path.endswith("configmaps") else []
        return await page(*items)(request)

    server.answer(handler)


def app(item: ConfigMap) -> list[str]:
    return [item.data.get("app", "")]


async def test_one_list_and_watch_for_all_who_ask(server: ScriptedServer, client: Client) -> None:
    serve(server)
    informers = Informers(client, FAST)
    one = informers.of(CONFIG_MAPS, indexers={"app": app})
    two = informers.of(CONFIG_MAPS, indexers={"app": app, "name": lambda item: [item.metadata.name]})
    other = informers.of(CONFIG_MAPS, Selection("ns"))
    assert one is two
    assert one is not other
    async with informers:
        assert [item.metadata.name for item in one.indexed("app", "x")] == ["a"]
        assert len(two.indexed("name", "a")) == 1
        assert informers.of(CONFIG_MAPS) is one
        with pytest.raises(InvariantError, match="ask for an informer before"):
            informers.of(NODES)
        await wait_until(lambda: len(server.seen) == 4)
    assert len(server.seen) == 4


async def test_lists_come_side_by_side(server: ScriptedServer, client: Client) -> None:
    """No list is answered before all three are asked for."""
    serve(server, wait=asyncio.Barrier(3))
    informers = Informers(client, FAST)
    informers.of(CONFIG_MAPS)
    informers.of(NODES)
    informers.of(PODS)
    async with asyncio.timeout(PATIENCE), informers:
        pass


async def test_one_refusal_is_raised_and_ends_all(server: ScriptedServer, client: Client) -> None:
    serve(server, refuse="nodes")
    informers = Informers(client, FAST)
    pods = informers.of(PODS)
    informers.of(NODES)
    with pytest.raises(DeniedError):
        async with informers:
            pass
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("informer")] == []
    assert len(pods) == 0


async def test_none_at_all(client: Client) -> None:
    async with Informers(client):
        pass


async def test_a_failing_handler_ends_the_body(server: ScriptedServer, client: Client) -> None:
    serve(server)
    informers = Informers(client, FAST)
    informers.of(CONFIG_MAPS).on_change(lambda _: print(1 / 0))
    with pytest.raises(ZeroDivisionError):
        async with informers:
            await asyncio.Event().wait()
