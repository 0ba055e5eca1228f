from __future__ import annotations

from dray.apiserver.store.contract import RevisionTooLargeError


def test_who_asks_for_a_later_revision_may_come_again_in_a_second() -> None:
    error = RevisionTooLargeError(5, 3)
    assert (error.retry_after, error.asked, error.current) == (1.0, 5, 3)
    assert str(error) == "Too large resource version: 5, current: 3"
