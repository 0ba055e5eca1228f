"""`/containerLogs/NAMESPACE/POD/CONTAINER` over TLS, as an API server asks for it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

from aiohttp import web

from dray.errors import (
    DeniedError,
    Error,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from dray.kubelet.pods.known import KnownPod
from dray.kubelet.runtimes.contract import Runtime, State
from dray.kubelet.server.callers import Callers, caller_of
from dray.kubelet.server.log_files import find_log, open_log, read_log
from dray.kubelet.server.log_lines import log_options
from dray.runtime.certificates import Serving, server_context
from dray.runtime.clock import Clock
from dray.runtime.http_server import STOP_SECONDS, listening
from dray.runtime.logs import get_log

_log = get_log("kubelet.server")

_CODES: tuple[tuple[type[Error], int], ...] = (
    (NotFoundError, 404),
    (InvalidError, 400),
    (DeniedError, 403),
    (UnavailableError, 503),
)


@dataclass(frozen=True, slots=True)
class LogSources:
    """Where logs come from: the pods that are known, what runs, and the directory of the files."""

    pods: Callable[[], Collection[KnownPod]]
    runtime: Runtime
    directory: Path
    clock: Clock

    def find(self, namespace: str, name: str) -> KnownPod:
        """One that is being replaced by another of its name counts only where that one is not here yet."""
        named = [
            one
            for one in self.pods()
            if one.pod.metadata.namespace == namespace and one.pod.metadata.name == name
        ]
        if not named:
            raise NotFoundError(f'pod "{name}" not found on this node', kind="pod", name=name)
        return max(named, key=lambda one: (one.is_wanted, not one.is_leaving, _created(one)))

    async def is_running(self, uid: str, container: str, attempt: int) -> bool:
        """Whether this run of a container may still write; a runtime that is away has not ended it."""
        try:
            found = await self.runtime.containers()
        except UnavailableError:
            return True
        return any(
            (one.pod.uid, one.name, one.attempt) == (uid, container, attempt)
            and one.state in (State.RUNNING, State.CREATED)
            for one in found
        )


def _created(known: KnownPod) -> float:
    made: datetime | None = known.pod.metadata.creation_timestamp
    return made.timestamp() if made is not None else 0.0


@asynccontextmanager
async def serve_logs(
    sources: LogSources, callers: Callers, address: tuple[str, int], serving: Serving, authority: str
) -> AsyncIterator[int]:
    """Serve while entered; gives the port. Who shows no certificate of the `authority` (PEM) does not get past TLS."""
    context = _context(serving, authority)
    server = web.Server(_Door(sources, callers).answer, access_log=None, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=STOP_SECONDS)
    async with listening(
        runner, *address, advice="choose another address for logs with --listen", context=context
    ) as port:
        yield port


def _context(serving: Serving, authority: str) -> ssl.SSLContext:
    context = server_context(serving)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)  # clusters' own CAs often break RFC 5280
    context.load_verify_locations(cadata=authority)
    return context


class _Door:
    """Answers each request; what goes wrong before the first byte is a code and a line of text."""

    def __init__(self, sources: LogSources, callers: Callers) -> None:
        self._sources = sources
        self._callers = callers

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """GET only."""
        try:
            transport = request.transport
            certificate = transport.get_extra_info("peercert") if transport is not None else None
            await self._callers.check(caller_of(certificate))
            return await self._show(request)
        except Error as error:
            code = next((code for kind, code in _CODES if isinstance(error, kind)), 500)
            if code == 500:
                _log.warning("a log cannot be shown", path=request.path, error=str(error))
            return web.Response(text=f"{error}\n", status=code)

    async def _show(self, request: web.BaseRequest) -> web.StreamResponse:
        steps = [unquote(one) for one in request.rel_url.raw_path.split("/")]
        if request.method != "GET" or len(steps) != 5 or steps[1] != "containerLogs":
            raise NotFoundError("only GET /containerLogs/NAMESPACE/POD/CONTAINER is served here", kind="path")
        _, _, namespace, name, container = steps
        sources = self._sources
        options = log_options(request.query, sources.clock.now())
        known = sources.find(namespace, name)
        path, attempt = find_log(sources.directory, known, container, previous=options.previous)
        answer = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
        answer.enable_chunked_encoding()
        with open_log(path, sources.directory) as file:
            await answer.prepare(request)
            lines = read_log(
                file,
                path,
                options,
                sources.clock,
                lambda: sources.is_running(known.uid, container, attempt),
                sources.directory,
            )
            async with aclosing(lines):
                try:
                    async for piece in lines:
                        await answer.write(piece)
                except ConnectionResetError:
                    _log.debug("the reader of a log went away", pod=name)
        return answer
