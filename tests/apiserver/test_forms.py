from __future__ import annotations

from typing import Any

import pytest

from dray.apiserver.forms import EVENTS, PLAIN, form_of
from dray.apiserver.served import standard

NEW: dict[str, Any] = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "eventTime": "2030-01-01T00:00:00.000000Z",
    "series": {"count": 2, "lastObservedTime": "2030-01-01T00:00:00.000000Z"},
    "reportingController": "me",
    "reportingInstance": "me-1",
    "action": "Act",
    "reason": "Why",
    "regarding": {"kind": "Pod", "name": "p"},
    "related": {"kind": "Node", "name": "n"},
    "note": "text",
    "type": "Normal",
    "deprecatedSource": {"component": "c", "host": "h"},
    "deprecatedFirstTimestamp": "2030-01-01T00:00:00Z",
    "deprecatedLastTimestamp": "2030-01-01T00:00:00Z",
    "deprecatedCount": 3,
}
CORE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "eventTime": "2030-01-01T00:00:00.000000Z",
    "series": {"count": 2, "lastObservedTime": "2030-01-01T00:00:00.000000Z"},
    "reportingComponent": "me",
    "reportingInstance": "me-1",
    "action": "Act",
    "reason": "Why",
    "involvedObject": {"kind": "Pod", "name": "p"},
    "related": {"kind": "Node", "name": "n"},
    "message": "text",
    "type": "Normal",
    "source": {"component": "c", "host": "h"},
    "firstTimestamp": "2030-01-01T00:00:00Z",
    "lastTimestamp": "2030-01-01T00:00:00Z",
    "count": 3,
}


def test_an_event_in_both_forms() -> None:
    assert EVENTS.inward(NEW) == CORE and EVENTS.outward(CORE) == NEW


def test_a_word_of_the_other_form_means_nothing() -> None:
    assert EVENTS.inward({"note": "a", "message": "b"}) == {"message": "a"}
    assert EVENTS.inward({"message": "b"}) == {}


@pytest.mark.parametrize("wrong", [None, [], "x", 7])
def test_what_is_no_object_is_left_for_others(wrong: Any) -> None:
    assert EVENTS.inward(wrong) == wrong


def test_which_form_an_address_has() -> None:
    serving = standard()
    pods, events = serving.at("", "v1", "pods"), serving.at("events.k8s.io", "v1", "events")
    assert form_of(pods, "v1") is PLAIN and form_of(events, "v1") is EVENTS
    other = form_of(pods, "v2")
    assert other.outward({"apiVersion": "v1", "a": 1}) == {"apiVersion": "v2", "a": 1}
    assert other.inward({"apiVersion": "v2"}) == {"apiVersion": "v1"}
    assert other.inward({"apiVersion": "v3"}) == {"apiVersion": "v3"} and other.inward(7) == 7
    assert serving.kept(events) is serving.at("", "v1", "events") and serving.kept(pods) is pods
    assert events.key("default", "e") == serving.at("", "v1", "events").key("default", "e")
