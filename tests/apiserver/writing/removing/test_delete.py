from __future__ import annotations

import re
from typing import Any

import pytest

from dray.apiserver.served import Document
from dray.apiserver.writing.removing.delete import delete
from dray.apiserver.writing.removing.grace import DeleteOptions, Preconditions
from dray.apiserver.writing.request import Outcome, Written
from dray.errors import ConflictError, DeniedError, InvalidError, NotFoundError
from tests.apiserver.writing.small_store import SmallStore, body, claim, pod


def remove(store: SmallStore, plural: str, name: str, *, dry_run: bool = False, **options: Any) -> Written:
    write = store.write(plural, name, dry_run=dry_run)
    wanted = DeleteOptions(**options)
    return store.run(lambda transaction: delete(transaction, write, wanted))


@pytest.mark.parametrize(
    ("plural", "document"),
    [
        ("configmaps", {"metadata": {"name": "one"}}),
        ("nodes", {"metadata": {"name": "one"}}),
        ("resourceclaims", claim("one")),
        ("deployments", {"metadata": {"name": "one"}}),
        ("kubevirts", {"metadata": {"name": "one"}}),
    ],
)
def test_most_kinds_go_at_once_and_wait_for_finalizers(plural: str, document: Document) -> None:
    store = SmallStore()
    created = store.create(plural, document)
    store.kinds()
    assert remove(store, plural, "one").outcome is Outcome.DELETED
    assert (store.get(plural, "one"), store.kinds()) == (None, ["DELETED"])
    with pytest.raises(NotFoundError, match='"one" not found'):
        remove(store, plural, "one")
    held = {**document, "metadata": {"name": "one", "finalizers": ["example.com/wait"]}}
    store.create(plural, held)
    written = remove(store, plural, "one")
    metadata = body(written)["metadata"]
    assert written.outcome is Outcome.UPDATED
    assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]) == (
        "2030-01-01T00:00:00Z",
        0,
    )
    assert metadata.get("generation", 0) == (2 if created["metadata"].get("generation") else 0)
    store.advance(5)
    assert remove(store, plural, "one").outcome is Outcome.UNCHANGED


@pytest.mark.parametrize(
    ("spec", "phase", "asked", "outcome", "grace"),
    [
        ({}, "", None, Outcome.DELETED, 0),
        ({}, "", 60, Outcome.DELETED, 0),
        ({"nodeName": "n"}, "", None, Outcome.UPDATED, 30),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 5}, "", None, Outcome.UPDATED, 5),
        ({"nodeName": "n"}, "", 60, Outcome.UPDATED, 60),
        ({"nodeName": "n"}, "", -7, Outcome.UPDATED, 1),
        ({"nodeName": "n"}, "", 0, Outcome.DELETED, 0),
        ({"nodeName": "n"}, "Succeeded", None, Outcome.DELETED, 0),
        ({"nodeName": "n"}, "Failed", 60, Outcome.DELETED, 0),
        ({"nodeName": "n"}, "Running", None, Outcome.UPDATED, 30),
    ],
)
def test_pods_die_gracefully(
    spec: Document, phase: str, asked: int | None, outcome: Outcome, grace: int
) -> None:
    store = SmallStore()
    created = store.create("pods", pod(**spec))
    if phase:
        created["status"]["phase"] = phase
        stored = store.stored("pods", "web")
        store.run(lambda transaction: transaction.put(stored.key, stored.uid, created))
    store.kinds()
    written = remove(store, "pods", "web", grace_period_seconds=asked)
    metadata = body(written)["metadata"]
    assert (written.outcome, metadata["deletionGracePeriodSeconds"]) == (outcome, grace)
    assert metadata["deletionTimestamp"] == f"2030-01-01T00:{grace // 60:02}:{grace % 60:02}Z"
    assert metadata["generation"] == 2
    gone = outcome is Outcome.DELETED
    assert store.kinds() == (["MODIFIED", "DELETED"] if gone else ["MODIFIED"])
    assert (store.get("pods", "web") is None) is gone


@pytest.mark.parametrize("seconds", [2**33, 2**63 - 1])
def test_a_grace_may_be_longer_than_time_itself(seconds: int) -> None:
    store = SmallStore()
    cases: tuple[tuple[str, Document, Document], ...] = (
        ("a", {}, {"grace_period_seconds": seconds}),
        ("b", {"terminationGracePeriodSeconds": seconds}, {}),
    )
    for name, spec, options in cases:
        store.create("pods", pod(name, nodeName="n", **spec))
        metadata = body(remove(store, "pods", name, **options))["metadata"]
        assert metadata["deletionGracePeriodSeconds"] == seconds
        assert metadata["deletionTimestamp"] == "2166-02-07T06:28:16Z"
        sooner = body(remove(store, "pods", name, grace_period_seconds=5))["metadata"]
        assert sooner["deletionTimestamp"] == "2030-01-01T00:00:05Z"


def test_a_second_deletion_only_makes_it_sooner() -> None:
    store = SmallStore()
    store.create("pods", pod(nodeName="n"))
    remove(store, "pods", "web")
    store.advance(10)
    assert remove(store, "pods", "web").outcome is Outcome.UNCHANGED
    assert remove(store, "pods", "web", grace_period_seconds=40).outcome is Outcome.UNCHANGED
    sooner = body(remove(store, "pods", "web", grace_period_seconds=20))["metadata"]
    assert (sooner["deletionGracePeriodSeconds"], sooner["deletionTimestamp"]) == (20, "2030-01-01T00:00:20Z")
    assert sooner["generation"] == 2
    past = body(remove(store, "pods", "web", grace_period_seconds=5))["metadata"]
    assert (past["deletionGracePeriodSeconds"], past["deletionTimestamp"]) == (1, "2030-01-01T00:00:10Z")
    assert remove(store, "pods", "web", grace_period_seconds=0).outcome is Outcome.DELETED


def test_the_kubelets_last_word_waits_for_finalizers_only() -> None:
    store = SmallStore()
    store.create("pods", pod(nodeName="n") | {"metadata": {"name": "web", "finalizers": ["a/b"]}})
    written = remove(store, "pods", "web", grace_period_seconds=0)
    assert written.outcome is Outcome.UPDATED
    assert body(written)["metadata"]["deletionGracePeriodSeconds"] == 0


@pytest.mark.parametrize("plural", ["pods", "configmaps"])
def test_preconditions(plural: str) -> None:
    store = SmallStore()
    created = store.create(plural, pod("one") if plural == "pods" else {"metadata": {"name": "one"}})
    uid, version = created["metadata"]["uid"], created["metadata"]["resourceVersion"]
    kind = created["kind"]
    text = (
        f'Operation cannot be fulfilled on {kind} "one": the UID in the precondition (x) does not match the UID in '
        f"record ({uid}). The object might have been deleted and then recreated"
    )
    with pytest.raises(ConflictError, match=re.escape(text)):
        remove(store, plural, "one", preconditions=Preconditions(uid="x"))
    for other in ("1", str(int(version) - 1), str(int(version) + 1), str(int(version) + 1000)):
        text = f"the ResourceVersion in the precondition ({other}) does not match the ResourceVersion in record ({version})"
        with pytest.raises(ConflictError, match=re.escape(text)):
            remove(store, plural, "one", preconditions=Preconditions(resource_version=other))
    fine = Preconditions(uid=uid, resource_version=version)
    assert remove(store, plural, "one", preconditions=fine).outcome is Outcome.DELETED


@pytest.mark.parametrize(
    ("plural", "before", "options", "after"),
    [
        ("configmaps", [], {"propagation_policy": "Orphan"}, ["orphan"]),
        ("configmaps", [], {"propagation_policy": "Foreground"}, ["foregroundDeletion"]),
        ("configmaps", ["a/b"], {"propagation_policy": "Foreground"}, ["a/b", "foregroundDeletion"]),
        ("configmaps", ["orphan"], {"propagation_policy": "Foreground"}, ["foregroundDeletion"]),
        ("configmaps", ["orphan"], {"propagation_policy": "Background"}, None),
        ("configmaps", ["orphan"], {}, ["orphan"]),
        ("configmaps", [], {}, None),
        ("configmaps", [], {"orphan_dependents": True}, ["orphan"]),
        ("configmaps", ["foregroundDeletion"], {"orphan_dependents": False}, None),
        ("jobs", [], {}, ["orphan"]),
        ("jobs", [], {"propagation_policy": "Background"}, None),
        ("replicationcontrollers", [], {}, ["orphan"]),
        ("events", [], {"propagation_policy": "Foreground"}, None),
    ],
)
def test_propagation_becomes_finalizers(
    plural: str, before: list[str], options: Document, after: list[str] | None
) -> None:
    store = SmallStore()
    document: Document = {"metadata": {"name": "one", "finalizers": before}}
    if plural == "events":
        document["involvedObject"] = {"namespace": "default"}
    store.create(plural, document)
    written = remove(store, plural, "one", **options)
    assert (written.outcome is Outcome.DELETED) is (after is None)
    if after is not None:
        assert body(written)["metadata"]["finalizers"] == after


def test_a_scheduled_pod_in_the_foreground_has_both() -> None:
    store = SmallStore()
    store.create("pods", pod(nodeName="n"))
    metadata = body(remove(store, "pods", "web", propagation_policy="Foreground"))["metadata"]
    assert (metadata["finalizers"], metadata["deletionGracePeriodSeconds"]) == (["foregroundDeletion"], 30)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"propagation_policy": "Later"},
            'Unsupported value: "Later": supported values: "Foreground", "Background"',
        ),
        (
            {"propagation_policy": "Orphan", "orphan_dependents": True},
            "orphanDependents and deletionPropagation cannot be both set",
        ),
    ],
)
def test_options_that_make_no_sense(options: Document, text: str) -> None:
    store = SmallStore()
    store.create("configmaps", {"metadata": {"name": "one"}})
    with pytest.raises(InvalidError, match=re.escape(text)):
        remove(store, "configmaps", "one", **options)


@pytest.mark.parametrize("finalizers", [[], ["a/b"]])
def test_a_dry_run_deletes_nothing(finalizers: list[str]) -> None:
    store = SmallStore()
    created = store.create("configmaps", {"metadata": {"name": "one", "finalizers": finalizers}})
    written = remove(store, "configmaps", "one", dry_run=True)
    assert written.outcome is (Outcome.UPDATED if finalizers else Outcome.DELETED)
    assert store.get("configmaps", "one") == created


def test_a_namespace_is_marked_and_waits_for_its_finalizers() -> None:
    store = SmallStore()
    store.create("namespaces", {"metadata": {"name": "one"}})
    written = remove(store, "namespaces", "one")
    marked = body(written)
    assert written.outcome is Outcome.UPDATED
    assert marked["status"]["phase"] == "Terminating"
    assert marked["metadata"]["deletionTimestamp"] == "2030-01-01T00:00:00Z"
    assert remove(store, "namespaces", "one").outcome is Outcome.UNCHANGED


def test_a_namespace_has_words_of_its_own_for_preconditions() -> None:
    store = SmallStore()
    store.create("namespaces", {"metadata": {"name": "one"}})
    text = 'on namespaces "one": Precondition failed: UID in precondition: x, UID in object meta: '
    with pytest.raises(ConflictError, match=text):
        remove(store, "namespaces", "one", preconditions=Preconditions(uid="x"))


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_some_namespaces_stay(name: str) -> None:
    with pytest.raises(
        DeniedError, match=f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    ):
        remove(SmallStore(), "namespaces", name)
