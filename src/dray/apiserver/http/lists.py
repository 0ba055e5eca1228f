"""A collection, read from the store: selected, paged, as a list of raw objects or as a table."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from dray.apiserver.http.options import ListOptions, Token
from dray.apiserver.http.paths import Place
from dray.apiserver.http.tables import table
from dray.apiserver.store.contract import Expired, RevisionTooLargeError, Store, Stored
from dray.apiserver.store.memory import path_of

_SCAN = 500
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
    while True:
        page = store.list(resource, place.namespace, after, _SCAN if limit else 0, at)
        at = page.revision
        for one in page.items:
            if not options.select.takes(place.served, msgspec.json.decode(one.raw)):
                continue
            if limit and len(items) == limit:
                # One more than asked for: so there is a next page, which begins here.
                return Found(at, items, Token(at, path_of(items[-1])).text(), None)
            items.append(one)
        if not page.next:
            return Found(at, items, "", None)
        after = page.next


def as_list(place: Place, found: Found) -> bytes:
    """The objects are not looked into: their bytes are the answer."""
    resource = place.served.resource
    head = {
        "kind": f"{resource.kind}List",
        "apiVersion": place.served.api_version(place.version),
        "metadata": _metadata(found),
    }
    return b"".join(
        (msgspec.json.encode(head)[:-1], b',"items":[', b",".join(one.raw for one in found.items), b"]}")
    )


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
