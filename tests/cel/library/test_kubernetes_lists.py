from __future__ import annotations

from tests.cel.library.answers import complaints


def test_kubernetes_lists_answer_as_in_kubernetes() -> None:
    assert complaints("kubernetes_lists") == []
