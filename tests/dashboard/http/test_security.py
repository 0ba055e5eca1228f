"""Who may look: tokens, hosts, origins, cookies; as values, and over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dray.dashboard.http.security import Doorkeeper, check_token_text, new_token
from dray.dashboard.http.server import BODY_LIMIT
from dray.errors import DeniedError, InvalidError, UnavailableError
from dray.runtime.clock import FakeClock
from dray.runtime.http_hosts import Hosts
from tests.dashboard.looking import Looker, alone

TOKEN = "a-token-of-enough-letters"
ADDRESS = "127.0.0.1:9620"


def _keeper(clock: FakeClock | None = None, *more: str) -> Doorkeeper:
    return Doorkeeper(TOKEN, Hosts.at("127.0.0.1", 9620, more), "c", clock or FakeClock())


@pytest.mark.parametrize("host", [ADDRESS, "localhost:9620", "LOCALHOST:9620", "[::1]:9620"])
def test_our_own_names(host: str) -> None:
    _keeper().check_place({"Host": host}, is_api=True)


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:9620", "127.0.0.1", "127.0.0.1:80", "localhost:9621", "127.0.0.1:9620.evil.example",
     "127.0.0.1:9620 ", "a@127.0.0.1:9620", "127.0.0.1:9620/", "[::1]", "0.0.0.0:9620"],
)  # fmt: skip
def test_names_that_are_not_ours(host: str) -> None:
    with pytest.raises(DeniedError, match="--allow-host"):
        _keeper().check_place({"Host": host}, is_api=True)


def test_names_that_an_administrator_allows() -> None:
    keeper = _keeper(None, "dash.example.com", "other.example.com:8443")
    for host in ("dash.example.com", "dash.example.com:1234", "Dash.Example.com", "other.example.com:8443"):
        keeper.check_place({"Host": host}, is_api=True)
    with pytest.raises(DeniedError):
        keeper.check_place({"Host": "other.example.com"}, is_api=True)
    with pytest.raises(InvalidError, match="--allow-host"):
        Hosts.at("127.0.0.1", 1, ["https://x"])


@pytest.mark.parametrize("origin", ["null", "", "http://evil.example", "http://127.0.0.1:9621", "http://127.0.0.1",
                                    "http://localhost:9620", "ftp://127.0.0.1:9620", f"http://{ADDRESS}.evil.example"])  # fmt: skip
def test_pages_of_other_origins(origin: str) -> None:
    with pytest.raises(DeniedError, match="origin"):
        _keeper().check_place({"Host": ADDRESS, "Origin": origin}, is_api=False)


def test_our_own_page_and_programs() -> None:
    for headers in (
        {},
        {"Origin": f"http://{ADDRESS}"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ):
        _keeper().check_place({"Host": ADDRESS, **headers}, is_api=True)
    for site in ("cross-site", "same-site"):
        _keeper().check_place({"Host": ADDRESS, "Sec-Fetch-Site": site}, is_api=False)  # a link to our page
        with pytest.raises(DeniedError, match="another site"):
            _keeper().check_place({"Host": ADDRESS, "Sec-Fetch-Site": site}, is_api=True)


async def test_guessing_is_slow_and_the_right_token_is_always_let_in() -> None:
    clock = FakeClock()
    keeper = _keeper(clock)
    for _ in range(10):
        with pytest.raises(DeniedError):
            keeper.log_in("wrong")
        await keeper.slow_down()
    keeper.log_in(TOKEN)
    waiting = [asyncio.ensure_future(keeper.slow_down()) for _ in range(64)]
    await asyncio.sleep(0)
    with pytest.raises(UnavailableError, match="too many"):
        await keeper.slow_down()
    keeper.log_in(TOKEN)
    assert not any(one.done() for one in waiting)
    await clock.advance(0.3)
    await asyncio.gather(*waiting)
    await clock.advance(10.1)
    await keeper.slow_down()  # that was long ago


def test_tokens() -> None:
    assert new_token() != new_token()
    assert check_token_text(f"{TOKEN}\n", "f") == TOKEN
    for weak in ("", "short", "with a space in between", "zwölf-mal-fünf-ist-60", "two\nlines-of-a-token"):
        with pytest.raises(InvalidError, match="at least 16"):
            check_token_text(weak, "f")
    with pytest.raises(InvalidError, match="at least 6 different characters"):
        check_token_text("abababababababab", "f")
    assert TOKEN not in repr(_keeper())


async def test_nothing_without_the_token() -> None:
    async with alone() as looker:
        for path in (
            "fleet",
            "nodes/n",
            "devices/a/b/c",
            "claims",
            "pods",
            "events",
            "explain?claim=a/b",
            "stream",
        ):
            for token in ("", "wrong", looker.at.token[:-1]):
                status, headers, found = await looker.ask(f"/api/{path}", token=token)
                assert (status, headers["WWW-Authenticate"]) == (401, "Bearer"), path
                assert "token" in found["error"]
        status, _, _ = await looker.ask("/api/whatif", method="POST", token="", body={})
        assert status == 401


async def test_the_cookie_lets_in_and_is_only_for_our_page() -> None:
    async with alone() as looker:
        status, headers, _ = await _log_in(looker, looker.at.token)
        assert status == 200
        cookie = SimpleCookie(headers["Set-Cookie"])
        (name,) = cookie
        one = cookie[name]
        assert (one["httponly"], one["samesite"], one["path"]) == (True, "Strict", "/")
        assert str(urlsplit(looker.at.url).port) in name
        assert looker.at.token not in one.value
        sent = {"Cookie": f"{name}={one.value}"}
        assert (await looker.ask("/api/fleet", token="", headers=sent))[0] == 200
        assert (await looker.ask("/api/fleet", token="", headers={"Cookie": f"{name}=x"}))[0] == 401
        _, headers, _ = await looker.ask("/api/logout", method="POST", headers=sent)
        assert SimpleCookie(headers["Set-Cookie"])[name].value == ""


async def test_logging_in_with_another_token() -> None:
    async with alone() as looker:
        assert (await _log_in(looker, "another"))[0] == 401
        for body in (b"", b"[]", b'{"token": 7}', b'{"token": "x", "more": 1}', b"\xff"):
            headers = {"Content-Type": "application/json"}
            assert (await looker.ask("/api/login", method="POST", token="", headers=headers, body=body))[
                0
            ] == 422
        for _ in range(9):
            await _log_in(looker, "another")
        status, headers, _ = await _log_in(looker, looker.at.token)
        assert (status, "Set-Cookie" in headers) == (200, True)  # nobody is locked out by others
        assert (await looker.ask("/api/fleet"))[0] == 200  # who is in stays in


async def test_other_hosts_and_origins_over_http() -> None:
    async with alone() as looker:
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            for path in ("/", "/api/fleet"):
                status, _, found = await looker.ask(path, headers=headers)
                assert status == 403
                assert list(found) == ["error"]
        form = {"Content-Type": "text/plain"}  # what a form of another page could send
        assert (await looker.ask("/api/whatif", method="POST", headers=form, body=b"{}"))[0] == 415


async def test_a_huge_body_is_not_read() -> None:
    async with alone() as looker:
        headers = {"Content-Type": "application/json"}
        status, _, found = await looker.ask(
            "/api/whatif", method="POST", headers=headers, body=BytesIO(b"x" * (BODY_LIMIT + 1))
        )
        assert (status, found["error"]) == (413, f"the body is larger than {BODY_LIMIT} bytes")

        async def drops() -> AsyncIterator[bytes]:
            for _ in range(40):
                yield b"x" * 65536

        status, _, _ = await looker.ask("/api/whatif", method="POST", headers=headers, body=drops())
        assert status == 413
        assert (await looker.ask("/api/fleet"))[0] == 200


async def test_what_is_no_http_gets_an_answer_like_any_other() -> None:
    async with alone() as looker:
        address = urlsplit(looker.at.url)
        for sent in (b"hello\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 20_000 + b"\r\n\r\n"):
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(sent)
            async with asyncio.timeout(60):
                answer = await reader.read()
            writer.close()
            assert answer.split(b" ", 2)[1] == b"400", answer
            assert b"default-src 'none'" in answer
            assert answer.partition(b"\r\n\r\n")[2].startswith(b'{"error":"the request is not understood')


async def test_headers_of_everything() -> None:
    async with alone() as looker:
        for path in ("/", "/api/fleet", "/api/none", "/none"):
            _, headers, _ = await looker.ask(path)
            policy = headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
            assert "unsafe" not in policy
            assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == (
                "nosniff",
                "no-referrer",
            )
            assert headers["Cache-Control"] == ("no-cache" if path == "/" else "no-store")
            assert "Access-Control-Allow-Origin" not in headers


async def test_a_token_file_is_kept_and_is_nobody_elses(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "dashboard.token"
    async with alone(token_file=path) as looker:
        token = looker.at.token
    assert path.read_text().strip() == token
    assert path.stat().st_mode & 0o777 == 0o600
    async with alone(token_file=path) as looker:
        assert looker.at.token == token
    path.write_text("weak\n")
    with pytest.raises(InvalidError, match=r"dashboard\.token"):
        async with alone(token_file=path):
            pass


async def _log_in(looker: Looker, token: str) -> tuple[int, Any, Any]:
    return await looker.ask("/api/login", method="POST", token="", body={"token": token})
