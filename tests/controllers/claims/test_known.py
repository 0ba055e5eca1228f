"""What is remembered of pods that went."""

from __future__ import annotations

from dray.controllers.claims.known import Bygone


def test_the_newest_are_remembered() -> None:
    bygone = Bygone(limit=2)
    for uid in ("a", "b", "a", "c"):
        bygone.add(uid)
    assert [uid in bygone for uid in "abc"] == [True, False, True]
