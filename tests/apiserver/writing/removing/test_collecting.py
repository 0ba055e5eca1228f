from __future__ import annotations

from typing import Any

import pytest

from dray.apiserver.served import Document
from dray.apiserver.store.contract import Key, Stored
from dray.apiserver.writing.removing.collecting import collect, near
from dray.apiserver.writing.removing.delete import delete
from dray.apiserver.writing.removing.dependents import owners_of
from dray.apiserver.writing.removing.grace import DeleteOptions
from tests.apiserver.writing.small_store import SmallStore, pod


def owner_of(document: Document, **extra: Any) -> Document:
    return {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "name": document["metadata"]["name"],
        "uid": document["metadata"]["uid"],
        **extra,
    }


def look(store: SmallStore, key: Key) -> bool:
    return store.run(lambda transaction: collect(transaction, store.rules, key, store.now))


def settle(store: SmallStore) -> None:
    """What the loop around the collector does: everything again until nothing is due."""
    for _ in range(20):
        due = [look(store, key) for key in sorted(store.objects)]
        if not any(due):
            return
    raise AssertionError("the collector does not come to rest")


def tree() -> SmallStore:
    """A Deployment that owns a ReplicaSet that owns a pod."""
    store = SmallStore()
    top = store.create("deployments", {"metadata": {"name": "web"}})
    owners = [owner_of(top, blockOwnerDeletion=True, controller=True)]
    middle = store.create("replicasets", {"metadata": {"name": "web", "ownerReferences": owners}})
    owners = [owner_of(middle, blockOwnerDeletion=True, controller=True)]
    store.create("pods", pod() | {"metadata": {"name": "web", "ownerReferences": owners}})
    settle(store)
    assert alive(store) == {"deployments", "replicasets", "pods"}
    return store


def alive(store: SmallStore) -> set[str]:
    return {key.resource.partition(".")[0] for key in store.objects} - {"namespaces"}


def remove(store: SmallStore, plural: str, name: str = "web", **options: Any) -> None:
    write = store.write(plural, name)
    store.run(lambda transaction: delete(transaction, write, DeleteOptions(**options)))


def test_dependents_follow_in_the_background() -> None:
    store = tree()
    remove(store, "deployments", propagation_policy="Background")
    assert alive(store) == {"replicasets", "pods"}
    settle(store)
    assert alive(store) == set()


def test_in_the_foreground_the_owner_goes_last() -> None:
    store = tree()
    store.changes.clear()
    remove(store, "deployments", propagation_policy="Foreground")
    settle(store)
    assert alive(store) == set()
    gone = [change.new.key.resource for change in store.changes if change.kind == "DELETED"]
    assert gone == ["pods", "replicasets.apps", "deployments.apps"]


def test_in_the_foreground_a_dependent_that_does_not_block_is_not_waited_for() -> None:
    store = SmallStore()
    top = store.create("configmaps", {"metadata": {"name": "web"}})
    metadata = {"name": "one", "ownerReferences": [owner_of(top)], "finalizers": ["a/b"]}
    store.create("secrets", {"metadata": metadata})
    remove(store, "configmaps", propagation_policy="Foreground")
    settle(store)
    assert alive(store) == {"secrets"}
    assert (store.get("secrets", "one") or {})["metadata"]["deletionTimestamp"]


def test_orphans_lose_their_owner_and_stay() -> None:
    store = tree()
    remove(store, "replicasets", propagation_policy="Orphan")
    settle(store)
    assert alive(store) == {"deployments", "pods"}
    assert "ownerReferences" not in (store.get("pods", "web") or {})["metadata"]


def test_one_of_two_owners_is_enough() -> None:
    store = SmallStore()
    first, second = (store.create("configmaps", {"metadata": {"name": name}}) for name in ("a", "b"))
    metadata = {"name": "one", "ownerReferences": [owner_of(first), owner_of(second)]}
    store.create("secrets", {"metadata": metadata})
    remove(store, "configmaps", "a")
    settle(store)
    assert (store.get("secrets", "one") or {})["metadata"]["ownerReferences"] == [owner_of(second)]
    remove(store, "configmaps", "b")
    settle(store)
    assert alive(store) == set()


@pytest.mark.parametrize(
    ("change", "goes"),
    [
        ({}, False),
        ({"uid": "of-an-earlier-one"}, True),
        ({"name": "missing"}, True),
        ({"kind": "Gadget"}, False),
    ],
)
def test_an_owner_is_who_has_its_uid(change: Document, goes: bool) -> None:
    store = SmallStore()
    top = store.create("configmaps", {"metadata": {"name": "a"}})
    metadata = {"name": "one", "ownerReferences": [owner_of(top, **change)]}
    store.create("secrets", {"metadata": metadata})
    settle(store)
    assert (store.get("secrets", "one") is None) is goes


def test_a_cluster_object_cannot_belong_to_a_namespace() -> None:
    store = SmallStore()
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}
    store.create("nodes", {"metadata": {"name": "n", "ownerReferences": [owner]}})
    settle(store)
    assert alive(store) == {"nodes"}


def test_an_owner_in_another_namespace_is_none() -> None:
    store = SmallStore()
    store.create("namespaces", {"metadata": {"name": "other"}})
    top = store.create("configmaps", {"metadata": {"name": "a"}}, namespace="other")
    store.create("secrets", {"metadata": {"name": "one", "ownerReferences": [owner_of(top)]}})
    settle(store)
    assert store.get("secrets", "one") is None


def test_two_that_own_each_other_go_together() -> None:
    store = SmallStore()
    first = store.create("configmaps", {"metadata": {"name": "a"}})
    owners = [owner_of(first, blockOwnerDeletion=True)]
    second = store.create("configmaps", {"metadata": {"name": "b", "ownerReferences": owners}})
    stored = store.stored("configmaps", "a")
    first["metadata"]["ownerReferences"] = [owner_of(second, blockOwnerDeletion=True)]
    store.run(lambda transaction: transaction.put(stored.key, stored.uid, first))
    remove(store, "configmaps", "a", propagation_policy="Foreground")
    settle(store)
    assert alive(store) == set()


def test_a_bound_pod_is_only_marked_and_not_marked_again() -> None:
    store = tree()
    stored = store.stored("pods", "web")
    bound = store.get("pods", "web")
    assert bound is not None
    bound["spec"]["nodeName"] = "n"
    store.run(lambda transaction: transaction.put(stored.key, stored.uid, bound))
    remove(store, "replicasets")
    settle(store)
    assert (store.get("pods", "web") or {})["metadata"]["deletionGracePeriodSeconds"] == 30


def test_who_is_near() -> None:
    store = tree()
    stored = store.stored("replicasets", "web")
    found = store.run(lambda transaction: near(transaction, store.rules, stored))
    assert found == (Key("deployments.apps", "default", "web"), Key("pods", "default", "web"))


@pytest.mark.parametrize("raw", [b"{}", b'{"metadata":{"ownerReferences":7}}', b"x"])
def test_owners_of_anything(raw: bytes) -> None:
    assert owners_of(Stored(Key("pods", "default", "a"), "u", 1, raw)) == ()
