from __future__ import annotations

from typing import Any

from dray.api.codec import view
from dray.api.core import Event
from dray.api.meta import format_time

BEGAN = "2026-01-01T00:00:00Z"


def test_when_an_event_was_last_seen() -> None:
    def seen(**fields: Any) -> str:
        found = view({"metadata": {"name": "e", "creationTimestamp": BEGAN}, **fields}, Event).last_seen
        return format_time(found) if found is not None else ""

    late = "2026-01-01T00:00:09.000000Z"
    assert seen() == BEGAN
    assert seen(lastTimestamp="2026-01-01T00:00:05Z") == "2026-01-01T00:00:05Z"
    assert seen(eventTime=late, series={"count": 2, "lastObservedTime": late}) == "2026-01-01T00:00:09Z"
    assert seen(eventTime="2026-02-31T00:00:00.000000Z") == BEGAN
