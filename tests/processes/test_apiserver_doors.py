"""Who the API server listens to: over real HTTPS, as browsers, programs and other people's pages send it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from dray.apiserver.http.server import Address
from dray.cli.main import main
from dray.client.kubeconfig import find_access
from dray.processes.apiserver import ApiServerOptions, api_server

ALLOWED = "api.example.com"
TUNNEL = "tunnel.example.com:8443"
OPEN = ("/healthz", "/livez", "/readyz", "/version")
CLOSED = ("/api", "/apis", "/api/v1/nodes", "/metrics", "/openapi/v2", "/openapi/v3", "/", "/apis/resource.k8s.io/v1/resourceslices",
          "/api/v1/nodes?watch=1", "/livezz", "/api/v1/namespaces/default/pods/p/log", "/nothing")  # fmt: skip
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@dataclass(frozen=True)
class Caller:
    """Trusts the server's authority, as every program does."""

    url: URL
    token: str
    trust: ssl.SSLContext
    session: aiohttp.ClientSession

    async def ask(
        self, path: str, *, method: str = "GET", token: bool = True, **headers: str
    ) -> tuple[int, str, Any]:
        who = {"Authorization": f"Bearer {self.token}"} if token else {}
        body = b"{}" if method == "POST" else None
        async with self.session.request(
            method,
            f"{self.url.origin()}{path}",
            headers={**who, **headers},
            data=body,
            ssl=self.trust,
        ) as answer:
            return answer.status, answer.reason or "", await _read(answer)


async def _read(answer: aiohttp.ClientResponse) -> Any:
    return await answer.json() if "json" in answer.content_type else await answer.text()


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    options = ApiServerOptions(tmp_path, Address(), allowed_hosts=(ALLOWED, TUNNEL))
    async with api_server(options) as found, aiohttp.ClientSession() as session:
        trust = ssl.create_default_context(cafile=tmp_path / "pki" / "ca.crt")
        yield Caller(URL(found.url), find_access(found.kubeconfig).user.token, trust, session)


async def test_without_a_token_nothing_but_its_health(caller: Caller) -> None:
    for path in OPEN:
        assert (await caller.ask(path, token=False))[0] == 200, path
        assert (await caller.ask(path, token=False, Authorization="Bearer wrong"))[0] == 401, path
    for path in CLOSED:
        status, _, told = await caller.ask(path, token=False)
        assert (status, told["kind"], told["reason"]) == (401, "Status", "Unauthorized"), path
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for path in ("/api/v1/nodes/n", REVIEW):
            assert (await caller.ask(path, method=method, token=False))[0] == 401, (method, path)
    impersonating = {"Impersonate-User": "admin", "Impersonate-Group": "system:masters"}
    assert (await caller.ask("/api/v1/nodes", token=False, **impersonating))[0] == 401


async def test_who_impersonates_nobody_is_known_and_refused(caller: Caller) -> None:
    """An administrator who asks what somebody without a name may do has a token: the answer is no, not `who are you`."""
    status, _, told = await caller.ask(
        "/api/v1/nodes", token=True, **{"Impersonate-User": "system:anonymous"}
    )
    assert (status, told["reason"]) == (403, "Forbidden")


async def test_names_that_are_the_servers(caller: Caller) -> None:
    port = caller.url.port
    for host in (
        "localhost", f"LOCALHOST:{port}", "[::1]:6443", "192.0.2.7", f"{socket.gethostname()}:{port}", ALLOWED, f"{ALLOWED}:1", TUNNEL
    ):  # fmt: skip
        assert (await caller.ask("/api/v1/nodes", Host=host))[0] == 200, host
        assert (await caller.ask("/api/v1/nodes", Host=host, Origin=f"https://{host}"))[0] == 200, host


async def test_names_of_others(caller: Caller) -> None:
    for host in (
        "evil.example",
        f"evil.example:{caller.url.port}",
        "127.0.0.1.evil.example",
        "localhost.",
        "tunnel.example.com",
    ):
        for path in ("/api/v1/nodes", "/api/v1/nodes?watch=1", "/version", "/livez"):
            status, _, told = await caller.ask(path, Host=host)
            assert (status, told["reason"]) == (403, "Forbidden"), (host, path)
            assert host in told["message"] and "--allow-host" in told["message"]
            assert "\n" not in told["message"]


async def test_pages_of_others(caller: Caller) -> None:
    """None of them gets a header that would let its script read the answer, either."""
    for origin in ("https://evil.example", "null", "http://127.0.0.1:9620", "https://127.0.0.1"):
        for method in ("GET", "OPTIONS", "POST", "DELETE"):
            status, _, told = await caller.ask("/api/v1/nodes", method=method, Origin=origin)
            assert (status, told["reason"]) == (403, "Forbidden"), (origin, method)
            assert "origin" in told["message"]
    async with caller.session.get(
        caller.url / "version", headers={"Origin": "https://evil.example"}, ssl=caller.trust
    ) as answer:
        assert answer.status == 403
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize(
    "line", ["", "Host:\r\n", "Host: evil.example\r\nHost: 127.0.0.1\r\n", "Host: evil.example\r\n"]
)
async def test_what_no_client_sends(caller: Caller, line: str) -> None:
    """No Host at all, an empty one, two of them."""
    reader, writer = await asyncio.open_connection(caller.url.host, caller.url.port, ssl=caller.trust)
    token = f"Authorization: Bearer {caller.token}\r\n"
    writer.write(f"GET /api/v1/nodes HTTP/1.1\r\n{line}{token}Connection: close\r\n\r\n".encode())
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    assert answer.split(b" ", 2)[1] in (b"400", b"403"), answer


async def test_an_allowed_name_is_in_the_certificate(caller: Caller, tmp_path: Path) -> None:
    reader, writer = await asyncio.open_connection(
        caller.url.host, caller.url.port, ssl=caller.trust, server_hostname=ALLOWED
    )
    writer.write(f"GET /readyz HTTP/1.1\r\nHost: {ALLOWED}\r\nConnection: close\r\n\r\n".encode())
    async with asyncio.timeout(60):
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    writer.close()
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection(
            caller.url.host, caller.url.port, ssl=caller.trust, server_hostname="evil.example"
        )


def test_a_name_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("apiserver", "up"):
        words = [command, f"--data-dir={tmp_path}", "--listen=127.0.0.1:0", "--allow-host=https://x"]
        assert main(words) == 2
        assert "--allow-host 'https://x' must be HOST or HOST:PORT" in capsys.readouterr().err
