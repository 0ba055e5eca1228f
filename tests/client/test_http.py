from __future__ import annotations

import asyncio
import contextlib
import gzip
import random
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from dray import __version__
from dray.client.access import ClusterAccess, Secret, User
from dray.client.failures import ExpiredError
from dray.client.http import HttpOptions, Request, Transport, _open_socket
from dray.errors import (
    ConflictError,
    DeniedError,
    Error,
    InvalidError,
    InvariantError,
    NotFoundError,
    ProtocolError,
    UnavailableError,
)
from dray.runtime.clock import FakeClock
from tests.campaign import campaign, seeded
from tests.client.certificates import Authority
from tests.client.servers import (
    ScriptedServer,
    blocking_tls_server,
    raw_server,
    reply,
    scripted,
    status,
    text,
    tunnel,
)
from tests.waiting import wait_until

GET = Request("GET", "/api/v1/pods")


@pytest.fixture
async def transport(server: ScriptedServer) -> AsyncIterator[Transport]:
    async with Transport(ClusterAccess(server.url)) as entered:
        yield entered


async def once(access: ClusterAccess, request: Request = GET, options: HttpOptions | None = None) -> bytes:
    async with Transport(access, options, environ={}) as transport:
        return await transport.send(request)


async def failure(access: ClusterAccess, request: Request = GET, options: HttpOptions | None = None) -> Error:
    with pytest.raises(Error) as caught:
        await once(access, request, options)
    assert "\n" not in str(caught.value)
    return caught.value


async def test_what_is_sent(server: ScriptedServer) -> None:
    access = ClusterAccess(server.url + "/k8s/clusters/c1", user=User(token="tok"))
    request = Request("PATCH", "/api/v1/x%2Fy", (("a", "b c&d"),), b'{"z":1}', "application/merge-patch+json")
    assert await once(access, request) == b"{}"
    (seen,) = server.seen
    assert seen.target == "/k8s/clusters/c1/api/v1/x%2Fy?a=b+c%26d"
    assert seen.body == b'{"z":1}'
    assert seen.headers["Content-Type"] == "application/merge-patch+json"
    assert seen.headers["Authorization"] == "Bearer tok"
    assert seen.headers["User-Agent"] == f"dray/{__version__}"
    assert seen.headers["Accept"] == "application/json"


async def test_compressed_answers(server: ScriptedServer) -> None:
    async def zipped(request: web.Request) -> web.StreamResponse:
        body = gzip.compress(b'{"big":"' + b"x" * 100_000 + b'"}')
        return web.Response(body=body, content_type="application/json", headers={"Content-Encoding": "gzip"})

    server.answer(zipped)
    assert len(await once(ClusterAccess(server.url))) == 100_010
    error = await failure(ClusterAccess(server.url), options=HttpOptions(response_limit=50_000))
    assert isinstance(error, ProtocolError)
    await once(ClusterAccess(server.url, compress=False))
    assert [seen.headers["Accept-Encoding"] for seen in server.seen] == ["gzip", "gzip", "identity"]


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", InvalidError),
        (401, "Unauthorized", DeniedError),
        (403, "Forbidden", DeniedError),
        (404, "NotFound", NotFoundError),
        (409, "Conflict", ConflictError),
        (409, "AlreadyExists", ConflictError),
        (410, "Expired", ExpiredError),
        (422, "Invalid", InvalidError),
        (429, "TooManyRequests", UnavailableError),
        (500, "InternalError", UnavailableError),
        (503, "ServiceUnavailable", UnavailableError),
        (504, "Timeout", UnavailableError),
    ],
)
async def test_refusals(server: ScriptedServer, code: int, reason: str, kind: type[Error]) -> None:
    server.answer(status(code, reason, f"the server says {reason}"))
    error = await failure(ClusterAccess(server.url))
    assert type(error) is kind
    assert len(server.seen) == 1
    if isinstance(error, DeniedError):
        assert error.authenticated is (code == 403)
    assert f"the server says {reason}" in str(error)
    assert (server.url in str(error)) is (code in (401, 410))


async def test_refusal_with_a_broken_body_still_counts(server: ScriptedServer) -> None:
    server.answer(text(403, "<html>no</html>", "text/html"))
    error = await failure(ClusterAccess(server.url))
    assert isinstance(error, DeniedError)
    assert server.url in str(error)
    async with raw_server(b"HTTP/1.1 404 Not Found\r\nContent-Length: 500\r\n\r\n{") as url:
        assert isinstance(await failure(ClusterAccess(url)), NotFoundError)
    huge = b"HTTP/1.1 409 Conflict\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 2_000_000
    async with raw_server(huge) as url:
        assert isinstance(await failure(ClusterAccess(url)), ConflictError)


async def test_retries_what_the_server_refused_for_now(server: ScriptedServer) -> None:
    clock = FakeClock()
    server.answer(
        status(429, "TooManyRequests", "slow down", Retry_After="2"),
        status(503, "ServiceUnavailable", "starting", Retry_After="3"),
        reply(200, {"ok": 1}),
    )
    async with Transport(ClusterAccess(server.url), clock=clock) as transport, asyncio.TaskGroup() as group:
        sending = group.create_task(transport.send(GET))
        for wait in (2.0, 3.0):
            await wait_until(lambda: clock.sleepers)
            await clock.advance(wait - 0.1)
            assert clock.sleepers == 1
            await clock.advance(0.1)
    assert sending.result() == b'{"ok":1}'
    assert len(server.seen) == 3


async def test_retries_are_bounded(server: ScriptedServer) -> None:
    server.answer(status(429, "TooManyRequests", "no", Retry_After="0"))
    error = await failure(ClusterAccess(server.url), options=HttpOptions(retries=3))
    assert isinstance(error, UnavailableError)
    assert len(server.seen) == 4


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_requests_that_may_not_be_repeated_are_not(server: ScriptedServer, method: str) -> None:
    server.answer(status(429, "TooManyRequests", "no", Retry_After="1"))
    error = await failure(ClusterAccess(server.url), Request(method, "/x", body=b"{}"))
    assert isinstance(error, UnavailableError)
    assert error.retry_after == 1.0
    assert len(server.seen) == 1


async def test_a_wait_beyond_the_deadline_is_not_begun(server: ScriptedServer) -> None:
    server.answer(status(503, "ServiceUnavailable", "long maintenance", Retry_After="3600"))
    error = await failure(ClusterAccess(server.url))
    assert isinstance(error, UnavailableError)
    assert error.retry_after == 3600.0
    assert "long maintenance" in str(error)


async def test_refused_and_unknown_hosts() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    error = await failure(ClusterAccess(f"http://127.0.0.1:{port}"))
    assert isinstance(error, UnavailableError)
    assert "is the API server running?" in str(error)
    error = await failure(ClusterAccess("http://no-such-host.invalid:1"))
    assert isinstance(error, UnavailableError)


async def test_slow_answers_meet_the_deadline(server: ScriptedServer) -> None:
    async def never(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    server.answer(never)
    error = await failure(ClusterAccess(server.url), Request("GET", "/x", timeout=0.1))
    assert isinstance(error, UnavailableError)
    assert "no answer within 0.1 s" in str(error)
    async with raw_server(
        b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n", b"{", b" ", b" ", pause=0.05
    ) as url:
        error = await failure(ClusterAccess(url), Request("GET", "/x", timeout=0.1))
        assert "no answer within 0.1 s" in str(error)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"", UnavailableError),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{",
            UnavailableError,
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", UnavailableError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", Error),
        (b"SSH-2.0-OpenSSH_9\r\n", ProtocolError),
        (b"\x15\x03\x01\x00\x02\x02\x16", ProtocolError),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000 + b"\r\n\r\n", ProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\njunk", Error),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\n{}", ProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", ProtocolError),
        (b"HTTP/1.1 302 Found\r\nLocation: https://evil/\r\nContent-Length: 0\r\n\r\n", ProtocolError),
    ],
)
async def test_broken_answers(answer: bytes, kind: type[Error]) -> None:
    async with raw_server(answer) as url:
        error = await failure(ClusterAccess(url, user=User(token="secret")))
    assert isinstance(error, kind)
    assert isinstance(error, UnavailableError | ProtocolError)
    assert url in str(error)
    assert "secret" not in str(error)


VALID = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 429 X\r\nRetry-After: 9999\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 22\r\n\r\n"
    + gzip.compress(b"{}", mtime=0),
)


def spoiled(rng: random.Random) -> bytes:
    """A valid answer with some bytes cut out, changed or added, or nothing but noise."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.randrange(300))
    answer = bytearray(rng.choice(VALID))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(answer) + 1)
        answer[at : at + rng.randrange(3)] = rng.choice((b"", rng.randbytes(2), b"\r\n", b" ", b"0", b":"))
    return bytes(answer[: rng.randrange(len(answer) + 1)] if rng.random() < 0.2 else answer)


async def test_spoiled_answers_are_clear_errors() -> None:
    rng = seeded(5)
    failures: set[type[Error]] = set()
    async with (
        raw_server(lambda: spoiled(rng)) as url,
        Transport(ClusterAccess(url), HttpOptions(retries=0), environ={}) as transport,
    ):
        for _ in range(campaign(300, 30_000)):
            try:
                await transport.send(Request("GET", "/x", timeout=5))
            except Error as error:
                assert "\n" not in str(error)
                failures.add(type(error))
    assert {UnavailableError, ProtocolError, NotFoundError} <= failures


async def test_oversize_answers_are_cut_off(server: ScriptedServer) -> None:
    server.answer(reply(200, {"big": "x" * 10_000}))
    error = await failure(ClusterAccess(server.url), options=HttpOptions(response_limit=9_999))
    assert isinstance(error, ProtocolError)
    assert "larger than 9999 bytes" in str(error)


async def test_stream_gives_pieces_and_notices_silence(server: ScriptedServer, transport: Transport) -> None:
    async def dripping(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for piece in (b"a", b"b"):
            await response.write(piece)
        await asyncio.Event().wait()
        return response

    server.answer(dripping)
    got = []
    with pytest.raises(UnavailableError, match="did not answer in time"):
        async with transport.stream(GET, idle_timeout=0.2, timeout=3600) as body:
            while piece := await body.read():
                got.append(piece)
    assert b"".join(got) == b"ab"
    with pytest.raises(UnavailableError, match="did not answer in time"):
        async with transport.stream(GET, idle_timeout=3600, timeout=0.2) as body:
            while await body.read():
                pass
    with pytest.raises(ZeroDivisionError):
        async with transport.stream(GET, idle_timeout=10, timeout=10) as body:
            raise ZeroDivisionError


async def test_use_outside_the_block_is_our_bug(server: ScriptedServer) -> None:
    transport = Transport(ClusterAccess(server.url))
    with pytest.raises(InvariantError):
        await transport.send(GET)
    async with transport:
        await transport.send(GET)
    with pytest.raises(InvariantError):
        await transport.send(GET)


async def test_connections_are_reused(server: ScriptedServer, transport: Transport) -> None:
    peers = set()

    async def note(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        code = 404 if len(server.seen) % 2 else 200
        return web.Response(status=code, body=b"{}", content_type="application/json")

    server.answer(note)
    for _ in range(6):
        with contextlib.suppress(NotFoundError):
            await transport.send(GET)
    assert len(peers) == 1


async def test_socket_notices_a_dead_peer(server: ScriptedServer) -> None:
    with _open_socket(
        (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 1))
    ) as opened:
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30


async def test_through_a_proxy(server: ScriptedServer, tmp_path: Path, authority: Authority) -> None:
    access = ClusterAccess("http://api.example:80", proxy_url=server.url)
    assert await once(access) == b"{}"
    assert server.seen[0].target == "http://api.example/api/v1/pods"
    context = authority.server_context(tmp_path)
    async with scripted(context) as behind, tunnel() as proxy:
        ca = Secret("certificate-authority-data", authority.pem)
        assert await once(ClusterAccess(behind.url, ca=ca, proxy_url=proxy)) == b"{}"
        error = await failure(ClusterAccess(behind.url, proxy_url=proxy))
        assert isinstance(error, InvalidError)
    error = await failure(ClusterAccess(behind.url, ca=ca, proxy_url=proxy))
    assert isinstance(error, UnavailableError)
    error = await failure(ClusterAccess("https://api.example", proxy_url=server.url, insecure=True))
    assert isinstance(error, UnavailableError)
    assert "proxy" in str(error)


# --- TLS ---


def secure(
    server: ScriptedServer, ca: bytes | None, user: User | None = None, tls_server_name: str = ""
) -> ClusterAccess:
    secret = Secret("certificate-authority-data", ca) if ca else None
    return ClusterAccess(server.url, user=user or User(), ca=secret, tls_server_name=tls_server_name)


def identity(authority: Authority, name: str = "me", days: int = 30) -> User:
    pair = authority.issue(name, days=days)
    return User(
        certificate=Secret("client-certificate-data", pair.certificate),
        key=Secret("client-key-data", pair.key),
    )


async def test_trusted_server(tmp_path: Path, authority: Authority) -> None:
    async with scripted(authority.server_context(tmp_path)) as server:
        assert await once(secure(server, authority.pem)) == b"{}"


async def test_wrong_ca_and_no_ca_are_refused(tmp_path: Path, authority: Authority) -> None:
    async with scripted(authority.server_context(tmp_path)) as server:
        for ca in (Authority("other").pem, None):
            error = await failure(secure(server, ca, User(token="secret")))
            assert isinstance(error, InvalidError)
            assert "certificate-authority" in str(error)
        assert server.seen == []
        assert await once(ClusterAccess(server.url, insecure=True)) == b"{}"


async def test_wrong_host_name_is_refused_unless_named(tmp_path: Path, authority: Authority) -> None:
    async with scripted(authority.server_context(tmp_path, ["kubernetes", "10.0.0.1"])) as server:
        error = await failure(secure(server, authority.pem))
        assert isinstance(error, InvalidError)
        assert "tls-server-name" in str(error)
        assert server.seen == []
        assert await once(secure(server, authority.pem, tls_server_name="kubernetes")) == b"{}"


async def test_client_certificate(tmp_path: Path, authority: Authority) -> None:
    with blocking_tls_server(authority.server_context(tmp_path, require_client=True)) as url:
        ca = Secret("certificate-authority-data", authority.pem)
        assert await once(ClusterAccess(url, user=identity(authority), ca=ca)) == b"{}"
        for user in (User(), identity(Authority("other")), identity(authority, days=-1)):
            error = await failure(ClusterAccess(url, user=user, ca=ca))
            assert isinstance(error, DeniedError)
            assert error.authenticated is False
            assert "client-certificate" in str(error)


async def test_tls_to_a_plain_server_and_back(
    tmp_path: Path, authority: Authority, server: ScriptedServer
) -> None:
    error = await failure(ClusterAccess(server.url.replace("http", "https")))
    assert isinstance(error, UnavailableError)
    async with scripted(authority.server_context(tmp_path)) as tls:
        error = await failure(ClusterAccess(tls.url.replace("https", "http")))
        assert isinstance(error, UnavailableError | ProtocolError)


async def test_certificates_rotate_while_in_use(tmp_path: Path, authority: Authority) -> None:
    files = authority.issue("me", days=-1).write(tmp_path, "me")
    user = User(
        certificate=Secret("client-certificate", path=files[0]), key=Secret("client-key", path=files[1])
    )
    with blocking_tls_server(authority.server_context(tmp_path, require_client=True)) as url:
        access = ClusterAccess(url, user=user, ca=Secret("certificate-authority-data", authority.pem))
        async with Transport(access) as transport:
            with pytest.raises(DeniedError):
                await transport.send(GET)
            authority.issue("me").write(tmp_path, "me")
            assert await transport.send(GET) == b"{}"
