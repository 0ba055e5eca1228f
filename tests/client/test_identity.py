from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dray.api.kinds import CONFIG_MAPS
from dray.client.access import ClusterAccess, Secret, User
from dray.client.client import Client
from dray.client.http import Request
from dray.errors import DeniedError, InvalidError
from dray.runtime.clock import FakeClock
from tests.client.answers import config_map, event
from tests.client.certificates import Authority, Pair
from tests.client.plugins import answer, calls, plugin, say, saying, script
from tests.client.servers import Handler, ScriptedServer, lines, reply, scripted, status

GET = Request("GET", "/x")
REFUSED = status(401, "Unauthorized", "Unauthorized")


def only(token: str, then: Handler | None = None) -> Handler:
    """Answers who has this token."""

    async def handler(request: web.Request) -> web.StreamResponse:
        known = request.headers.get("Authorization") == f"Bearer {token}"
        return await ((then or reply()) if known else REFUSED)(request)

    return handler


def tokens(server: ScriptedServer) -> list[str]:
    return [seen.headers.get("Authorization", "").removeprefix("Bearer ") for seen in server.seen]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return saying(tmp_path / "plugin", answer(token="one"))


def asks(program: Path, server: ScriptedServer, **user: Any) -> ClusterAccess:
    return ClusterAccess(server.url, User(plugin=plugin(program), **user))


async def test_refused_token_of_a_plugin_is_renewed_and_the_request_sent_again(
    server: ScriptedServer, program: Path
) -> None:
    async with Client(asks(program, server)) as client:
        server.answer(only("one"))
        await client.raw(GET)
        server.answer(only("two"))
        say(program, answer(token="two"))
        await client.raw(Request("POST", "/x", body=b"{}"))
        await client.raw(GET)
    assert tokens(server) == ["one", "one", "two", "two"]
    assert [seen.body for seen in server.seen[1:3]] == [b"{}", b"{}"]
    assert len(calls(program)) == 2


async def test_refused_for_good_is_told_after_one_more_call(server: ScriptedServer, program: Path) -> None:
    server.answer(REFUSED)
    async with Client(asks(program, server)) as client:
        with pytest.raises(DeniedError) as caught:
            await client.raw(GET)
    assert not caught.value.authenticated
    assert (len(server.seen), len(calls(program))) == (1, 2)


async def test_forbidden_asks_nobody_again(server: ScriptedServer, program: Path) -> None:
    server.answer(status(403, "Forbidden", "no"))
    async with Client(asks(program, server)) as client:
        with pytest.raises(DeniedError):
            await client.raw(GET)
    assert (len(server.seen), len(calls(program))) == (1, 1)


async def test_a_watch_is_opened_with_renewed_credentials(server: ScriptedServer, program: Path) -> None:
    server.answer(only("two", lines(event("ADDED", config_map("a", 5)))))
    async with Client(asks(program, server)) as client:
        with pytest.raises(DeniedError):
            async with client.watch(CONFIG_MAPS, resource_version="1"):
                pass
        say(program, answer(token="two"))
        async with client.watch(CONFIG_MAPS, resource_version="1") as watch:
            assert (await anext(watch)).version == "5"


async def test_hundred_requests_one_plugin_call(server: ScriptedServer, tmp_path: Path) -> None:
    program = script(tmp_path / "slow", "sleep 0.1", f"echo '{answer(token='t')}'")
    async with Client(asks(program, server)) as client:
        await asyncio.gather(*(client.raw(GET) for _ in range(100)))
    assert tokens(server) == ["t"] * 100
    assert len(calls(program)) == 1


async def test_expired_credentials_are_renewed_before_the_request(
    server: ScriptedServer, program: Path
) -> None:
    clock = FakeClock()
    say(program, answer(token="one", expirationTimestamp="2030-01-01T00:10:00Z"))
    async with Client(asks(program, server), clock=clock) as client:
        await client.raw(GET)
        say(program, answer(token="two"))
        await clock.advance(601)
        await client.raw(GET)
    assert tokens(server) == ["one", "two"]


@pytest.mark.parametrize("user", [{"token": "own"}, {"username": "u", "password": "p"}])
async def test_own_credentials_win_over_a_plugin(
    server: ScriptedServer, program: Path, user: dict[str, str]
) -> None:
    server.answer(REFUSED)
    async with Client(asks(program, server, **user)) as client:
        with pytest.raises(DeniedError):
            await client.raw(GET)
    assert (len(server.seen), calls(program)) == (1, [])


async def test_token_file_is_read_again_on_401(server: ScriptedServer, tmp_path: Path) -> None:
    """Also where it looks unchanged: same size, same time, same inode."""
    path = tmp_path / "token"
    path.write_text("one")
    before = path.stat()
    user = User(token_file=Secret("tokenFile", path=path))
    async with Client(ClusterAccess(server.url, user)) as client:
        server.answer(only("two"))
        with pytest.raises(DeniedError):
            await client.raw(GET)
        assert len(server.seen) == 1
        path.write_text("two")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        await client.raw(GET)
    assert tokens(server) == ["one", "one", "two"]


def certified(pair: Pair, **more: str) -> str:
    return answer(clientCertificateData=pair.certificate.decode(), clientKeyData=pair.key.decode(), **more)


def peer(names: list[str]) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("peercert")
        names.append(certificate["subject"][0][0][1])
        return web.json_response({})

    return handler


async def test_certificate_of_a_plugin_is_shown_and_changed(authority: Authority, tmp_path: Path) -> None:
    program = saying(tmp_path / "plugin", certified(authority.issue("first")))
    names = list[str]()
    clock = FakeClock()
    async with scripted(authority.server_context(tmp_path, require_client=True)) as server:
        server.answer(peer(names))
        user = User(plugin=plugin(program))
        access = ClusterAccess(server.url, user, ca=Secret("ca", data=authority.pem))
        say(program, certified(authority.issue("first"), expirationTimestamp="2030-01-01T01:00:00Z"))
        async with Client(access, clock=clock) as client:
            await client.raw(GET)
            await client.raw(GET)
            say(program, certified(authority.issue("second"), token="also"))
            await clock.advance(3601)
            await client.raw(GET)
        assert names == ["first", "first", "second"]
        assert tokens(server) == ["", "", "also"]


async def test_certificate_that_is_none_names_the_plugin(authority: Authority, tmp_path: Path) -> None:
    bad = Pair(authority.issue("a").certificate, authority.issue("b").key)
    program = saying(tmp_path / "plugin", certified(bad))
    access = ClusterAccess(
        "https://127.0.0.1:1", User(plugin=plugin(program)), ca=Secret("ca", data=authority.pem)
    )
    async with Client(access) as client:
        for _ in range(2):
            with pytest.raises(
                InvalidError, match=r"exec: status\.clientCertificateData .* not a matching PEM pair"
            ):
                await client.raw(GET)
