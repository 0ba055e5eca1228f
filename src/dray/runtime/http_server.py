"""What all our HTTP servers have in common: how they listen, and that also who speaks no HTTP gets an answer of ours."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web

from dray.errors import Error, InvalidError
from dray.runtime.http_arrivals import MOST_HANDSHAKES, TLSSite
from dray.runtime.logs import get_log
from dray.runtime.ports import cannot_listen

STOP_SECONDS: Final = 2.0
"""That requests which are being answered get at the end."""

Handle = Callable[[Any], Awaitable[web.StreamResponse]]


class RequestError(InvalidError):
    """What is wrong is the request itself, not what it is about: `code` says how."""

    def __init__(self, code: int, message: str, field: str = "") -> None:
        super().__init__(message, field=field)
        self.code = code


@asynccontextmanager
async def listening(
    runner: web.BaseRunner,
    host: str,
    port: int,
    *,
    advice: str,
    context: ssl.SSLContext | None = None,
    handshakes: int = MOST_HANDSHAKES,
) -> AsyncIterator[int]:
    """Serve while entered; gives the port. `advice`: what to do where somebody else has the address.

    With a `context`, of more than `handshakes` connections whose handshake has not ended the oldest end.
    """
    await runner.setup()
    try:
        try:
            if context is None:
                await web.TCPSite(runner, host, port).start()
            else:
                await TLSSite(runner, host, port, context, handshakes).start()
        except OSError as error:
            raise cannot_listen(host, port, error, advice) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


class PlainServer(web.Server):
    """No router in between: every request that can be read at all reaches `handle`, and `refuse` words the answer to others."""

    def __init__(
        self,
        handle: Handle,
        refuse: Callable[[Error], web.Response],
        part: str,
        *,
        idle_seconds: float,
        request_factory: Any = None,
        **limits: int,
    ) -> None:
        super().__init__(handle, request_factory=request_factory, handler_cancellation=True)
        self._refuse, self._part = refuse, part
        self._options: dict[str, Any] = {
            "access_log": None,  # the library means no log by it
            "auto_decompress": False,  # a body is what it is: nobody sends them packed, and packed ones can be bombs
            "keepalive_timeout": idle_seconds,
            **limits,
        }

    def __call__(self) -> web.RequestHandler:
        """Called by the library for each connection."""
        return _Connection(self, self._refuse, self._part, loop=asyncio.get_running_loop(), **self._options)


class _Connection(web.RequestHandler):
    __slots__ = ("_part", "_refuse")

    def __init__(
        self,
        server: PlainServer,
        refuse: Callable[[Error], web.Response],
        part: str,
        **options: Any,
    ) -> None:
        super().__init__(server, **options)
        self._refuse = refuse
        self._part = part

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Called by the library, with `exc` being handled; the connection ends after the answer."""
        if status >= 500:
            get_log(self._part).exception("a request met a bug", path=request.path)
            error = Error("the server's log tells more")
        else:
            error = RequestError(
                400, f"the request is not understood: {' '.join((message or str(exc)).split())}"
            )
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already")
        answer = self._refuse(error)
        answer.force_close()
        return answer
