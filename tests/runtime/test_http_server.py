"""What all our HTTP servers have in common."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from aiohttp import web

from dray.errors import Error, UnavailableError
from dray.runtime.http_server import PlainServer, RequestError, listening


def _refused(error: Error) -> web.Response:
    code = error.code if isinstance(error, RequestError) else 500
    return web.Response(status=code, text=f"refused: {error}")


async def _handle(request: Any) -> web.StreamResponse:
    if request.path == "/bug":
        raise ZeroDivisionError("ours")
    return web.Response(text="hello")


def _runner() -> web.ServerRunner:
    return web.ServerRunner(PlainServer(_handle, _refused, "test", idle_seconds=5.0))


async def _said(port: int, sent: bytes) -> tuple[bytes, bytes]:
    """The first line of the answer, and its body, when the server has hung up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head.partition(b"\r\n")[0], body


async def test_every_sender_gets_an_answer_of_ours() -> None:
    async with listening(_runner(), "127.0.0.1", 0, advice="-") as port:
        line, body = await _said(port, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (line, body) == (b"HTTP/1.1 200 OK", b"hello")
        line, body = await _said(port, b"hello\r\n\r\n")
        assert line.endswith(b"400 Bad Request") and body.startswith(
            b"refused: the request is not understood: "
        )


async def test_a_bug_of_ours_is_told_in_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(_runner(), "127.0.0.1", 0, advice="-") as port:
        line, body = await _said(port, b"GET /bug HTTP/1.1\r\nHost: x\r\n\r\n")
    assert line.endswith(b"500 Internal Server Error") and body == b"refused: the server's log tells more"
    assert "ZeroDivisionError" in caplog.text


async def test_an_address_of_somebody_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        text = f"cannot listen on 127.0.0.1:{port}: address already in use; choose --listen"
        with pytest.raises(UnavailableError, match=text):
            async with listening(_runner(), "127.0.0.1", port, advice="choose --listen"):
                pass
