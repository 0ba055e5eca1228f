"""Every change of an informer's objects as a pair of what was and what is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from dray.api.meta import Model
from dray.client.informer import Informer
from dray.client.store import Added, Change, Deleted, Modified

T = TypeVar("T", bound=Model)
Seen = Callable[[T | None, T | None], None]
"""Called with (None, new), (old, new) or (old, None). Another object under the same name is two calls."""


@contextmanager
def follow(informer: Informer[T], seen: Seen[T]) -> Iterator[None]:
    """Entering calls `seen` for each object there is; then it is called for each change, until left.

    After a relist several changes of an object may come as one; deletions and successors are never left out.
    """

    def tell(change: Change[T]) -> None:
        match change:
            case Added(new=new):
                seen(None, new.value)
            case Modified(old=old, new=new):
                seen(old.value, new.value)
            case Deleted(old=old):
                seen(old.value, None)

    stop = informer.on_change(tell)
    try:
        yield
    finally:
        stop()
