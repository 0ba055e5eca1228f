from __future__ import annotations

import dataclasses
from functools import partial

import pytest

from dray.api.codec import loads
from dray.apiserver.custom.definition import CLEANUP, served_by
from dray.apiserver.served import Serving
from dray.apiserver.writing.create import create
from dray.apiserver.writing.faults import NotAllowedError
from dray.apiserver.writing.kinds.definitions import check_defined, clear_definition
from dray.apiserver.writing.removing.delete import delete
from dray.apiserver.writing.request import Rules, Write
from dray.errors import NotFoundError
from tests.apiserver.custom.definitions import definition
from tests.apiserver.writing.small_store import SmallStore

CRDS, NAME = "customresourcedefinitions", "widgets.example.com"


def defined(store: SmallStore) -> tuple[Rules, Write]:
    """The definition stored, rules that know it, and a write of a widget."""
    store.create(CRDS, definition())
    served = served_by(loads(store.stored(CRDS, NAME).raw))
    assert served is not None
    rules = dataclasses.replace(store.rules, serving=Serving((*store.rules.serving.all, served)))
    return rules, Write(rules, served, "default", "", store.now)


def drop(store: SmallStore) -> None:
    write = store.write(CRDS, NAME)
    store.run(lambda transaction: delete(transaction, write))


def test_a_definition_waits_for_its_objects() -> None:
    store = SmallStore()
    rules, write = defined(store)
    for name, finalizers in (("held", ["wait"]), ("free", [])):
        document = {"metadata": {"name": name, "finalizers": finalizers}, "spec": {"size": 1}}
        store.run(partial(create, write=write, document=document))
    assert not store.run(lambda transaction: clear_definition(transaction, rules, NAME, store.now))
    drop(store)
    assert loads(store.stored(CRDS, NAME).raw)["metadata"]["finalizers"] == [CLEANUP]
    assert not store.run(lambda transaction: clear_definition(transaction, rules, NAME, store.now))
    assert [key.name for key in store.objects if key.resource == NAME] == ["held"]
    store.objects.pop(write.served.key("default", "held"))
    assert store.run(lambda transaction: clear_definition(transaction, rules, NAME, store.now))
    assert store.get(CRDS, NAME) is None
    assert not store.run(lambda transaction: clear_definition(transaction, rules, NAME, store.now))


def test_a_finalizer_of_somebody_else_stays() -> None:
    store = SmallStore()
    document = definition()
    document["metadata"]["finalizers"] = ["example.com/mine"]
    store.create(CRDS, document)
    drop(store)
    assert not store.run(lambda transaction: clear_definition(transaction, store.rules, NAME, store.now))
    assert loads(store.stored(CRDS, NAME).raw)["metadata"]["finalizers"] == ["example.com/mine"]
    before = store.revision
    assert not store.run(lambda transaction: clear_definition(transaction, store.rules, NAME, store.now))
    assert store.revision == before


def test_nothing_new_of_a_kind_that_is_gone_or_going() -> None:
    store = SmallStore()
    rules, write = defined(store)
    store.run(lambda transaction: check_defined(transaction, write))
    drop(store)
    with pytest.raises(
        NotAllowedError, match="create not allowed while custom resource definition is terminating"
    ):
        store.run(lambda transaction: check_defined(transaction, write))
    store.run(lambda transaction: clear_definition(transaction, rules, NAME, store.now))
    with pytest.raises(NotFoundError, match="could not find the requested resource"):
        store.run(lambda transaction: check_defined(transaction, write))
