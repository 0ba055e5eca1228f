"""Objects in order, layers of changes above them, and their indexes."""

from __future__ import annotations

import random

import pytest

from dray.apiserver.store.contract import Change, ChangeKind, Index, Key, Stored
from dray.apiserver.store.memory import Entries, Indexes, Layer, Objects, Shelf, Step, path_of
from dray.errors import InvariantError
from tests.apiserver.store.stores import key


def step(revision: int, place: Key, kind: ChangeKind = ChangeKind.ADDED, raw: bytes = b"") -> Step:
    stored = Stored(place, "u", revision, raw)
    terms = () if kind is ChangeKind.DELETED else INDEXES.terms(stored)
    return Step(Change(kind, revision, stored, None), terms)


INDEXES = Indexes([Index("word", "pods", lambda stored: stored.raw.decode().split())])


def test_a_shelf_keeps_the_order_under_any_changes() -> None:
    chance, shelf, model = random.Random(1), Shelf(), dict[str, Stored]()
    for revision in range(2000):
        place = key(f"n{chance.randrange(40)}", chance.choice(("a", "a-b", "b")))
        stored = Stored(place, "u", revision, b"")
        if path_of(stored) in model and chance.random() < 0.5:
            assert shelf.has(place)
            shelf.remove(place)
            del model[path_of(stored)]
            assert not shelf.has(place)
        else:
            shelf.put(stored)
            model[path_of(stored)] = stored
        assert shelf.items(*shelf.span("", "")) == tuple(model[path] for path in sorted(model))


def test_a_span_stays_in_its_namespace() -> None:
    shelf = Shelf()
    for namespace in ("a", "a-b", "a0", "ab", "b"):
        for name in ("x", "y"):
            shelf.put(Stored(key(name, namespace), "u", 1, b""))

    def names(namespace: str, after: str) -> list[str]:
        return [path_of(item) for item in shelf.items(*shelf.span(namespace, after))]

    assert names("a", "") == ["a/x", "a/y"]
    assert names("a", "a/x") == ["a/y"]
    assert names("a", "b/x") == []
    assert names("b", "a/x") == ["b/x", "b/y"]
    assert names("none", "") == names("", "z") == []
    assert names("", "a/y") == ["a0/x", "a0/y", "ab/x", "ab/y", "b/x", "b/y"]


def test_layers_answer_for_all_below() -> None:
    objects = Objects(INDEXES)
    for place, raw in ((key("a"), b"red"), (key("b"), b"red blue"), (key("c"), b"")):
        objects.apply(step(1, place, raw=raw))
    lower = Layer(objects)
    upper = Layer(lower)
    first = step(2, key("b"), ChangeKind.MODIFIED, b"blue")
    lower.apply(first)
    upper.apply(step(3, key("a"), ChangeKind.DELETED))
    upper.apply(step(4, key("d", "m"), raw=b"red"))
    upper.apply(step(5, key("b", "", "nodes"), raw=b"red"))
    assert [s.key.name for s in upper.list("pods")] == ["d", "b", "c"]
    assert [s.key.name for s in upper.list("pods", "ns")] == ["b", "c"]
    assert {s.key.name for s in upper.indexed("word", "red").values()} == {"d"}
    assert {s.key.name for s in lower.indexed("word", "red").values()} == {"a"}
    assert {s.revision for s in upper.indexed("word", "blue").values()} == {2}
    assert (upper.get(key("a")), lower.get(key("a"))) == (None, objects.get(key("a")))
    objects.apply(first)
    lower.settle(first)
    assert lower.list("pods") == objects.list("pods")
    upper.clear()
    assert upper.indexed("word", "red") == objects.indexed("word", "red")


def test_a_later_change_of_the_same_object_stays_when_the_earlier_settles() -> None:
    layer = Layer(Objects(INDEXES))
    first, second = step(1, key("a"), raw=b"x"), step(2, key("a"), ChangeKind.DELETED)
    layer.apply(first)
    layer.apply(second)
    layer.settle(first)
    assert layer.get(key("a")) is None
    assert layer.indexed("word", "x") == {}


def test_entries_leave_nothing_behind() -> None:
    entries = Entries()
    for revision in range(100):
        stored = Stored(key("a"), "u", revision, str(revision).encode())
        entries.put(stored, (("word", str(revision)),))
    assert not entries.find("word", "98")
    entries.drop(key("a"))
    entries.drop(key("a"))
    assert (entries._found, entries._terms) == ({}, {})


def test_an_index_is_defined_once() -> None:
    with pytest.raises(InvariantError, match="defined twice"):
        Indexes([Index("x", "pods", lambda stored: ()), Index("x", "nodes", lambda stored: ())])


def test_a_shelf_of_very_many_takes_one_more_at_its_end() -> None:
    shelf = Shelf()
    for number in range(600):
        shelf.put(Stored(key(f"n{number:03}"), "u", number, b""))
    assert [one.revision for one in shelf.items(*shelf.span("", ""))] == list(range(600))
