from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

from dray.api.codec import loads
from dray.apiserver.served import Document
from dray.apiserver.writing.create import create
from dray.apiserver.writing.kinds.binding import bind
from dray.apiserver.writing.managing import managed
from dray.apiserver.writing.removing.emptying import create_namespaces
from dray.apiserver.writing.request import Outcome, Written
from dray.apiserver.writing.update import update, update_status
from tests.apiserver.writing.small_store import SmallStore, pod


def entries(document: Document) -> dict[tuple[str, str], Any]:
    found = document["metadata"].get("managedFields", [])
    return {(one["manager"], one.get("subresource", "")): one for one in found}


def made(store: SmallStore, plural: str, document: Document, who: str = "me") -> Document:
    write = dataclasses.replace(store.write(plural), manager=who)
    written = store.run(lambda transaction: create(transaction, write, document))
    return dict(loads(written.raw))


def changed(
    store: SmallStore,
    plural: str,
    name: str,
    change: Callable[[Document], object],
    who: str,
    door: Any = update,
) -> Written:
    write = dataclasses.replace(store.write(plural, name), manager=who)

    def changing(old: Document) -> Document:
        new = copy.deepcopy(old)
        change(new)
        return new

    return store.run(lambda transaction: door(transaction, write, changing))  # type: ignore[no-any-return]


def test_a_creator_owns_what_it_sent_with_its_defaults_and_not_what_the_server_adds() -> None:
    found = entries(made(SmallStore(), "pods", pod()))
    fields = found["me", ""]["fieldsV1"]
    assert set(fields) == {"f:spec"}
    assert "f:restartPolicy" in fields["f:spec"] and "f:resources" in str(fields)
    assert "f:tolerations" not in fields["f:spec"] and "f:priority" not in fields["f:spec"]
    assert "f:finalizers" not in str(entries(made(SmallStore(), "namespaces", {"metadata": {"name": "n"}})))


def test_times_move_only_with_a_change() -> None:
    store = SmallStore()
    first = made(store, "configmaps", {"metadata": {"name": "c"}, "data": {"a": "1"}})
    store.advance(60)
    written = changed(store, "configmaps", "c", lambda new: None, "me")
    assert written.outcome is Outcome.UNCHANGED and loads(written.raw) == first
    written = changed(store, "configmaps", "c", lambda new: new["data"].update(b="2"), "me")
    assert written.outcome is Outcome.UPDATED
    before, after = entries(first)["me", ""], entries(loads(written.raw))["me", ""]
    assert before["time"] < after["time"]


def test_what_a_rule_undoes_is_no_change() -> None:
    store = SmallStore()
    first = made(store, "pods", pod("p"))
    store.advance(60)
    written = changed(store, "pods", "p", lambda new: new["status"].update(phase="Mine"), "other")
    assert (written.outcome, loads(written.raw)) == (Outcome.UNCHANGED, first)


def test_a_status_is_owned_through_its_door() -> None:
    store = SmallStore()
    made(store, "pods", pod("p"))

    def talk(new: Document) -> None:
        new["status"]["message"] = "hi"
        new["spec"]["priority"] = 7

    written = changed(store, "pods", "p", talk, "kubelet", update_status)
    found = entries(loads(written.raw))
    assert found["kubelet", "status"]["fieldsV1"] == {"f:status": {"f:message": {}}}
    assert set(found) == {("me", ""), ("kubelet", "status")}


def test_the_server_leaves_no_trace() -> None:
    store = SmallStore()
    made(store, "pods", pod("p"))
    write = dataclasses.replace(store.write("pods", "p"), manager="scheduler")
    store.run(lambda transaction: bind(transaction, write, {"target": {"name": "n"}}))
    bound = store.get("pods", "p")
    assert bound is not None and set(entries(bound)) == {("me", "")}
    store.run(lambda transaction: create_namespaces(transaction, store.rules, store.now))
    default = store.get("namespaces", "default")
    assert default is not None and "managedFields" not in default["metadata"]


def test_an_apply_brings_its_owners() -> None:
    store = SmallStore()
    write = dataclasses.replace(store.write("configmaps"), manager="me", is_apply=True)
    document = {"metadata": {"name": "c"}}
    assert managed(write, None, document) is document
