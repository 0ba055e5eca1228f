from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.core import ConfigMap
from dray.api.kinds import CONFIG_MAPS, PODS
from dray.client.decode import ItemDecoder, LineSplitter
from dray.client.failures import ExpiredError
from dray.client.store import Entry, Unreadable
from dray.errors import ProtocolError
from tests.campaign import campaign

DECODER = ItemDecoder(CONFIG_MAPS)
META = {"name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "5"}


def line(kind: str, document: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "object": document})


@settings(max_examples=campaign(100, 5_000))
@given(
    parts=st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=20),
    seed=st.integers(),
)
def test_lines_survive_any_cutting(parts: list[bytes], seed: int) -> None:
    rng = random.Random(seed)
    stream = b"".join(part + b"\n" for part in parts) + b"tail"
    splitter, found = LineSplitter(), []
    while stream:
        size = rng.randint(1, 12)
        found += splitter.feed(stream[:size])
        stream = stream[size:]
    assert found == parts
    assert splitter.pending == 4


def test_lines_of_many_chunks_cost_linear_time() -> None:
    splitter = LineSplitter()
    for _ in range(20_000):
        assert splitter.feed(b"x" * 100) == []
    assert splitter.feed(b"\n") == [b"x" * 2_000_000]
    assert splitter.pending == 0


def test_events() -> None:
    event = DECODER.event(line("ADDED", {"metadata": META, "data": {"a": "b"}, "future": 1}))
    assert (event.type, event.version) == ("ADDED", "5")
    assert isinstance(event.item, Entry)
    assert isinstance(event.item.value, ConfigMap)
    assert (event.item.key, event.item.uid, event.item.value.data) == (("ns", "n"), "u", {"a": "b"})
    mark = DECODER.event(line("BOOKMARK", {"kind": "ConfigMap", "metadata": {"resourceVersion": "9"}}))
    assert (mark.type, mark.version, mark.item) == ("BOOKMARK", "9", None)


def test_error_events_ask_for_a_new_list() -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (2)"}
    with pytest.raises(ExpiredError, match=r"watch of configmaps.*410 too old resource version"):
        DECODER.event(line("ERROR", gone))
    for other in ({"code": 500, "message": "etcd"}, {"code": "x"}, 5):
        with pytest.raises(ExpiredError, match="list again"):
            DECODER.event(line("ERROR", other))


def test_object_of_unknown_shape_is_set_apart() -> None:
    event = DECODER.event(line("MODIFIED", {"metadata": META, "data": [1]}))
    assert isinstance(event.item, Unreadable)
    assert (event.item.key, event.version) == (("ns", "n"), "5")
    assert "data" in event.item.reason
    meta, items = DECODER.page(
        msgspec.json.encode(
            {
                "metadata": {"resourceVersion": "9", "continue": "c", "remainingItemCount": 3},
                "items": [{"metadata": META}, {"metadata": {**META, "name": "m"}, "data": 5}],
            }
        )
    )
    assert (meta.resource_version, meta.continue_, meta.remaining_item_count) == ("9", "c", 3)
    assert isinstance(items[0], Entry)
    assert isinstance(items[1], Unreadable)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"type":"ADDED"}',
        b'{"type":"ADDED","object":5}',
        b'{"type":"ADDED","object":{"metadata":{"name":"x"}}}',
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"5"},"data":5}}',
        b'{"type":"BOOKMARK","object":{}}',
        b'{"type":"BOOKMARK","object":{"metadata":{}}}',
        b'{"type":"SURPRISE","object":{}}',
        line("ADDED", {"metadata": META})[:-5],
        b'{"type":"ADDED","object":' + b"[" * 100_000,
        b'{"type":"ADDED","object":' + b'{"a":' * 100_000,
        b'{"type":"AD\x80DED","object":{}}',
    ],
)
def test_broken_events(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="configmaps"):
        DECODER.event(data)


def test_nulls_count_as_absent() -> None:
    event = DECODER.event(line("ADDED", {"metadata": {**META, "labels": None}, "data": None}))
    assert isinstance(event.item, Entry)
    assert event.item.value.data == {}


def test_empty_lists_may_be_null() -> None:
    assert DECODER.page(b'{"metadata":{"resourceVersion":"1"},"items":null}')[1] == []


VALID = [
    line("ADDED", {"metadata": META, "spec": {"containers": [{"name": "a"}]}}),
    line("BOOKMARK", {"metadata": {"resourceVersion": "9"}}),
    line("ERROR", {"code": 410}),
]


@settings(max_examples=campaign(300, 100_000))
@given(
    data=st.binary(max_size=100),
    base=st.sampled_from([b"", *VALID]),
    at=st.integers(0, 200),
    drop=st.integers(0, 9),
)
def test_random_bytes_are_a_protocol_error_or_an_event(data: bytes, base: bytes, at: int, drop: int) -> None:
    decoder = ItemDecoder(PODS)
    for decode in (decoder.event, decoder.page, decoder.value, decoder.item):
        try:
            decode(base[:at] + data + base[at + drop :])
        except (ProtocolError, ExpiredError) as error:
            assert "\n" not in str(error)
