"""The listening server: one handler for all paths, over TLS or, for tests, without."""

from __future__ import annotations

from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from dray.apiserver.http.bodies import LIMIT
from dray.apiserver.http.handler import Handler
from dray.errors import UnavailableError
from dray.runtime.certificates import Serving, server_context

STOP_SECONDS = 2.0
TLS_BUFFER = 32 << 10
"""asyncio reads TLS through 256 KiB for each connection, all of it in memory: 1,000 watchers would cost 256 MiB."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where it listens. Port 0: one that is free."""

    host: str = "127.0.0.1"
    port: int = 0


@asynccontextmanager
async def serve(handler: Handler, address: Address, serving: Serving | None) -> AsyncIterator[int]:
    """Serve while entered; gives the port. Without certificates it is plain HTTP."""
    SSLProtocol.max_size = TLS_BUFFER
    application = web.Application(client_max_size=LIMIT)
    application.router.add_route("*", "/{path:.*}", handler.handle)
    runner = web.AppRunner(
        application, shutdown_timeout=STOP_SECONDS, access_log=None, handler_cancellation=True
    )
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
