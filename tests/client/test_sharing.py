from __future__ import annotations

import gc
import json

import pytest

from dray.api.core import Node
from dray.api.kinds import NODES, PODS
from dray.client import sharing
from dray.client.decode import ItemDecoder
from dray.client.sharing import SHARED, share_objects
from dray.client.store import Entry


def line(name: str = "a", version: str = "1", labels: dict[str, str] | None = None) -> bytes:
    metadata = {
        "name": name,
        "namespace": "d",
        "uid": "u",
        "resourceVersion": version,
        "labels": labels or {},
    }
    return json.dumps({"metadata": metadata}).encode()


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SHARED, "is_on", False)
    share_objects()


def test_nothing_is_shared_until_a_process_wants_it() -> None:
    assert not sharing.Shared().is_on
    first, second = ItemDecoder(PODS).item(line("alone")), ItemDecoder(PODS).item(line("alone"))
    assert first == second


@pytest.mark.usefixtures("shared")
def test_two_readers_of_the_same_bytes_have_one_object() -> None:
    first, second = ItemDecoder(PODS).item(line()), ItemDecoder(PODS).item(line())
    assert first is second
    assert isinstance(first, Entry)
    assert (first.key, first.version) == (("d", "a"), "1")


@pytest.mark.usefixtures("shared")
def test_other_bytes_are_another_object_also_of_the_same_version() -> None:
    first = ItemDecoder(PODS).item(line(labels={"a": "b"}))
    second = ItemDecoder(PODS).item(line())
    assert isinstance(first, Entry)
    assert isinstance(second, Entry)
    assert (first.value.metadata.labels, second.value.metadata.labels) == ({"a": "b"}, {})
    other = ItemDecoder(NODES).item(line())
    assert isinstance(other, Entry)
    assert isinstance(other.value, Node)


@pytest.mark.usefixtures("shared")
def test_what_nobody_holds_is_gone() -> None:
    gc.collect()
    before = len(SHARED)
    held = ItemDecoder(PODS).item(line("gone"))
    assert len(SHARED) == before + 1
    del held
    gc.collect()
    assert len(SHARED) == before
