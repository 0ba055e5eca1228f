from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dray.apiserver.writing.removing.expiry import AT_ONCE, expire, last_seen
from tests.apiserver.writing.small_store import START, SmallStore


def event(name: str, **fields: Any) -> dict[str, Any]:
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    told = {"reportingComponent": "me", "reportingInstance": "me-1", "action": "Act", "reason": "Why"}
    return {"metadata": {"name": name}, "involvedObject": about, **told, **fields}


@pytest.mark.parametrize(
    ("fields", "hours"),
    [
        ({}, 0),
        ({"lastTimestamp": "2030-01-01T05:00:00Z"}, 5),
        ({"eventTime": "2030-01-01T03:00:00.000000Z"}, 3),
        ({"eventTime": "2029-01-01T03:00:00.000000Z"}, 0),
        ({"series": {"count": 2, "lastObservedTime": "2030-01-01T04:00:00.000000Z"}}, 4),
    ],
)
def test_when_an_event_was_last_seen(fields: dict[str, Any], hours: int) -> None:
    store = SmallStore()
    store.create("events", event("e", **fields))
    assert last_seen(store.stored("events", "e")) == START + timedelta(hours=hours)


def test_old_events_go_and_nothing_else() -> None:
    store = SmallStore()
    store.create("events", event("old"))
    store.create("configmaps", {"metadata": {"name": "old"}})
    store.create("events", event("seen-again", lastTimestamp="2030-01-01T02:00:00Z"))
    assert store.run(lambda transaction: expire(transaction, START)) == 0
    assert store.run(lambda transaction: expire(transaction, START + timedelta(hours=1))) == 1
    assert store.get("events", "old") is None
    assert store.get("events", "seen-again") and store.get("configmaps", "old")


def test_one_transaction_takes_a_limited_number() -> None:
    store = SmallStore()
    for number in range(AT_ONCE + 1):
        store.create("events", event(f"e{number}"))
    after = START + timedelta(hours=1)
    assert store.run(lambda transaction: expire(transaction, after)) == AT_ONCE
    assert store.run(lambda transaction: expire(transaction, after)) == 1
