"""The listening server: one handler for all paths, over TLS or, for tests, without."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from dray.apiserver.access.certificates import Serving
from dray.apiserver.http.bodies import LIMIT
from dray.apiserver.http.handler import Handler
from dray.errors import UnavailableError

STOP_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where it listens. Port 0: one that is free."""

    host: str = "127.0.0.1"
    port: int = 0


@asynccontextmanager
async def serve(handler: Handler, address: Address, serving: Serving | None) -> AsyncIterator[int]:
    """Serve while entered; gives the port. Without certificates it is plain HTTP."""
    application = web.Application(client_max_size=LIMIT)
    application.router.add_route("*", "/{path:.*}", handler.handle)
    runner = web.AppRunner(
        application, shutdown_timeout=STOP_SECONDS, access_log=None, handler_cancellation=True
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, address.host, address.port, ssl_context=_context(serving))
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


def _context(serving: Serving | None) -> ssl.SSLContext | None:
    if serving is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(serving.certificate, serving.key)
    return context
