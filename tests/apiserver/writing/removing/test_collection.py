from __future__ import annotations

import pytest

from dray.api.selectors import parse_field_selector, parse_label_selector
from dray.apiserver.writing.removing.collection import delete_collection
from dray.apiserver.writing.removing.grace import DeleteOptions, Preconditions
from dray.apiserver.writing.request import Outcome
from dray.errors import ConflictError, InvalidError
from tests.apiserver.writing.small_store import SmallStore, pod


def filled() -> SmallStore:
    store = SmallStore()
    store.create("namespaces", {"metadata": {"name": "other"}})
    for name, node in (("a", "n"), ("b", ""), ("c", "")):
        document = pod(name, **({"nodeName": node} if node else {}))
        document["metadata"]["labels"] = {"name": name}
        store.create("pods", document)
    store.create("pods", pod("a"), namespace="other")
    return store


def left(store: SmallStore) -> list[str]:
    return [f"{key.namespace}/{key.name}" for key in sorted(store.objects) if key.resource == "pods"]


@pytest.mark.parametrize(
    ("namespace", "labels", "fields", "stay"),
    [
        ("default", "", "", ["default/a", "other/a"]),
        ("default", "name in (b)", "", ["default/a", "default/c", "other/a"]),
        ("default", "", "metadata.name=c", ["default/a", "default/b", "other/a"]),
        ("default", "", "spec.nodeName=", ["default/a", "other/a"]),
        ("", "", "metadata.name!=b", ["default/a", "default/b"]),
    ],
)
def test_what_matches_goes(namespace: str, labels: str, fields: str, stay: list[str]) -> None:
    store = filled()
    write = store.write("pods", namespace=namespace)
    store.run(
        lambda transaction: delete_collection(
            transaction, write, labels=parse_label_selector(labels), fields=parse_field_selector(fields)
        )
    )
    assert left(store) == stay


def test_a_bound_pod_is_marked_like_by_a_single_deletion() -> None:
    store = filled()
    write = store.write("pods")
    written = store.run(lambda transaction: delete_collection(transaction, write))
    assert [one.outcome for one in written] == [Outcome.UPDATED, Outcome.DELETED, Outcome.DELETED]


def test_one_refusal_refuses_all() -> None:
    store = filled()
    uid = store.stored("pods", "b").uid
    options = DeleteOptions(preconditions=Preconditions(uid=uid))
    with pytest.raises(ConflictError):
        store.run(lambda transaction: delete_collection(transaction, store.write("pods"), options))
    assert len(left(store)) == 4
    with pytest.raises(InvalidError, match="field label not supported"):
        fields = parse_field_selector("spec.image=x")
        store.run(lambda transaction: delete_collection(transaction, store.write("pods"), fields=fields))


def test_a_dry_run_deletes_nothing() -> None:
    store = filled()
    write = store.write("pods", dry_run=True)
    assert len(store.run(lambda transaction: delete_collection(transaction, write))) == 3
    assert len(left(store)) == 4
