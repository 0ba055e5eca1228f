"""The guard's HTTPS server, which answers API servers alone: see `callers.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

from aiohttp import web

from dray.controllers.guard.callers import CLAIMS_PATH, PARAMETERS_PATH, Callers
from dray.controllers.guard.guard import Guard
from dray.controllers.guard.parameters import Parameters
from dray.controllers.guard.review import ALLOWED, Answer, Review, documents_in, read_review, write_answer
from dray.errors import InvalidError, UnavailableError
from dray.runtime.certificates import Serving, server_context
from dray.runtime.http_arrivals import Strangers
from dray.runtime.http_server import STOP_SECONDS, listening
from dray.runtime.metrics import Metrics
from dray.runtime.threads import Threads

_LIMIT: Final = 8 * 2**20
"""A claim is at most 1.5 MiB in etcd; a review holds it twice."""
CHECK_SECONDS: Final = 5.0
"""For a driver's check of its parameters; the API server waits for ten."""


_STRANGERS: Final = 64
"""Connections that never asked at the secret path."""


class GuardServer:
    """Answers reviews; what cannot be understood is 400, and so refused by the API server.

    Who does not know the secret path is told that nothing is there, before anything of the request is read.
    """

    def __init__(
        self,
        guard: Guard,
        parameters: Parameters,
        callers: Callers,
        metrics: Metrics,
        *,
        seconds: float = CHECK_SECONDS,
    ) -> None:
        self._guard, self._parameters, self._callers = guard, parameters, callers
        self._threads, self._seconds = Threads(), seconds
        self.strangers = Strangers(_STRANGERS)
        self._reviews = metrics.counter(
            "dray_guard_reviews", "Writes that the API server asked about.", ["path", "code"]
        )
        metrics.series(
            "dray_guard_reservations",
            "Allocations that were let through and not seen stored yet.",
            lambda: [({}, guard.reserved)],
        )
        metrics.series(
            "dray_guard_leading", "1 where this guard decides.", lambda: [({}, float(guard.is_leading))]
        )

    def application(self) -> web.Application:
        """All paths."""
        application = web.Application(client_max_size=_LIMIT)
        application.router.add_post(f"{CLAIMS_PATH}/{{secret}}", self._answering(CLAIMS_PATH, self._claims))
        application.router.add_post(
            f"{PARAMETERS_PATH}/{{secret}}", self._answering(PARAMETERS_PATH, self._check)
        )
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/healthz", self._healthz)
        return application

    def _answering(
        self, path: str, decide: Callable[[Review], Awaitable[Answer]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            if (stranger := self._refuse_stranger(request, path)) is not None:
                self._reviews.labels(path, str(stranger.status)).inc()
                return stranger
            try:
                review = read_review(await request.read())
            except InvalidError as error:
                self._reviews.labels(path, "400").inc()
                return web.Response(status=HTTPStatus.BAD_REQUEST, text=f"{error}\n")
            found = await decide(review)
            self._reviews.labels(path, str(found.status.value)).inc()
            return web.Response(body=write_answer(review.uid, found), content_type="application/json")

        return answer

    def _refuse_stranger(self, request: web.Request, path: str) -> web.Response | None:
        """The connection ends: what was not read is not worth reading."""
        if not self._callers.know(request.match_info["secret"], path):
            answer = web.Response(status=HTTPStatus.NOT_FOUND, text="404: Not Found")
        elif not self._callers.are_certified(request.get_extra_info("peercert")):
            text = "only an API server may ask: show a client certificate of --guard-client-ca-file\n"
            answer = web.Response(status=HTTPStatus.FORBIDDEN, text=text)
        else:
            self.strangers.know(request)
            return None
        answer.force_close()
        return answer

    async def _claims(self, review: Review) -> Answer:
        """Only what the webhook is for is judged: another resource here is a webhook that somebody changed."""
        if (review.resource.resource, review.sub_resource) != ("resourceclaims", "status"):
            text = f"the guard judges resourceclaims/status only, not {review.resource.resource}"
            return Answer(HTTPStatus.UNPROCESSABLE_ENTITY, text)
        return await self._guard.review(review)

    async def _check(self, review: Review) -> Answer:
        """Needs no lead: it depends on nothing but the object. In a thread: strangers' checks may hang, the guard may not."""
        try:
            check = partial(self._parameters.check, review.resource.resource, *documents_in(review))
            await self._threads.run(check, doing="check parameters", seconds=self._seconds)
        except InvalidError as error:
            return Answer(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        except UnavailableError:
            text = f"the driver's check of its parameters did not end in {self._seconds:g} s"
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, text)
        return ALLOWED

    async def _readyz(self, _: web.Request) -> web.Response:
        """For the readiness probe: only the guard that leads may be behind the Service."""
        if self._guard.is_leading:
            return web.Response(text="ok\n")
        return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text="another guard leads\n")

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")


@asynccontextmanager
async def serve(
    server: GuardServer, host: str, port: int, serving: Serving, client_ca: Path | None = None
) -> AsyncIterator[int]:
    """Serve while entered; gives the port. Reviews that are being answered get two seconds at the end.

    `client_ca` signs the certificates that API servers show; probes show none, and are answered all the same.
    """
    runner = web.AppRunner(server.application(), shutdown_timeout=STOP_SECONDS, access_log=None)
    advice, context = "choose another --guard-address", server_context(serving, client_ca)
    async with (
        listening(runner, host, port, advice=advice, context=context) as chosen,
        server.strangers.bounded(runner),
    ):
        yield chosen
