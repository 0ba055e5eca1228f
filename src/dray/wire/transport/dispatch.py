"""The server's side of a call: which handler, by when, and what its caller is told."""

from __future__ import annotations

import asyncio
import re
import traceback
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from google.protobuf.message import Message
from grpclib.metadata import encode_grpc_message
from grpclib.protocol import AbstractHandler, Stream
from h2.errors import ErrorCodes
from h2.exceptions import H2Error

from dray.errors import Error, InvariantError
from dray.runtime.logs import get_log
from dray.wire.limits import Limits
from dray.wire.service import Route, closing
from dray.wire.status import Code, StatusError, cut, to_status
from dray.wire.transport.messages import pack, unpack
from dray.wire.transport.room import Lease, Room
from dray.wire.transport.stream import CallStream, Headers, Lost

CONTENT_TYPE = "application/grpc"

_log = get_log("wire.serve")
_TIMEOUT = re.compile(r"(\d{1,8})([HMSmun])")
_SECONDS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}

Spawn = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None] | None"]
"""Start a call's task; None once the server is stopping."""


class Dispatcher(AbstractHandler):
    """The calls of one connection. grpclib tells of each that begins, is given up by its caller, or is lost."""

    def __init__(self, routes: Mapping[str, Route], limits: Limits, spawn: Spawn, room: Room) -> None:
        self._routes = routes
        self._limits = limits
        self._spawn = spawn
        self._room = room
        self._tasks: dict[Stream, asyncio.Task[None]] = {}

    def accept(self, stream: Stream, headers: Headers, release_stream: Callable[[], None]) -> None:
        """A call begins. Released by the task's end, not in its `finally`: a task may die before its first step."""
        lease = Lease(self._room, waits=False)
        stream.lease = lease  # type: ignore[attr-defined]  # our connection makes CallStreams
        call = Call(stream, dict(headers), self._limits)  # type: ignore[arg-type]
        route = self._routes.get(call.path)
        streaming = route is not None and route.streaming
        task = self._spawn(call.answer(route), "stream" if streaming else "unary")
        if task is None:
            stream.reset_nowait(ErrorCodes.REFUSED_STREAM)
            release_stream()
            return
        self._tasks[stream] = task

        def over(_: asyncio.Task[None]) -> None:
            self._tasks.pop(stream, None)
            lease.drop()
            release_stream()

        task.add_done_callback(over)

    def cancel(self, stream: Stream) -> None:
        """The caller gave this call up."""
        if stream in self._tasks:
            self._tasks[stream].cancel()

    def close(self) -> None:
        """The connection is gone, and so is everyone who waits for an answer."""
        for task in self._tasks.values():
            task.cancel()


class Call:
    """One call from its headers to its status."""

    def __init__(self, stream: CallStream, headers: dict[str, str], limits: Limits) -> None:
        self._stream = stream
        self._headers = headers
        self._limits = limits
        self._begun = False
        self.path = headers.get(":path", "")

    async def answer(self, route: Route | None) -> None:
        """Run the handler and send what it gives. Nothing but cancellation and our own bugs leave this coroutine."""
        try:
            if refusal := self._refused():
                self._stream.send_now([(":status", refusal)], end=True)
                return
            status = await self._run(route)
        except asyncio.CancelledError:
            # Either nobody listens any more and this goes nowhere, or the server stops.
            self._finish(StatusError(Code.UNAVAILABLE, "the server is stopping"))
            raise
        except InvariantError as error:
            self._finish(to_status(error))
            raise
        except (Lost, H2Error):
            return
        self._finish(status)

    async def _run(self, route: Route | None) -> StatusError:
        try:
            if route is None:
                raise StatusError(Code.UNIMPLEMENTED, f"unknown method {self.path}")
            async with asyncio.timeout(self._timeout()) as deadline:
                await self._handle(route)
            return StatusError(Code.OK, "")
        except (InvariantError, Lost, H2Error):
            raise
        except TimeoutError as error:
            if deadline.expired():
                return StatusError(Code.DEADLINE_EXCEEDED, "the deadline of the call has passed")
            return self._failed(error)
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            # Something inside the handler was cancelled, not the call: its caller must not wait for ever.
            return self._failed(error)
        except (Error, StatusError) as error:
            return to_status(error)
        except Exception as error:  # noqa: BLE001 (the boundary: a handler's bug is answered and logged, not fatal)
            return self._failed(error)

    async def _handle(self, route: Route) -> None:
        request = await self._request(route)
        if not route.streaming:
            await self._send(await route.handler(request), route)
            return
        self._begin()
        async with closing(route.handler(request)) as answers:
            async for answer in answers:
                await self._send(answer, route)

    async def _request(self, route: Route) -> Message:
        try:
            async with asyncio.timeout(self._limits.arrival):
                data = await self._stream.receive(self._limits)
        except TimeoutError:
            raise StatusError(
                Code.DEADLINE_EXCEEDED, f"the request did not arrive within {self._limits.arrival:g} s"
            ) from None
        if data is None:
            raise StatusError(Code.INTERNAL, "the call came without a request")
        return unpack(data, route.request)

    async def _send(self, message: Message, route: Route) -> None:
        if not isinstance(message, route.response):
            raise TypeError(f"answered with a {type(message).__name__}, not a {route.response.__name__}")
        frame = pack(message, self._limits.send)
        self._begin()
        await self._stream.send(frame)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._stream.send_now([(":status", "200"), ("content-type", CONTENT_TYPE)])

    def _finish(self, status: StatusError) -> None:
        headers = [] if self._begun else [(":status", "200"), ("content-type", CONTENT_TYPE)]
        headers.append(("grpc-status", str(status.code.value)))
        if status.message:
            headers.append(("grpc-message", encode_grpc_message(cut(status.message))))
        self._stream.send_now(headers, end=True)

    def _failed(self, error: BaseException) -> StatusError:
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        _log.error("handler failed", method=self.path, error=f"{type(error).__name__}: {error}", at=place)
        return to_status(error)

    def _refused(self) -> str:
        """The HTTP status for a request that is not gRPC at all, "" for one that is."""
        if self._headers.get(":method") != "POST":
            return "405"
        content = self._headers.get("content-type", "")
        if content != CONTENT_TYPE and not content.startswith((CONTENT_TYPE + "+proto", CONTENT_TYPE + ";")):
            return "415"
        return ""

    def _timeout(self) -> float | None:
        text = self._headers.get("grpc-timeout")
        if text is None:
            return None
        match = _TIMEOUT.fullmatch(text)
        if match is None:
            raise StatusError(Code.INTERNAL, "malformed grpc-timeout header")
        return int(match[1]) * _SECONDS[match[2]]
