"""Events do not stay: each goes some time after it was last seen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from dray.api.kinds import EVENTS
from dray.apiserver.store.contract import Stored, Transaction

_EVENTS: Final = str(EVENTS)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
AT_ONCE: Final = 500
"""How many one transaction takes out, so that it holds nobody up."""


class _Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    creation_timestamp: Any = None


class _Series(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    last_observed_time: Any = None


class _Event(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metadata: _Metadata = _Metadata()
    last_timestamp: Any = None
    event_time: Any = None
    series: _Series | None = None


_decode: Final = msgspec.json.Decoder(_Event).decode


def last_seen(stored: Stored) -> datetime:
    """When an Event was last seen or written; one without any time is as old as can be."""
    try:
        event = _decode(stored.raw)
    except msgspec.MsgspecError:
        return _EARLIEST
    series = event.series.last_observed_time if event.series is not None else None
    given = (event.metadata.creation_timestamp, event.last_timestamp, event.event_time, series)
    return max(map(_moment, given))


def _moment(text: Any) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return _EARLIEST
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def expire(transaction: Transaction, before: datetime) -> int:
    """Take out Events that were last seen before this moment, a limited number; gives how many. Finalizers do not count."""
    gone = 0
    for stored in transaction.list(_EVENTS):
        if last_seen(stored) < before:
            transaction.delete(stored.key)
            gone += 1
            if gone == AT_ONCE:
                break
    return gone
