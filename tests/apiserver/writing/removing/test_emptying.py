from __future__ import annotations

import pytest

from dray.apiserver.served import Document
from dray.apiserver.writing.kinds.namespaces import ALWAYS_THERE
from dray.apiserver.writing.removing.delete import delete
from dray.apiserver.writing.removing.emptying import create_namespaces, empty_namespace
from dray.apiserver.writing.removing.grace import DeleteOptions
from dray.apiserver.writing.request import Outcome
from dray.apiserver.writing.update import update
from dray.errors import DeniedError
from tests.apiserver.writing.small_store import SmallStore, claim, pod


def doomed() -> SmallStore:
    store = SmallStore()
    store.create("namespaces", {"metadata": {"name": "one"}})
    return store


def empty(store: SmallStore) -> bool:
    return store.run(lambda transaction: empty_namespace(transaction, store.rules, "one", store.now))


def remove(store: SmallStore) -> None:
    store.run(lambda transaction: delete(transaction, store.write("namespaces", "one")))


def test_some_are_there_from_the_start() -> None:
    store = SmallStore()
    assert sorted(key.name for key in store.objects) == list(ALWAYS_THERE)
    before = store.revision
    store.run(lambda transaction: create_namespaces(transaction, store.rules, store.now))
    assert store.revision == before
    assert (store.get("namespaces", "default") or {})["metadata"]["labels"] == {
        "kubernetes.io/metadata.name": "default"
    }


def test_a_namespace_that_lives_is_left_alone() -> None:
    store = doomed()
    store.create("configmaps", {"metadata": {"name": "a"}}, namespace="one")
    assert empty(store) is False
    assert store.get("configmaps", "a", "one") is not None


def test_all_that_is_in_it_goes_and_then_it_goes_itself() -> None:
    store = doomed()
    for plural, document in (("configmaps", {"metadata": {"name": "a"}}), ("resourceclaims", claim("a"))):
        store.create(plural, document, namespace="one")
    store.create("jobs", {"metadata": {"name": "a"}}, namespace="one")
    store.create("configmaps", {"metadata": {"name": "a"}})
    remove(store)
    assert empty(store) is True
    assert [key for key in store.objects if "one" in (key.namespace, key.name)] == []
    assert store.get("configmaps", "a") is not None
    assert empty(store) is True


def test_it_waits_for_pods_and_finalizers() -> None:
    store = doomed()
    store.create("pods", pod(nodeName="n"), namespace="one")
    remove(store)
    assert empty(store) is False
    assert (store.get("pods", "web", "one") or {})["metadata"]["deletionTimestamp"]
    before = store.revision
    assert empty(store) is False
    assert store.revision == before
    write = store.write("pods", "web", "one")
    store.run(lambda transaction: delete(transaction, write, DeleteOptions(grace_period_seconds=0)))
    assert empty(store) is True


def test_an_update_does_not_end_it_early() -> None:
    store = doomed()
    remove(store)
    write = store.write("namespaces", "one")

    def label(old: Document | None) -> Document:
        assert old is not None
        return old | {"metadata": old["metadata"] | {"labels": {"a": "b"}}}

    assert store.run(lambda transaction: update(transaction, write, label)).outcome is Outcome.UPDATED
    assert store.get("namespaces", "one") is not None


def test_nothing_new_comes_in_meanwhile() -> None:
    store = doomed()
    remove(store)
    with pytest.raises(DeniedError, match="because it is being terminated"):
        store.create("configmaps", {"metadata": {"name": "a"}}, namespace="one")
