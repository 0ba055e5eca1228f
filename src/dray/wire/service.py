"""A service as a table: each method once, from which the typed client and the server's routes are made.

A client class lists its methods as attributes (`allocate = Unary(path, AllocateRequest, AllocateResponse)`) and calls
go through them. A service class names that client class and a handler with methods of the same names. So a method is
written down twice only: in the table and, with its types, in the handler's protocol; a test compares the two, and
both with the `.proto` file.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar, overload

from google.protobuf.message import Message

from dray.wire.transport.messages import translate

Req = TypeVar("Req", bound=Message)
Res = TypeVar("Res", bound=Message)
# Covariant, so that a list of services with different handlers is a list of `Service[object]`.
Handler_co = TypeVar("Handler_co", covariant=True)


class Caller(Protocol):
    """What a client needs of a channel (`connect.Channel`)."""

    async def call(self, method: Unary[Req, Res], request: Req, timeout: float | None) -> Res:
        """One request, one answer."""
        ...

    def open(
        self, method: Streaming[Req, Res], request: Req, timeout: float | None
    ) -> AbstractAsyncContextManager[AsyncIterator[Res]]:
        """One request, many answers, for as long as the context is open."""
        ...


@dataclass(frozen=True, slots=True)
class Unary(Generic[Req, Res]):
    """A method with one answer. On a client: `await client.method(request, timeout=5)`."""

    path: str
    request: type[Req]
    response: type[Res]

    @overload
    def __get__(self, client: None, owner: type[Client]) -> Unary[Req, Res]: ...
    @overload
    def __get__(self, client: Client, owner: type[Client]) -> UnaryCall[Req, Res]: ...
    def __get__(self, client: Client | None, owner: type[Client]) -> Unary[Req, Res] | UnaryCall[Req, Res]:
        return self if client is None else UnaryCall(client.channel, self)


@dataclass(frozen=True, slots=True)
class Streaming(Generic[Req, Res]):
    """A method with a stream of answers. On a client: `async with client.method(request) as answers: async for …`."""

    path: str
    request: type[Req]
    response: type[Res]

    @overload
    def __get__(self, client: None, owner: type[Client]) -> Streaming[Req, Res]: ...
    @overload
    def __get__(self, client: Client, owner: type[Client]) -> StreamingCall[Req, Res]: ...
    def __get__(
        self, client: Client | None, owner: type[Client]
    ) -> Streaming[Req, Res] | StreamingCall[Req, Res]:
        return self if client is None else StreamingCall(client.channel, self)


@dataclass(frozen=True, slots=True)
class UnaryCall(Generic[Req, Res]):
    """A method bound to a channel."""

    channel: Caller
    method: Unary[Req, Res]

    async def __call__(self, request: Req, *, timeout: float | None = None) -> Res:
        """Send `request` and wait for the answer, for at most `timeout` seconds (None: the channel's own)."""
        return await self.channel.call(self.method, request, timeout)


@dataclass(frozen=True, slots=True)
class StreamingCall(Generic[Req, Res]):
    """A streaming method bound to a channel."""

    channel: Caller
    method: Streaming[Req, Res]

    def __call__(
        self, request: Req, *, timeout: float | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[Res]]:
        """Open the stream; leaving the context cancels it. `timeout` bounds the whole stream, None does not."""
        return self.channel.open(self.method, request, timeout)


class Client:
    """Base of the typed clients: a table of methods over one channel. Holds no state; make as many as you like."""

    def __init__(self, channel: Caller) -> None:
        self.channel = channel


def methods_of(table: type[Client]) -> Iterator[tuple[str, Unary[Any, Any] | Streaming[Any, Any]]]:
    """The table's methods with their Python names, in the order they are written."""
    for name, value in vars(table).items():
        if isinstance(value, Unary | Streaming):
            yield name, value


@dataclass(frozen=True, slots=True)
class Route:
    """One servable method: `handler(request)` is awaited, or iterated where `streaming`."""

    path: str
    request: type[Message]
    response: type[Message]
    handler: Callable[[Any], Any]
    streaming: bool


class Service(Generic[Handler_co]):
    """Base of the services: binds a handler to one table, and to older versions of it by translation.

    `tables[0]` is the version whose messages the handler sees. The others must agree with it in every field number
    they share; methods they lack are not served under their name.
    """

    tables: ClassVar[tuple[type[Client], ...]]

    def __init__(self, handler: Handler_co) -> None:
        self.handler = handler

    def routes(self) -> list[Route]:
        """Everything a server needs to answer for this handler."""
        native = dict(methods_of(self.tables[0]))
        return [
            _route(method, native[name], getattr(self.handler, name))
            for table in self.tables
            for name, method in methods_of(table)
        ]


def _route(
    method: Unary[Any, Any] | Streaming[Any, Any],
    native: Unary[Any, Any] | Streaming[Any, Any],
    handler: Callable[[Any], Any],
) -> Route:
    streaming = isinstance(method, Streaming)
    if method is not native:
        wrap = _translated_stream if streaming else _translated
        handler = wrap(handler, native.request, method.response)
    return Route(method.path, method.request, method.response, handler, streaming)


def _translated(
    handler: Callable[[Any], Awaitable[Message]], request: type[Message], response: type[Message]
) -> Callable[[Message], Awaitable[Message]]:
    async def call(message: Message) -> Message:
        return translate(await handler(translate(message, request)), response)

    return call


def _translated_stream(
    handler: Callable[[Any], AsyncIterator[Message]], request: type[Message], response: type[Message]
) -> Callable[[Message], AsyncIterator[Message]]:
    async def call(message: Message) -> AsyncIterator[Message]:
        async with closing(handler(translate(message, request))) as answers:
            async for answer in answers:
                yield translate(answer, response)

    return call


def closing(answers: AsyncIterator[Res]) -> AbstractAsyncContextManager[AsyncIterator[Res]]:
    """Close an async generator on the way out; other iterators have nothing to close."""
    return aclosing(answers) if hasattr(answers, "aclose") else _unclosed(answers)  # type: ignore[type-var]


@asynccontextmanager
async def _unclosed(answers: AsyncIterator[Res]) -> AsyncIterator[AsyncIterator[Res]]:
    yield answers


class Older:
    """A channel on which the newest client speaks an older version of its API: `DraClient(Older(channel, …))`."""

    def __init__(self, channel: Caller, newest: type[Client], older: type[Client]) -> None:
        theirs = dict(methods_of(older))
        self._channel = channel
        self._methods = {method.path: theirs[name] for name, method in methods_of(newest) if name in theirs}

    async def call(self, method: Unary[Req, Res], request: Req, timeout: float | None) -> Res:
        """The older call, its answer read as the newest version's."""
        older: Any = self._methods[method.path]
        return translate(
            await self._channel.call(older, translate(request, older.request), timeout), method.response
        )

    @asynccontextmanager
    async def open(
        self, method: Streaming[Req, Res], request: Req, timeout: float | None
    ) -> AsyncIterator[AsyncIterator[Res]]:
        """The older stream, each answer read as the newest version's."""
        older: Any = self._methods[method.path]
        async with (
            self._channel.open(older, translate(request, older.request), timeout) as answers,
            aclosing(_read_as(answers, method.response)) as translated,
        ):
            yield translated


async def _read_as(answers: AsyncIterator[Message], kind: type[Res]) -> AsyncGenerator[Res, None]:
    async for answer in answers:
        yield translate(answer, kind)
