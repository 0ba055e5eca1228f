from __future__ import annotations

import re
from typing import Any

import pytest

from dray.apiserver.served import Document
from dray.apiserver.writing.faults import BadRequestError, TooManyRequestsError
from dray.apiserver.writing.removing.eviction import evict
from dray.apiserver.writing.request import Outcome, Written
from dray.errors import ConflictError, DeniedError, Error
from tests.apiserver.writing.small_store import SmallStore, body, pod


def evicted(store: SmallStore, name: str = "web-0", *, dry_run: bool = False, **options: Any) -> Written:
    eviction: Document = {"metadata": {"name": name}}
    if options:
        eviction["deleteOptions"] = options
    write = store.write("pods", name, dry_run=dry_run)
    return store.run(lambda transaction: evict(transaction, write, eviction))


def cluster(ready: int, unready: int = 0, budget: Document | None = None, **status: Any) -> SmallStore:
    """Pods web-0, web-1, … on a node, the first of them ready; and a budget over them."""
    store = SmallStore()
    for number in range(ready + unready):
        document = pod(f"web-{number}", nodeName="n")
        document["metadata"]["labels"] = {"app": "web"}
        created = store.create("pods", document)
        is_ready = "True" if number < ready else "False"
        created["status"] |= {"phase": "Running", "conditions": [{"type": "Ready", "status": is_ready}]}
        overwrite(store, "pods", created)
    if budget is not None:
        spec = {"selector": {"matchLabels": {"app": "web"}}, **budget}
        add_budget(store, "web", spec, status)
    return store


def overwrite(store: SmallStore, plural: str, document: Document) -> None:
    stored = store.stored(plural, document["metadata"]["name"])
    store.run(lambda transaction: transaction.put(stored.key, stored.uid, document))


def add_budget(store: SmallStore, name: str, spec: Document, status: Document) -> None:
    created = store.create("poddisruptionbudgets", {"metadata": {"name": name}, "spec": spec})
    if status:
        overwrite(store, "poddisruptionbudgets", created | {"status": status})


def test_without_a_budget_it_is_a_deletion_that_says_why() -> None:
    store = cluster(1)
    written = evicted(store)
    after = body(written)
    assert written.outcome is Outcome.UPDATED
    assert after["metadata"]["deletionGracePeriodSeconds"] == 30
    condition = after["status"]["conditions"][-1]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "EvictionByEvictionAPI")


def test_options_and_preconditions_reach_the_deletion() -> None:
    store = cluster(1)
    with pytest.raises(ConflictError, match="the UID in the precondition"):
        evicted(store, preconditions={"uid": "other"})
    version = str(store.stored("pods", "web-0").revision)
    written = evicted(store, preconditions={"resourceVersion": version}, gracePeriodSeconds=0)
    assert written.outcome is Outcome.DELETED


@pytest.mark.parametrize("by_options", [False, True])
def test_a_dry_run_evicts_nothing(by_options: bool) -> None:
    store = cluster(1)
    before = store.get("pods", "web-0")
    if by_options:
        evicted(store, dryRun=["All"])
    else:
        evicted(store, dry_run=True)
    assert store.get("pods", "web-0") == before


@pytest.mark.parametrize(
    ("budget", "ready", "unready", "allowed"),
    [
        ({"minAvailable": 2}, 3, 0, 1),
        ({"minAvailable": 3}, 3, 0, 0),
        ({"minAvailable": "50%"}, 3, 0, 1),
        ({"maxUnavailable": 1}, 3, 0, 1),
        ({"maxUnavailable": 0}, 3, 0, 0),
        ({"maxUnavailable": 2}, 2, 1, 1),
        ({"maxUnavailable": "34%"}, 3, 0, 2),
        ({"maxUnavailable": "some"}, 3, 0, 0),
        ({"minAvailable": "some"}, 3, 0, 0),
    ],
)
def test_without_a_controller_pods_are_counted(
    budget: Document, ready: int, unready: int, allowed: int
) -> None:
    store = cluster(ready, unready, budget)
    done = 0
    for number in range(ready):
        try:
            evicted(store, f"web-{number}")
            done += 1
        except TooManyRequestsError as error:
            assert str(error) == "Cannot evict pod as it would violate the pod's disruption budget."
            assert "The disruption budget web needs" in error.causes[0].message
    assert done == allowed


def test_a_budget_that_a_controller_keeps_is_believed_and_charged() -> None:
    store = cluster(
        3,
        0,
        {"minAvailable": 3},
        observedGeneration=1,
        disruptionsAllowed=1,
        currentHealthy=4,
        desiredHealthy=3,
    )
    evicted(store)
    kept = store.get("poddisruptionbudgets", "web")
    assert kept is not None
    assert kept["status"]["disruptionsAllowed"] == 0
    assert kept["status"]["disruptedPods"] == {"web-0": "2030-01-01T00:00:00Z"}
    with pytest.raises(TooManyRequestsError):
        evicted(store, "web-1")


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        (
            {"observedGeneration": 1, "disruptionsAllowed": -1},
            DeniedError,
            "pdb disruptions allowed is negative",
        ),
        ({"observedGeneration": 1, "currentHealthy": 1}, TooManyRequestsError, "would violate"),
    ],
)
def test_a_budget_that_is_used_up(status: Document, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        evicted(cluster(1, 0, {"minAvailable": 0}, **status))


def test_a_budget_that_the_controller_has_not_seen() -> None:
    store = cluster(1, 0, {"minAvailable": 0}, observedGeneration=1, disruptionsAllowed=5)
    document = store.get("poddisruptionbudgets", "web")
    assert document is not None
    document["metadata"]["generation"] = 2
    overwrite(store, "poddisruptionbudgets", document)
    with pytest.raises(TooManyRequestsError) as caught:
        evicted(store)
    assert caught.value.retry_after == 10
    assert (
        caught.value.causes[0].message == "The disruption budget web is still being processed by the server."
    )


@pytest.mark.parametrize(
    ("policy", "ready", "goes"),
    [("AlwaysAllow", 0, True), ("IfHealthyBudget", 0, False), ("IfHealthyBudget", 1, True), (None, 1, True)],
)
def test_a_sick_pod_costs_nothing(policy: str | None, ready: int, goes: bool) -> None:
    budget = {"minAvailable": 1, **({"unhealthyPodEvictionPolicy": policy} if policy else {})}
    store = cluster(ready, 1, budget)
    if goes:
        assert evicted(store, f"web-{ready}").outcome is Outcome.UPDATED
        return
    with pytest.raises(TooManyRequestsError):
        evicted(store, f"web-{ready}")


def test_budgets_are_not_asked_about_pods_that_do_not_run() -> None:
    store = cluster(1, 0, {"minAvailable": 1})
    pending = pod("late")
    pending["metadata"]["labels"] = {"app": "web"}
    store.create("pods", pending)
    assert evicted(store, "late").outcome is Outcome.DELETED


def test_two_budgets_are_one_too_many() -> None:
    store = cluster(1, 0, {"minAvailable": 0})
    add_budget(store, "other", {"selector": {}, "minAvailable": 0}, {})
    with pytest.raises(Error, match="more than one PodDisruptionBudget"):
        evicted(store)


@pytest.mark.parametrize("spec", [{"selector": {"matchLabels": {"app": "db"}}}, {}])
def test_budgets_about_others_do_not_count(spec: Document) -> None:
    store = cluster(1)
    add_budget(store, "other", {"minAvailable": 9, **spec}, {})
    assert evicted(store).outcome is Outcome.UPDATED


@pytest.mark.parametrize(
    ("eviction", "text"),
    [
        ({"metadata": {"name": "x"}}, "name in URL does not match name in Eviction object"),
        ({"deleteOptions": 5}, 'Eviction in version "v1" cannot be handled as a Eviction: deleteOptions'),
    ],
)
def test_evictions_that_make_no_sense(eviction: Document, text: str) -> None:
    store = cluster(1)
    with pytest.raises(BadRequestError, match=re.escape(text)):
        store.run(lambda transaction: evict(transaction, store.write("pods", "web-0"), eviction))
