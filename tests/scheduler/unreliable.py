"""Between a scheduler and a real API server: passes requests on, and breaks those that a test names."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import aiohttp
from aiohttp import web

from dray.api.codec import dump_yaml
from dray.client.access import ClusterAccess


class Fault(Enum):
    """What becomes of a request. LOST: it never gets there. UNANSWERED: it is carried out, but nobody hears of it."""

    LOST = "lost"
    UNANSWERED = "unanswered"
    UNAUTHORIZED = "401"
    OVERLOADED = "503"


Judge = Callable[[str, str], Fault | None]
"""By method and path."""


@dataclass
class Hold:
    """The first request of a kind waits here, before it gets to the server, until `go` is set."""

    method: str
    ending: str
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self, method: str, path: str) -> None:
        if method == self.method and path.endswith(self.ending) and not self.reached.is_set():
            self.reached.set()
            await self.go.wait()


@dataclass
class Line:
    """`judge` may be set at any time. `seen` are the writes, in order."""

    judge: Judge = lambda method, path: None
    seen: list[tuple[str, str]] = field(default_factory=list)
    watches: set[asyncio.Task[None] | None] = field(default_factory=set)
    holds: list[Hold] = field(default_factory=list)

    def cut_watches(self) -> None:
        """As if the network went away for a moment."""
        for task in self.watches:
            if task is not None:
                task.cancel()

    def hold(self, method: str, ending: str) -> Hold:
        self.holds.append(Hold(method, ending))
        return self.holds[-1]

    def count(self, method: str, ending: str) -> int:
        return sum(1 for one, path in self.seen if one == method and path.endswith(ending))


def once(method: str, ending: str, fault: Fault, times: int = 1) -> Judge:
    """The first requests of this kind."""
    left = times

    def judge(asked: str, path: str) -> Fault | None:
        nonlocal left
        if left and asked == method and path.endswith(ending):
            left -= 1
            return fault
        return None

    return judge


@asynccontextmanager
async def unreliable(access: ClusterAccess, kubeconfig: Path) -> AsyncIterator[Line]:
    """Entered: the kubeconfig leads here, and from here to the server."""
    line = Line()
    context = ssl.create_default_context(cadata=access.ca.read().decode() if access.ca else None)
    headers = {"Authorization": f"Bearer {access.user.token}"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0)) as session:

        async def answer(request: web.Request) -> web.StreamResponse:
            is_write = request.method not in ("GET", "HEAD")
            if is_write:
                line.seen.append((request.method, request.path))
            for hold in line.holds:
                await hold.wait(request.method, request.path)
            fault = line.judge(request.method, request.path)
            if fault in (Fault.UNAUTHORIZED, Fault.OVERLOADED):
                # Who is told to come back later knows that nothing was done.
                return web.Response(status=int(fault.value), text="no", headers={"Retry-After": "0"})
            if fault is Fault.LOST:
                return _hang_up(request)
            kept = {"Content-Type": request.headers["Content-Type"]} if request.can_read_body else {}
            url = f"{access.server}{request.rel_url}"
            body = await request.read()
            async with session.request(request.method, url, data=body, headers={**headers, **kept}) as got:
                if request.query.get("watch") == "true":
                    return await _follow(request, got, line)
                data = await got.read()
                if fault is Fault.UNANSWERED:
                    return _hang_up(request)
                return web.Response(status=got.status, body=data, content_type="application/json")

        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{tail:.*}", answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        _write(kubeconfig, f"http://127.0.0.1:{port}")
        try:
            yield line
        finally:
            await runner.cleanup()


def _hang_up(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _follow(request: web.Request, got: aiohttp.ClientResponse, line: Line) -> web.StreamResponse:
    response = web.StreamResponse(status=got.status)
    response.content_type = "application/json"
    await response.prepare(request)
    task: asyncio.Task[None] | None = asyncio.current_task()
    line.watches.add(task)
    try:
        async for piece in got.content.iter_any():
            await response.write(piece)
    except (ConnectionError, aiohttp.ClientError):
        pass
    finally:
        line.watches.discard(task)
    return response


def _write(path: Path, url: str) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(dump_yaml(document))
