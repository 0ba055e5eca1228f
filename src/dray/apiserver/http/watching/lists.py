"""A collection, read from the store: selected, paged, as a list of raw objects or as a table."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import web

from dray.apiserver.http.discovery import JSON
from dray.apiserver.http.options import ListOptions, Select, Token
from dray.apiserver.http.paths import Place
from dray.apiserver.http.showing.tables import table
from dray.apiserver.store.contract import Expired, RevisionTooLargeError, Store, Stored
from dray.apiserver.store.memory import path_of

_END: Final = b"]}"
_PIECE: Final = 256 << 10
_SCAN: Final = 500
"""Objects looked at in one go while few of them are selected."""
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You must start a new list "
    "without the continue parameter."
)


class Found(NamedTuple):
    """A page of what was asked for. `remaining` is None where only a look at all objects would tell."""

    revision: int
    items: list[Stored]
    token: str
    remaining: int | None


def find(store: Store, place: Place, options: ListOptions) -> Found:
    """Expired for a token or exact revision that is too old; RevisionTooLargeError for one that was not given yet."""
    after, at = "", None
    if options.token is not None:
        after, at = options.token.after, options.token.revision
    elif options.revision:
        if options.revision > store.revision:
            raise RevisionTooLargeError(options.revision, store.revision)
        at = options.revision if options.is_exact else None
    try:
        return _pages(store, place, options, after, at)
    except Expired:
        if options.token is not None:
            raise Expired(_TOO_OLD) from None
        raise


def _pages(store: Store, place: Place, options: ListOptions, after: str, at: int | None) -> Found:
    resource, limit = str(place.served.resource), options.limit
    if not options.select:
        page = store.list(resource, place.namespace, after, limit, at)
        token = Token(page.revision, page.next).text() if page.next else ""
        return Found(page.revision, list(page.items), token, page.remaining if page.next else None)
    items: list[Stored] = []
    takes = partial(_takes, options.select, place)
    while True:
        page = store.list(resource, place.namespace, after, _SCAN if limit else 0, at)
        at = page.revision
        for one in page.items:
            if not takes(one):
                continue
            if limit and len(items) == limit:
                # One more than asked for: so there is a next page, which begins here.
                return Found(at, items, Token(at, path_of(items[-1])).text(), None)
            items.append(one)
        if not page.next:
            return Found(at, items, "", None)
        after = page.next


class _Metadata(msgspec.Struct, gc=False):
    labels: dict[str, Any] | None = None


class _Labelled(msgspec.Struct, gc=False):
    metadata: _Metadata


_labelled = msgspec.json.Decoder(_Labelled)


def _takes(select: Select, place: Place, one: Stored) -> bool:
    """For labels alone the rest of the document is passed over."""
    if select.fields:
        return select.takes(place.served, msgspec.json.decode(one.raw))
    return select.labels.matches(_labelled.decode(one.raw).metadata.labels or {})


def as_list(place: Place, found: Found) -> bytes:
    """The objects are not looked into: their bytes are the answer."""
    resource = place.served.resource
    head = {
        "kind": f"{resource.kind}List",
        "apiVersion": place.served.api_version(place.version),
        "metadata": _metadata(found),
    }
    return b"".join(
        (msgspec.json.encode(head)[:-1], b',"items":[', b",".join(one.raw for one in found.items), _END)
    )


async def answer_list(request: web.Request, place: Place, found: Found) -> web.StreamResponse:
    """The same as an answer. A long one goes out piece by piece: there is no second copy of all objects, and others have
    their turn in between.
    """
    size = sum(len(one.raw) for one in found.items)
    if size <= _PIECE:
        return web.Response(body=as_list(place, found), headers={"Content-Type": JSON})
    head = as_list(place, found._replace(items=[]))[: -len(_END)]
    length = len(head) + size + len(found.items) - 1 + len(_END)
    answer = web.StreamResponse(headers={"Content-Type": JSON, "Content-Length": str(length)})
    with suppress(ConnectionResetError):  # the client left
        await answer.prepare(request)
        for piece in _pieces(head, found.items):
            await answer.write(piece)
            await asyncio.sleep(0)
    return answer


def _pieces(head: bytes, items: list[Stored]) -> Iterator[bytes]:
    told = [head]
    size = 0
    for number, one in enumerate(items):
        if size >= _PIECE:
            yield b"".join(told)
            told, size = [], 0
        if number:
            told.append(b",")
        told.append(one.raw)
        size += len(one.raw)
    yield b"".join((*told, _END))


def as_table(place: Place, found: Found, include: str, now: datetime) -> bytes:
    """For `kubectl get`."""
    documents = [msgspec.json.decode(one.raw) for one in found.items]
    return msgspec.json.encode(table(place.served, documents, _metadata(found), include, now))


def _metadata(found: Found) -> dict[str, Any]:
    told: dict[str, Any] = {"resourceVersion": str(found.revision)}
    if found.token:
        told["continue"] = found.token
        if found.remaining is not None:
            told["remainingItemCount"] = found.remaining
    return told
