"""Documents of any form through every door: refused or stored, never an error of another kind."""

from __future__ import annotations

import copy
import dataclasses
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from dray.apiserver.patching.apply.apply import applied
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Transaction
from dray.apiserver.writing.create import create
from dray.apiserver.writing.kinds.binding import bind
from dray.apiserver.writing.kinds.scale import update_scale
from dray.apiserver.writing.removing.collecting import collect
from dray.apiserver.writing.removing.delete import delete
from dray.apiserver.writing.removing.eviction import evict
from dray.apiserver.writing.request import Write, Written
from dray.apiserver.writing.update import finalize, update, update_status
from dray.errors import Error
from tests.apiserver.custom.definitions import definition
from tests.apiserver.writing.small_store import SmallStore, claim, pod, result
from tests.campaign import campaign, seeded

ODD: list[Any] = [
    None,
    0,
    -1,
    2**70,
    1.5,
    "",
    "x",
    "é\n",
    "2030-01-01T00:00:00Z",
    True,
    [],
    [None],
    {},
    {"a": {}},
]
FULL_METADATA: Document = {
    "name": "one",
    "generateName": "one-",
    "labels": {"a": "b"},
    "annotations": {"a": "b"},
    "finalizers": ["example.com/wait"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}],
    "generation": 1,
    "deletionGracePeriodSeconds": 0,
    "managedFields": [],
}
STATUS = {"allocation": {"devices": {"results": [result()]}}, "reservedFor": [], "devices": []}
OBJECTS: dict[str, Document] = {
    "pods": pod(tolerations=[{"operator": "Exists"}], schedulingGates=[{"name": "a"}], priorityClassName="c"),
    "resourceclaims": claim(tolerations=[{"operator": "Exists"}]) | {"status": STATUS},
    "resourceslices": {
        "spec": {"driver": "d", "pool": {"name": "n"}, "devices": [{"name": "a", "taints": [{}]}]}
    },
    "devicetaintrules": {"spec": {"taint": {"key": "a/b", "effect": "None"}, "deviceSelector": {}}},
    "namespaces": {"spec": {"finalizers": ["a/b"]}, "status": {"phase": "Active"}},
    "nodes": {"spec": {"taints": [{"key": "a"}]}, "status": {"capacity": {"cpu": "1"}, "conditions": [{}]}},
    "events": {"involvedObject": {"namespace": "default"}, "eventTime": None, "count": 1},
    "configmaps": {"data": {"a": "b"}, "binaryData": {"c": "ZA=="}, "immutable": False},
    "leases": {"spec": {"leaseDurationSeconds": 1, "renewTime": "2030-01-01T00:00:00.000000Z"}},
    "deployments": {
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "c"}], "volumes": [{}]}}},
        "status": {"replicas": 1},
    },
    "statefulsets": {"spec": {"updateStrategy": {"rollingUpdate": {}}, "template": {}}},
    "jobs": {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}, "selector": {"matchLabels": {}}}},
    "services": {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}, "clusterIP": ""}},
    "secrets": {"stringData": {"a": "b"}, "data": {"c": "ZA=="}},
    "rolebindings": {"roleRef": {"kind": "Role"}, "subjects": [{"kind": "User", "name": "x"}]},
    "customresourcedefinitions": definition(),
    "priorityclasses": {"value": 1, "globalDefault": True},
    "poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
}


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    below = [place for _, item in pairs if isinstance(item, dict | list) for place in places(item)]
    return [(value, key) for key, _ in pairs] + below


def spoiled(document: Document, chance: random.Random) -> Document:
    new = copy.deepcopy(document)
    for _ in range(chance.randint(0, 2)):
        holder, key = chance.choice(places(new))
        holder[key] = copy.deepcopy(chance.choice(ODD))
    return new


def doors(document: Document) -> list[Callable[[Transaction, Write], Written]]:
    return [
        lambda transaction, write: create(transaction, write, document),
        lambda transaction, write: update(transaction, write, lambda old: document),
        lambda transaction, write: update_status(transaction, write, lambda old: document),
        lambda transaction, write: finalize(transaction, write, lambda old: document),
        lambda transaction, write: bind(transaction, write, document),
        lambda transaction, write: evict(transaction, write, document),
        delete,
        lambda transaction, write: update_scale(transaction, write, lambda old: document),
        lambda transaction, write: applying(transaction, write, document),
    ]


def applying(transaction: Transaction, write: Write, document: Document) -> Written:
    """A server-side apply, as the HTTP side puts it together."""
    kind = write.served.resource
    patch = {"apiVersion": kind.api_version, "kind": kind.kind, **document}
    if isinstance(patch["metadata"], dict):
        patch["metadata"].pop("managedFields", None)
    write = dataclasses.replace(write, manager="applier", is_apply=True)

    def change(old: Document | None) -> Document:
        return applied(kind, old, patch, "applier", True, "", write.now)

    return update(transaction, write, change, creates=True)


def is_there(door: int, plural: str, store: SmallStore) -> bool:
    """Whether a kind has this door; the main ones all have."""
    if door == 2:
        return store.write(plural).served.resource.has_status
    return plural == {3: "namespaces", 4: "pods", 5: "pods", 7: "deployments"}.get(door, plural)


def attempt(store: SmallStore, chance: random.Random) -> str:
    """One write through one door, and the garbage collector after it."""
    plural, door = chance.choice(sorted(OBJECTS)), chance.choice([0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 8])
    if not is_there(door, plural, store):
        return ""
    name = OBJECTS[plural].get("metadata", {}).get("name", "one")
    metadata = dict(chance.sample(sorted(FULL_METADATA.items()), 4)) | {"name": name}
    document = spoiled({**OBJECTS[plural], "metadata": metadata}, chance)
    write = dataclasses.replace(
        store.write(plural, "" if door == 0 else name), manager=chance.choice(("", "me"))
    )
    through = doors(document)[door]
    try:
        outcome = str(store.run(lambda transaction: through(transaction, write)).outcome)
    except Error as error:
        outcome = type(error).__name__

    def collect_all(transaction: Transaction) -> None:
        for key in sorted(store.objects):
            collect(transaction, store.rules, key, store.now)

    store.run(collect_all)
    return outcome


def test_nothing_breaks_a_write() -> None:
    chance, store = seeded(11), SmallStore()
    outcomes = Counter[str]()
    for number in range(campaign(1000, 100_000)):
        store = SmallStore() if number % 200 == 0 else store
        outcomes[attempt(store, chance)] += 1
    expected = {"Created", "Updated", "Deleted", "ObjectInvalidError", "BadRequestError", "NotFoundError"}
    assert expected <= {*outcomes}, outcomes
