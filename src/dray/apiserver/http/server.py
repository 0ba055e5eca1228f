"""The listening server: one handler for all paths, over TLS or, for tests, without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiohttp import web

from dray.apiserver.http.answers import refused
from dray.apiserver.http.bodies import LIMIT
from dray.apiserver.http.handler import Handler
from dray.runtime.certificates import Serving, server_context
from dray.runtime.http_server import STOP_SECONDS, PlainServer, listening

HANDSHAKES = 256
"""As many clients may connect at once without having to try again; strangers take 80 MB by it."""
IDLE_SECONDS = 90.0
"""A connection that asks nothing for so long is closed, also one that sends its headers byte by byte."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where it listens. Port 0: one that is free."""

    host: str = "127.0.0.1"
    port: int = 0


@asynccontextmanager
async def serve(handler: Handler, address: Address, serving: Serving | None) -> AsyncIterator[int]:
    """Serve while entered; gives the port. Without certificates it is plain HTTP."""
    server = PlainServer(
        partial(_handled, handler),
        partial(refused, place=None),
        "apiserver.http",
        idle_seconds=IDLE_SECONDS,
        request_factory=_request,
    )
    runner = web.ServerRunner(server, shutdown_timeout=STOP_SECONDS)
    context = server_context(serving) if serving is not None else None
    advice = "choose another address"
    opened = listening(
        runner, address.host, address.port, advice=advice, context=context, handshakes=HANDSHAKES
    )
    async with (
        opened as port,
        handler.strangers.bounded(runner),
    ):
        yield port


async def _handled(handler: Handler, request: Any) -> web.StreamResponse:
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    return await handler.handle(request)


def _request(message: Any, payload: Any, connection: Any, writer: Any, task: Any) -> web.Request:
    loop = asyncio.get_running_loop()
    return web.Request(message, payload, connection, writer, task, loop, client_max_size=LIMIT)
