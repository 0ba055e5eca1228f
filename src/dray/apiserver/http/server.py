"""The listening server: one handler for all paths, over TLS or, for tests, without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from dray.apiserver.http.answers import refused
from dray.apiserver.http.bodies import LIMIT
from dray.apiserver.http.failures import RequestError
from dray.apiserver.http.handler import Handler
from dray.errors import Error, InvariantError, UnavailableError
from dray.runtime.certificates import Serving, server_context
from dray.runtime.logs import get_log

_log = get_log("apiserver.http")

STOP_SECONDS = 2.0
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
    runner = web.ServerRunner(_Server(handler), shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    try:
        context = server_context(serving) if serving is not None else None
        site = web.TCPSite(runner, address.host, address.port, ssl_context=context)
        try:
            await site.start()
        except OSError as error:
            reason = error.strerror or str(error)
            raise UnavailableError(
                f"cannot listen on {address.host}:{address.port}: {reason}; choose another address"
            ) from error
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class _Server(web.Server):
    """No router in between: every request that can be read at all reaches the handler."""

    def __init__(self, handler: Handler) -> None:
        self._answer = handler.handle
        super().__init__(self._handled, request_factory=_request, handler_cancellation=True)

    def __call__(self) -> web.RequestHandler:
        return _Connection(
            self,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # the library means no log by it
            auto_decompress=False,  # a body is what it is: nobody sends them packed, and packed ones can be bombs
            keepalive_timeout=IDLE_SECONDS,
        )

    async def _handled(self, request: Any) -> web.StreamResponse:
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        return await self._answer(request)


def _request(message: Any, payload: Any, connection: Any, writer: Any, task: Any) -> web.Request:
    loop = asyncio.get_running_loop()
    return web.Request(message, payload, connection, writer, task, loop, client_max_size=LIMIT)


class _Connection(web.RequestHandler):
    """Tells a Status also to those whose request is no HTTP, and where the handler itself failed."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Called by the library, with `exc` being handled; the connection ends after the answer."""
        if status >= 500:
            _log.exception("a request met a bug", path=request.path)
            error: Error = InvariantError("the server's log tells more")
        else:
            error = RequestError(
                400, f"the request is not understood: {' '.join((message or str(exc)).split())}"
            )
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already")
        answer = refused(error, None)
        answer.force_close()
        return answer
