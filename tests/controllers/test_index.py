"""Keys by value."""

from __future__ import annotations

import random

from dray.controllers.index import Index


def test_an_index_says_what_a_search_would() -> None:
    rng = random.Random(3)
    index: Index[int, str] = Index()
    table: dict[int, set[str]] = {}
    for _ in range(500):
        key, values = rng.randrange(8), {rng.choice("abcd") for _ in range(rng.randrange(4))}
        index.put(key, values)
        table[key] = values
        for value in "abcd":
            assert index.having(value) == {one for one, held in table.items() if value in held}
    for key in range(8):
        index.put(key)
    assert all(not index.having(value) for value in "abcd")
