from __future__ import annotations

from collections.abc import Callable

import pytest

from dray.apiserver.store.contract import Page, Stored
from dray.apiserver.store.memory import Shelf
from dray.apiserver.store.paging import newest_page, older_page
from tests.apiserver.store.stores import key

NAMES = "abcdefgh"


def shelf_of(names: str) -> Shelf:
    shelf = Shelf()
    for name in names:
        shelf.put(Stored(key(name), "u", 1, b""))
    return shelf


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 9, 0])
def test_pages_of_any_size_give_all_there_is(limit: int) -> None:
    old = {key(name): Stored(key(name), "u", 1, b"") for name in "bdf"}
    makers: tuple[Callable[[str], Page], ...] = (
        lambda after: newest_page(shelf_of(NAMES), 5, "", after, limit),
        lambda after: older_page(shelf_of("aceghxyz"), {**old, **NEW}, 5, "", after, limit),
    )
    for make in makers:
        seen, after = "", ""
        while True:
            page = make(after)
            names = "".join(one.key.name for one in page.items)
            assert len(names) == min(limit or 8, 8 - len(seen)) and page.revision == 5
            seen += names
            assert page.remaining == 8 - len(seen)
            assert bool(page.next) == bool(page.remaining)
            if not page.next:
                break
            assert page.next == f"{page.items[-1].key.namespace}/{names[-1]}"
            after = page.next
        assert seen == NAMES


NEW = {key(name): None for name in "xyz"}
