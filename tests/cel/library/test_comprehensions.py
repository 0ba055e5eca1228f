from __future__ import annotations

from tests.cel.library.answers import complaints


def test_comprehensions_answer_as_in_kubernetes() -> None:
    assert complaints("comprehensions") == []
