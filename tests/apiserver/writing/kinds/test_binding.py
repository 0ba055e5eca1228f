from __future__ import annotations

import re
from typing import Any

import pytest

from dray.apiserver.served import Document
from dray.apiserver.writing.faults import BadRequestError
from dray.apiserver.writing.kinds.binding import bind
from dray.apiserver.writing.removing.delete import delete
from dray.errors import ConflictError, InvalidError, NotFoundError
from tests.apiserver.writing.small_store import SmallStore, body, pod


def bound(store: SmallStore, node: str = "n", *, dry_run: bool = False, **metadata: Any) -> Document:
    binding = {"metadata": {"name": "web", **metadata}, "target": {"kind": "Node", "name": node}}
    write = store.write("pods", "web", dry_run=dry_run)
    return body(store.run(lambda transaction: bind(transaction, write, binding)))


def test_a_pod_is_put_on_a_node_once() -> None:
    store = SmallStore()
    store.create("pods", pod())
    store.advance(7)
    after = bound(store, annotations={"a": "b"}, labels={"c": "d"})
    assert after == store.get("pods", "web")
    assert after["spec"]["nodeName"] == "n"
    assert after["status"]["conditions"] == [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2030-01-01T00:00:07Z"}
    ]
    assert (after["metadata"]["annotations"], after["metadata"]["labels"]) == ({"a": "b"}, {"c": "d"})
    text = 'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "n"'
    with pytest.raises(ConflictError, match=re.escape(text)):
        bound(store, "m")


@pytest.mark.parametrize(
    ("node", "metadata", "text"),
    [
        ("$(A)", {}, r'target\.name: Invalid value: "\$\(A\)"'),
        ("", {}, r"target\.name: Required value"),
        ("n", {"labels": {"a": "b c"}}, r"metadata\.labels: Invalid value"),
        ("n", {"annotations": {"/": ""}}, r"metadata\.annotations: Invalid value"),
    ],
)
def test_nothing_is_put_into_a_pod_that_its_rules_refuse(node: str, metadata: Document, text: str) -> None:
    store = SmallStore()
    before = store.create("pods", pod())
    with pytest.raises(InvalidError, match=text):
        bound(store, node, **metadata)
    assert store.get("pods", "web") == before


def test_the_nomination_goes_and_the_condition_turns() -> None:
    store = SmallStore()
    created = store.create("pods", pod())
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    created["status"] |= {"nominatedNodeName": "m", "conditions": conditions}
    stored = store.stored("pods", "web")
    store.run(lambda transaction: transaction.put(stored.key, stored.uid, created))
    status = bound(store)["status"]
    assert "nominatedNodeName" not in status
    assert [(one["status"], one.get("reason")) for one in status["conditions"]] == [("True", None)]


def test_the_node_tells_where_it_is() -> None:
    store = SmallStore()
    labels = {"topology.kubernetes.io/zone": "z", "kubernetes.io/os": "linux"}
    store.create("nodes", {"metadata": {"name": "n", "labels": labels}})
    store.create("pods", pod())
    assert bound(store)["metadata"]["labels"] == {"topology.kubernetes.io/zone": "z"}


def test_pods_that_cannot_be_bound() -> None:
    store = SmallStore()
    with pytest.raises(NotFoundError, match='pods "web" not found'):
        bound(store)
    store.create(
        "pods", pod(schedulingGates=[{"name": "wait"}]) | {"metadata": {"name": "web", "finalizers": ["a/b"]}}
    )
    with pytest.raises(ConflictError, match=r"pod web has non-empty \.spec\.schedulingGates"):
        bound(store)
    store.run(lambda transaction: delete(transaction, store.write("pods", "web")))
    with pytest.raises(ConflictError, match="pod web is being deleted, cannot be assigned to a host"):
        bound(store)


@pytest.mark.parametrize("metadata", [{"uid": "other"}, {"resourceVersion": "1"}])
def test_preconditions(metadata: Document) -> None:
    store = SmallStore()
    store.create("pods", pod())
    with pytest.raises(ConflictError, match="Precondition failed: "):
        bound(store, **metadata)
    stored = store.stored("pods", "web")
    assert bound(store, uid=stored.uid, resourceVersion=str(stored.revision))["spec"]["nodeName"] == "n"


@pytest.mark.parametrize(
    ("binding", "error", "text"),
    [
        ({"target": {}}, InvalidError, "target.name: Required value"),
        ({"target": {"kind": "Pod", "name": "n"}}, InvalidError, 'target.kind: Unsupported value: "Pod"'),
        (
            {"metadata": {"name": "x"}, "target": {"name": "n"}},
            BadRequestError,
            "name in URL does not match name",
        ),
        ({"target": 7}, BadRequestError, 'Binding in version "v1" cannot be handled as a Binding: target'),
        ([], BadRequestError, "cannot be handled as a Binding"),
    ],
)
def test_bindings_that_make_no_sense(binding: Any, error: type[Exception], text: str) -> None:
    store = SmallStore()
    store.create("pods", pod())
    with pytest.raises(error, match=re.escape(text)):
        store.run(lambda transaction: bind(transaction, store.write("pods", "web"), binding))


def test_a_dry_run_binds_nothing() -> None:
    store = SmallStore()
    created = store.create("pods", pod())
    assert bound(store, dry_run=True)["spec"]["nodeName"] == "n"
    assert store.get("pods", "web") == created
