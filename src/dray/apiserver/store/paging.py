"""Lists in pages, each page as the objects were at the same revision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice

from dray.apiserver.store.contract import Key, Page, Stored
from dray.apiserver.store.memory import Shelf, path_of, path_to

_PIECE = 512


def newest_page(shelf: Shelf, revision: int, namespace: str, after: str, limit: int) -> Page:
    """A page of what is there now."""
    start, end = shelf.span(namespace, after)
    stop = min(end, start + limit) if limit > 0 else end
    return _page(revision, shelf.items(start, stop), end - stop)


def older_page(
    shelf: Shelf, before: dict[Key, Stored | None], revision: int, namespace: str, after: str, limit: int
) -> Page:
    """A page of what was there before: `before` has the states of the objects that changed since."""
    start, end = shelf.span(namespace, after)
    touched = {key: state for key, state in before.items() if _is_in(key, namespace, after)}
    was = sorted((state for state in touched.values() if state is not None), key=path_of)
    untouched = (stored for stored in _pieces(shelf, start, end) if stored.key not in touched)
    items = tuple(islice(merge(untouched, was, key=path_of), limit if limit > 0 else None))
    total = end - start - sum(shelf.has(key) for key in touched) + len(was)
    return _page(revision, items, total - len(items))


def _page(revision: int, items: tuple[Stored, ...], remaining: int) -> Page:
    return Page(revision, items, path_of(items[-1]) if remaining and items else "", remaining)


def _is_in(key: Key, namespace: str, after: str) -> bool:
    return (not namespace or key.namespace == namespace) and path_to(key) > after


def _pieces(shelf: Shelf, start: int, end: int) -> Iterator[Stored]:
    """The objects one by one, without a copy of all of them for a page of a few."""
    for at in range(start, end, _PIECE):
        piece: Iterable[Stored] = shelf.items(at, min(at + _PIECE, end))
        yield from piece
