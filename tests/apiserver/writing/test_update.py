from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest

from dray.apiserver.served import Document
from dray.apiserver.writing.faults import BadRequestError
from dray.apiserver.writing.removing.delete import delete
from dray.apiserver.writing.request import Outcome, Written
from dray.apiserver.writing.update import finalize, update, update_status
from dray.errors import ConflictError, InvalidError, NotFoundError
from tests.apiserver.writing.small_store import SmallStore, body, claim, pod, result


def put(store: SmallStore, plural: str, document: Any, name: str = "", *, dry_run: bool = False) -> Written:
    write = store.write(plural, name or document["metadata"]["name"], dry_run=dry_run)
    return store.run(lambda transaction: update(transaction, write, lambda old: copy.deepcopy(document)))


def put_status(store: SmallStore, plural: str, document: Document) -> Written:
    write = store.write(plural, document["metadata"]["name"])
    return store.run(
        lambda transaction: update_status(transaction, write, lambda old: copy.deepcopy(document))
    )


def changed(document: Document, change: Callable[[Document], object]) -> Document:
    new = copy.deepcopy(document)
    change(new)
    return new


@pytest.mark.parametrize(
    ("plural", "document"),
    [
        ("pods", pod("one")),
        ("nodes", {"metadata": {"name": "one"}}),
        ("configmaps", {"metadata": {"name": "one"}, "data": {}}),
        ("resourceclaims", claim("one")),
        ("leases", {"metadata": {"name": "one"}, "spec": {}}),
        ("deployments", {"metadata": {"name": "one"}, "spec": {"replicas": 1}}),
        ("secrets", {"metadata": {"name": "one"}}),
        ("kubevirts", {"metadata": {"name": "one"}, "spec": {}}),
    ],
)
def test_optimistic_concurrency(plural: str, document: Document) -> None:
    store = SmallStore()
    first = store.create(plural, document)
    second = changed(first, lambda new: new["metadata"].update(labels={"a": "b"}))
    written = put(store, plural, second)
    assert written.outcome is Outcome.UPDATED
    assert body(written)["metadata"]["labels"] == {"a": "b"}
    assert body(written)["metadata"]["resourceVersion"] == str(store.revision)
    text = (
        f'Operation cannot be fulfilled on {store.write(plural).served.resource} "one": the object has been '
        "modified; please apply your changes to the latest version and try again"
    )
    with pytest.raises(ConflictError, match=re.escape(text)):
        put(store, plural, second)


@pytest.mark.parametrize("distance", [-1, 1, 2, 1000])
@pytest.mark.parametrize("write", [put, put_status])
def test_no_version_but_the_newest_is_updated(write: Callable[..., Written], distance: int) -> None:
    """A larger one too: it may come from another server or a restored disk."""
    store = SmallStore()
    store.create("pods", pod("earlier"))
    stored = store.create("pods", pod("one"))
    new = changed(stored, lambda new: new["metadata"].update(labels={"a": "b"}))
    new["metadata"]["resourceVersion"] = str(int(stored["metadata"]["resourceVersion"]) + distance)
    with pytest.raises(ConflictError, match="the object has been modified"):
        write(store, "pods", new)
    assert store.get("pods", "one") == stored


@pytest.mark.parametrize("plural", ["leases", "kubevirts", "poddisruptionbudgets", "csinodes"])
def test_kinds_that_want_a_version(plural: str) -> None:
    store = SmallStore()
    first = store.create(plural, {"metadata": {"name": "one"}})
    del first["metadata"]["resourceVersion"]
    rest = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    text = f'{store.write(plural).served.resource} "one" is invalid: {rest}'
    with pytest.raises(InvalidError, match=re.escape(text)):
        put(store, plural, first)


def test_a_version_that_is_no_number() -> None:
    store = SmallStore()
    first = store.create("configmaps", {"metadata": {"name": "one"}})
    first["metadata"]["resourceVersion"] = "new"
    with pytest.raises(InvalidError, match=r'metadata\.resourceVersion: Invalid value: "new"'):
        put(store, "configmaps", first)


def test_without_a_version_the_newest_is_replaced_and_the_rest_kept() -> None:
    store = SmallStore()
    created = store.create("configmaps", {"metadata": {"name": "one"}, "data": {"a": "1"}})
    after = body(put(store, "configmaps", {"metadata": {"name": "one"}, "data": {"b": "2"}}))
    assert after["data"] == {"b": "2"}
    for key in ("uid", "creationTimestamp"):
        assert after["metadata"][key] == created["metadata"][key]


def test_a_write_of_the_same_thing_is_no_change() -> None:
    store = SmallStore()
    created = store.create("pods", pod())
    store.kinds()
    assert put(store, "pods", created).outcome is Outcome.UNCHANGED
    assert put_status(store, "pods", created).outcome is Outcome.UNCHANGED
    assert store.kinds() == []


def test_another_object_of_the_same_name() -> None:
    store = SmallStore()
    created = store.create("configmaps", {"metadata": {"name": "one"}})
    created["metadata"]["uid"] = "other"
    with pytest.raises(
        ConflictError, match="Precondition failed: UID in precondition: other, UID in object meta"
    ):
        put(store, "configmaps", created)


@pytest.mark.parametrize(
    ("plural", "creates"),
    [
        ("leases", True),
        ("events", True),
        ("services", True),
        ("clusterroles", True),
        ("pods", False),
        ("configmaps", False),
        ("deployments", False),
        ("kubevirts", False),
    ],
)
def test_which_kinds_an_update_creates(plural: str, creates: bool) -> None:
    store = SmallStore()
    document: Document = {"metadata": {"name": "one"}}
    if plural == "events":
        document["involvedObject"] = {"namespace": "default"}
    if creates:
        assert put(store, plural, document).outcome is Outcome.CREATED
        return
    with pytest.raises(NotFoundError, match='"one" not found'):
        put(store, plural, document)


def test_a_uid_never_creates_and_apply_always_does() -> None:
    store = SmallStore()
    lost = {"metadata": {"name": "one", "uid": "u", "resourceVersion": "5"}}
    with pytest.raises(ConflictError, match="UID in precondition: u"):
        put(store, "leases", lost)
    write = store.write("configmaps", "one")
    seen: list[Document | None] = []

    def apply(old: Document | None) -> Document:
        seen.append(old)
        return {"metadata": {"name": "one"}}

    written = store.run(lambda transaction: update(transaction, write, apply, creates=True))
    assert (written.outcome, seen) == (Outcome.CREATED, [None])


def test_a_patch_works_on_the_newest_state() -> None:
    store = SmallStore()
    store.create("configmaps", {"metadata": {"name": "one"}, "data": {"a": "1"}})

    def patch(old: Document | None) -> Document:
        assert old is not None
        old["data"]["b"] = "2"
        return old

    write = store.write("configmaps", "one")
    written = store.run(lambda transaction: update(transaction, write, patch))
    assert body(written)["data"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"name": "two"}, "the name of the object (two) does not match the name on the URL (one)"),
        ({}, "the name of the object (one based on URL) was undeterminable: name must be provided"),
        ({"name": "one", "namespace": "other"}, "the namespace of the provided object does not match"),
    ],
)
def test_the_address_decides_about_the_place(metadata: Document, text: str) -> None:
    store = SmallStore()
    store.create("configmaps", {"metadata": {"name": "one"}})
    with pytest.raises(BadRequestError, match=re.escape(text)):
        put(store, "configmaps", {"metadata": metadata}, "one")


@pytest.mark.parametrize(
    ("plural", "document", "change", "text"),
    [
        ("resourceclaims", claim("one"), {"spec": {"devices": {}}}, "spec: Invalid value"),
        (
            "configmaps",
            {"metadata": {"name": "one"}, "immutable": True, "data": {}},
            {"data": {"a": "b"}},
            "field is immutable when `immutable` is set",
        ),
        ("pods", pod("one"), {"spec": {"nodeName": "n"}}, "pod updates may not change fields other than"),
        (
            "deployments",
            {"metadata": {"name": "one"}},
            {"metadata": {"labels": {"-": "x"}}},
            "metadata.labels",
        ),
    ],
)
def test_rules_about_changes(plural: str, document: Document, change: Document, text: str) -> None:
    store = SmallStore()
    created = store.create(plural, document)
    new = copy.deepcopy(created)
    for key, value in change.items():
        new[key] = {**new.get(key, {}), **value}
    with pytest.raises(InvalidError, match=re.escape(text)):
        put(store, plural, new)
    assert store.get(plural, "one") == created


def test_generations_count_what_is_wanted() -> None:
    store = SmallStore()
    for plural, path, value in (
        ("deployments", "spec", {"a": 1}),
        ("endpointslices", "ports", [{"port": 1}]),
    ):
        created = store.create(plural, {"metadata": {"name": "one"}})
        labelled = body(
            put(store, plural, changed(created, lambda new: new["metadata"].update(labels={"a": "b"})))
        )
        assert labelled["metadata"]["generation"] == 1
        assert body(put(store, plural, labelled | {path: value}))["metadata"]["generation"] == 2


def test_a_priority_class_stays_the_same() -> None:
    store = SmallStore()
    created = store.create("priorityclasses", {"metadata": {"name": "one"}, "value": 5})
    after = body(put(store, "priorityclasses", created | {"description": "high"}))
    assert after["metadata"]["generation"] == 1


def test_each_door_changes_its_own_part() -> None:
    store = SmallStore()
    for plural in ("deployments", "resourceclaims"):
        created = store.create(
            plural, claim("one") if plural == "resourceclaims" else {"metadata": {"name": "one"}}
        )
        both = changed(created, lambda new: new["metadata"].update(labels={"a": "b"}))
        both["status"] = {"devices": []} if plural == "resourceclaims" else {"replicas": 3}
        main = body(put(store, plural, both))
        assert main["status"] == {}
        assert main["metadata"]["labels"] == {"a": "b"}
        new = main | {"status": both["status"], "spec": {"ignored": 1}}
        new["metadata"] = main["metadata"] | {"labels": {"c": "d"}, "finalizers": ["a/b"]}
        status = body(put_status(store, plural, new))
        assert status["status"] == both["status"]
        assert status.get("spec") == main.get("spec")
        assert status["metadata"]["labels"] == {"a": "b"}
        assert "finalizers" not in status["metadata"]


@pytest.mark.parametrize("plural", ["pods", "nodes"])
def test_kubelets_write_labels_through_the_status(plural: str) -> None:
    store = SmallStore()
    created = store.create(plural, pod("one") if plural == "pods" else {"metadata": {"name": "one"}})
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}]
    given = changed(created, lambda new: new["metadata"].update(labels={"a": "b"}, ownerReferences=owners))
    after = body(put_status(store, plural, given))
    assert after["metadata"]["labels"] == {"a": "b"}
    assert ("ownerReferences" in after["metadata"]) is (plural == "nodes")


def test_a_pod_status_keeps_what_the_server_knows() -> None:
    store = SmallStore()
    created = store.create("pods", pod())
    after = body(put_status(store, "pods", created | {"status": {"phase": "Running"}}))
    assert after["status"] == {"phase": "Running", "qosClass": "BestEffort"}


def test_a_pod_update_may_leave_out_what_the_server_added() -> None:
    store = SmallStore()
    created = store.create("pods", pod())
    added = ("priority", "preemptionPolicy", "tolerations")
    new = changed(created, lambda new: [new["spec"].pop(key) for key in added])
    new["metadata"]["labels"] = {"a": "b"}
    assert body(put(store, "pods", new))["spec"] == created["spec"]


def test_the_last_finalizer_takes_the_object_along() -> None:
    store = SmallStore()
    held = {"metadata": {"name": "one", "finalizers": ["a/b", "c/d"]}}
    store.create("configmaps", held)
    write = store.write("configmaps", "one")
    assert store.run(lambda transaction: delete(transaction, write)).outcome is Outcome.UPDATED
    marked = store.get("configmaps", "one")
    assert marked is not None
    with pytest.raises(InvalidError, match="no new finalizers can be added if the object is being deleted"):
        put(store, "configmaps", changed(marked, lambda new: new["metadata"]["finalizers"].append("e/f")))
    one = body(put(store, "configmaps", changed(marked, lambda new: new["metadata"]["finalizers"].pop())))
    store.kinds()
    written = put(store, "configmaps", changed(one, lambda new: new["metadata"].pop("finalizers")))
    assert written.outcome is Outcome.DELETED
    assert store.get("configmaps", "one") is None
    assert store.kinds() == ["DELETED"]


def test_a_pod_in_its_grace_period_stays_without_finalizers() -> None:
    store = SmallStore()
    created = store.create("pods", pod(nodeName="n") | {"metadata": {"name": "web", "finalizers": ["a/b"]}})
    write = store.write("pods", "web")
    marked = body(store.run(lambda transaction: delete(transaction, write)))
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    freed = changed(marked, lambda new: new["metadata"].pop("finalizers"))
    assert put(store, "pods", freed).outcome is Outcome.UPDATED
    assert created["metadata"]["uid"] == store.stored("pods", "web").uid


def test_a_dry_run_stores_nothing() -> None:
    store = SmallStore()
    created = store.create("configmaps", {"metadata": {"name": "one"}, "data": {"a": "1"}})
    written = put(store, "configmaps", created | {"data": {"a": "2"}}, dry_run=True)
    assert (written.outcome, body(written)["data"]) == (Outcome.UPDATED, {"a": "2"})
    assert store.get("configmaps", "one") == created


def test_a_status_of_a_claim_is_checked() -> None:
    store = SmallStore()
    created = store.create("resourceclaims", claim("one"))
    allocation = {"devices": {"results": [result() | {"request": "other"}]}}
    with pytest.raises(InvalidError, match=r"status\.allocation\.devices\.results\[0\]\.request"):
        put_status(store, "resourceclaims", created | {"status": {"allocation": allocation}})
    allocation = {"devices": {"results": [result(adminAccess=True)]}}
    with pytest.raises(InvalidError, match=r"results\[0\]\.adminAccess: Forbidden: admin access"):
        put_status(store, "resourceclaims", created | {"status": {"allocation": allocation}})


def test_finalize_changes_nothing_but_the_finalizers() -> None:
    store = SmallStore()
    created = store.create("namespaces", {"metadata": {"name": "one"}})
    wanted = changed(created, lambda new: new["spec"]["finalizers"].append("example.com/mine"))
    wanted["metadata"]["labels"] = {"ignored": "yes"}
    write = store.write("namespaces", "one")
    after = body(store.run(lambda transaction: finalize(transaction, write, lambda old: wanted)))
    assert after["spec"]["finalizers"] == ["kubernetes", "example.com/mine"]
    assert after["metadata"]["labels"] == created["metadata"]["labels"]
    wrong = changed(after, lambda new: new["spec"]["finalizers"].append("mine"))
    with pytest.raises(InvalidError, match="neither a standard finalizer name nor is it fully qualified"):
        store.run(lambda transaction: finalize(transaction, write, lambda old: wrong))
