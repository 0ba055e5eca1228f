"""The client: Kubernetes' verbs, typed. One for each server and identity in a process, shared by all parts of it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, TypeVar

import msgspec

from dray.api.kinds import Resource
from dray.api.meta import Model
from dray.client import requests
from dray.client.access import ClusterAccess
from dray.client.decode import UNREADABLE, ItemDecoder, LineSplitter
from dray.client.failures import ExpiredError
from dray.client.http import Body, HttpOptions, Request, Transport
from dray.client.requests import (
    ALL,
    PLAIN,
    DeleteOptions,
    Document,
    Patch,
    PatchType,
    Preconditions,
    Selection,
    WriteOptions,
)
from dray.client.store import Entry, Unreadable, WatchEvent
from dray.errors import ConflictError, InvalidError, ProtocolError, UnavailableError
from dray.runtime.clock import Clock

T = TypeVar("T", bound=Model)

PAGE_SIZE = 500
EVENT_LIMIT = 32 * 2**20
"""Bytes of one watch event. etcd keeps objects under 1.5 MiB; JSON is a few times larger than what it stores."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A collection, or one page of it, as it was at one resource version.

    `unreadable` names objects that are there but could not be decoded, with the reason.
    """

    resource_version: str
    entries: tuple[Entry[T], ...]
    unreadable: tuple[Unreadable, ...] = ()
    continue_token: str = ""
    remaining: int | None = None

    @property
    def items(self) -> tuple[T, ...]:
        """The objects alone."""
        return tuple(entry.value for entry in self.entries)


class ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    """What `/version` says."""

    major: str = ""
    minor: str = ""
    git_version: str = ""
    platform: str = ""


class Watch(Generic[T]):
    """An open watch: `async for event in watch`. Ends when the server ends it; a broken one raises.

    UnavailableError: the connection broke or went silent; resume from the last version. ExpiredError: list again.
    ProtocolError: the event cannot be understood, or is larger than the limit.
    """

    def __init__(self, body: Body, decoder: ItemDecoder[T], event_limit: int) -> None:
        self._body = body
        self._decoder = decoder
        self._limit = event_limit
        self._splitter = LineSplitter()
        self._lines: deque[bytes] = deque()

    @property
    def buffered(self) -> int:
        """Events that came in the same piece and wait to be taken: the next ones do not block."""
        return len(self._lines)

    def __aiter__(self) -> Watch[T]:
        return self

    async def __anext__(self) -> WatchEvent[T]:
        while not self._lines:
            self._check(self._splitter.pending)
            chunk = await self._body.read()
            if not chunk:
                if self._splitter.pending:
                    raise UnavailableError("the watch was cut off in the middle of an event")
                raise StopAsyncIteration
            self._lines.extend(line for line in self._splitter.feed(chunk) if line)
        line = self._lines.popleft()
        self._check(len(line))
        return self._decoder.event(line)

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise ProtocolError(f"the server sent a watch event larger than {self._limit} bytes")


class Client:
    """Entered: ready; nothing is connected before the first request. Left: all connections are closed.

    Names are checked before they become part of a path. Typed results are views; to change an object, patch it, or
    read it with `get_raw` and write the whole document back with `update`.
    """

    def __init__(
        self, access: ClusterAccess, options: HttpOptions | None = None, *, clock: Clock | None = None
    ) -> None:
        self.access = access
        self._transport = Transport(access, options, clock=clock)
        self._decoders: dict[Resource[Any], ItemDecoder[Any]] = {}

    async def __aenter__(self) -> Client:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    async def get(self, resource: Resource[T], name: str, *, namespace: str | None = None) -> T:
        """One object as it is now; NotFoundError if it is not there."""
        return await self._typed(resource, requests.get(resource, name, namespace=namespace))

    async def get_raw(
        self, resource: Resource[Any], name: str, *, namespace: str | None = None
    ) -> dict[str, Any]:
        """One object as a document, with the fields we do not know: the one to change and `update`."""
        return await self.raw(requests.get(resource, name, namespace=namespace))

    async def list(
        self, resource: Resource[T], selection: Selection = ALL, *, page_size: int = PAGE_SIZE
    ) -> Listing[T]:
        """The whole collection, read in pages that belong to one moment.

        If the server forgets that moment meanwhile (410), it is asked again for everything at once.
        """
        try:
            return await self._all_pages(resource, selection, page_size)
        except ExpiredError:
            return await self.list_page(resource, selection)

    async def list_page(
        self,
        resource: Resource[T],
        selection: Selection = ALL,
        *,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Listing[T]:
        """One page; ExpiredError if `continue_token` is too old."""
        request = requests.page(
            resource,
            selection,
            limit=limit,
            continue_token=continue_token,
            resource_version=resource_version,
        )
        data = await self._transport.send(request)
        meta, items = self.decoder(resource).page(data)
        return Listing(
            meta.resource_version,
            tuple(item for item in items if isinstance(item, Entry)),
            tuple(item for item in items if isinstance(item, Unreadable)),
            meta.continue_,
            meta.remaining_item_count,
        )

    async def _all_pages(self, resource: Resource[T], selection: Selection, page_size: int) -> Listing[T]:
        entries: list[Entry[T]] = []
        unreadable: list[Unreadable] = []
        version = token = ""
        while True:
            page = await self.list_page(resource, selection, limit=page_size, continue_token=token)
            version = version or page.resource_version
            if page.resource_version != version:
                raise ExpiredError(f"{resource}: the pages of one list belong to different resource versions")
            entries += page.entries
            unreadable += page.unreadable
            if not page.continue_token:
                return Listing(version, tuple(entries), tuple(unreadable))
            if page.continue_token == token:
                raise ProtocolError(f"{resource}: the server gave the same continue token twice")
            token = page.continue_token

    async def create(
        self,
        resource: Resource[T],
        document: Document | T,
        *,
        namespace: str | None = None,
        options: WriteOptions = PLAIN,
    ) -> T:
        """Store a new object; ConflictError if the name is taken."""
        return await self._typed(
            resource, requests.create(resource, document, namespace=namespace, options=options)
        )

    async def update(
        self,
        resource: Resource[T],
        document: Document,
        *,
        subresource: str | None = None,
        options: WriteOptions = PLAIN,
    ) -> T:
        """Replace an object; ConflictError if it changed since the document was read."""
        return await self._typed(
            resource, requests.update(resource, document, subresource=subresource, options=options)
        )

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        change: Patch,
        patch_type: PatchType = PatchType.MERGE,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        options: WriteOptions = PLAIN,
        preconditions: Preconditions | None = None,
    ) -> T:
        """Change some fields; with `preconditions` only if the object is still the same (ConflictError)."""
        request = requests.patch(
            resource,
            name,
            change,
            patch_type,
            namespace=namespace,
            subresource=subresource,
            options=options,
            preconditions=preconditions,
        )
        return await self._same(resource, request, preconditions)

    async def apply(
        self,
        resource: Resource[T],
        document: Document | T,
        *,
        manager: str,
        force: bool = False,
        namespace: str | None = None,
        subresource: str | None = None,
        options: WriteOptions = PLAIN,
        preconditions: Preconditions | None = None,
    ) -> T:
        """Say which fields `manager` wants and how (server-side apply); an object that is missing is created.

        Fields that `manager` no longer names go away. ConflictError: others want them otherwise; `force` takes them.
        """
        request = requests.apply(
            resource,
            document,
            manager=manager,
            force=force,
            namespace=namespace,
            subresource=subresource,
            options=options,
            preconditions=preconditions,
        )
        return await self._same(resource, request, preconditions)

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        *,
        namespace: str | None = None,
        options: DeleteOptions | None = None,
    ) -> None:
        """Delete; returns when the server has taken note. Finalizers and grace periods may keep the object a while."""
        await self._transport.send(requests.delete(resource, name, namespace=namespace, options=options))

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource[T],
        selection: Selection = ALL,
        *,
        resource_version: str,
        timeout_seconds: int = 300,
        idle_timeout: float = 150.0,
        event_limit: int = EVENT_LIMIT,
    ) -> AsyncIterator[Watch[T]]:
        """Follow changes after `resource_version`; for a lasting picture use a `Reflector`.

        The server ends it after `timeout_seconds`; if it does not, the client does, half a minute later.
        """
        request = requests.watch(
            resource, selection, resource_version=resource_version, timeout_seconds=timeout_seconds
        )
        async with self._transport.stream(
            request, idle_timeout=idle_timeout, timeout=timeout_seconds + 30.0
        ) as body:
            yield Watch(body, self.decoder(resource), event_limit)

    async def raw(self, request: Request) -> dict[str, Any]:
        """Send any request made by `dray.client.requests`; the answer as a document."""
        return _decode(await self._transport.send(request), dict[str, Any], request)

    async def server_version(self) -> ServerVersion:
        """Which Kubernetes answers."""
        request = Request("GET", "/version")
        return _decode(await self._transport.send(request), ServerVersion, request)

    async def check_ready(self) -> None:
        """Return if the server says it is ready; UnavailableError if not (yet)."""
        await self._transport.send(Request("GET", "/readyz", accept="text/plain"))

    def decoder(self, resource: Resource[T]) -> ItemDecoder[T]:
        """The decoder for a resource, made once."""
        found: ItemDecoder[T] | None = self._decoders.get(resource)
        if found is None:
            found = self._decoders[resource] = ItemDecoder(resource)
        return found

    async def _typed(self, resource: Resource[T], request: Request) -> T:
        return self.decoder(resource).value(await self._transport.send(request))

    async def _same(self, resource: Resource[T], request: Request, conditions: Preconditions | None) -> T:
        """Servers call another uid an invalid change of an immutable field (422); to the caller it is a conflict."""
        try:
            return await self._typed(resource, request)
        except InvalidError as error:
            fields = {getattr(cause, "field", "") for cause in error.causes}
            if conditions is None or conditions.uid is None or "metadata.uid" not in fields:
                raise
            raise ConflictError(f"{error}; it is another object of that name: read it again") from error


V = TypeVar("V")


def _decode(data: bytes, kind: type[V], request: Request) -> V:
    try:
        return msgspec.json.decode(data, type=kind)
    except UNREADABLE as error:
        raise ProtocolError(f"{request.method} {request.path}: the answer cannot be read: {error}") from error
