"""A small store for tests of single writes: a dict, one revision for each change, and indexes by looking at everything."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeVar

from dray.api.codec import encode, loads
from dray.apiserver.served import Document, Served, standard
from dray.apiserver.store.contract import Change, ChangeKind, Index, Key, Stored, Transaction
from dray.apiserver.writing import indexes
from dray.apiserver.writing.create import create
from dray.apiserver.writing.removing.emptying import create_namespaces
from dray.apiserver.writing.request import FieldValidation, Rules, Write, Written

T = TypeVar("T")
START = datetime(2030, 1, 1, tzinfo=UTC)


class SmallTransaction:
    def __init__(self, objects: dict[Key, Stored], revision: int, found: dict[str, Index]) -> None:
        self.objects = dict(objects)
        self.last = revision
        self.changes: list[Change] = []
        self._indexes = found

    @property
    def revision(self) -> int:
        return self.last + 1

    def get(self, key: Key) -> Stored | None:
        return self.objects.get(key)

    def list(self, resource: str, namespace: str = "") -> tuple[Stored, ...]:
        return tuple(
            self.objects[key]
            for key in sorted(self.objects)
            if key.resource == resource and (not namespace or key.namespace == namespace)
        )

    def indexed(self, name: str, value: str) -> tuple[Stored, ...]:
        index = self._indexes[name]
        resources = [index.resource] if index.resource else sorted({key.resource for key in self.objects})
        return tuple(one for place in resources for one in self.list(place) if value in index.values(one))

    def put(self, key: Key, uid: str, document: dict[str, Any]) -> Stored:
        self.last += 1
        raw = encode(document | {"metadata": document["metadata"] | {"resourceVersion": str(self.last)}})
        old, new = self.objects.get(key), Stored(key, uid, self.last, raw)
        self.objects[key] = new
        kind = ChangeKind.ADDED if old is None else ChangeKind.MODIFIED
        self.changes.append(Change(kind, self.last, new, old))
        return new

    def delete(self, key: Key) -> Stored:
        self.last += 1
        old = self.objects.pop(key)
        document = loads(old.raw)
        document["metadata"]["resourceVersion"] = str(self.last)
        gone = Stored(key, old.uid, self.last, encode(document))
        self.changes.append(Change(ChangeKind.DELETED, self.last, gone, old))
        return gone


class SmallStore:
    """With the namespaces that are always there, a clock that is moved by hand, and uids that count."""

    def __init__(self) -> None:
        numbers = count(1)
        self.rules = Rules(new_uid=lambda: f"00000000-0000-4000-8000-{next(numbers):012}")
        self.objects: dict[Key, Stored] = {}
        self.revision = 1
        self.now = START
        self.changes: list[Change] = []
        self._indexes = {index.name: index for index in indexes()}
        self.run(lambda transaction: create_namespaces(transaction, self.rules, self.now))
        self.changes.clear()

    def run(self, decide: Callable[[Transaction], T]) -> T:
        transaction = SmallTransaction(self.objects, self.revision, self._indexes)
        result = decide(transaction)
        self.objects, self.revision = transaction.objects, transaction.last
        self.changes += transaction.changes
        return result

    def write(
        self,
        plural: str,
        name: str = "",
        namespace: str = "default",
        *,
        dry_run: bool = False,
        validation: FieldValidation = FieldValidation.IGNORE,
    ) -> Write:
        served = served_as(plural)
        namespace = namespace if served.resource.namespaced else ""
        return Write(self.rules, served, namespace, name, self.now, dry_run, validation)

    def create(self, plural: str, document: Document, namespace: str = "default") -> Document:
        write = self.write(plural, namespace=namespace)
        return body(self.run(lambda transaction: create(transaction, write, document)))

    def get(self, plural: str, name: str, namespace: str = "default") -> Document | None:
        stored = self.objects.get(served_as(plural).key(namespace, name))
        found: Document | None = None if stored is None else loads(stored.raw)
        return found

    def stored(self, plural: str, name: str, namespace: str = "default") -> Stored:
        return self.objects[served_as(plural).key(namespace, name)]

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def kinds(self) -> list[str]:
        """What watchers would have seen since the last call."""
        seen = [str(change.kind) for change in self.changes]
        self.changes.clear()
        return seen


def served_as(plural: str) -> Served:
    """The resource of this plural name; of core events, not the others."""
    return next(one for one in standard().all if one.resource.plural == plural)


def body(written: Written) -> Document:
    found: Document = loads(written.raw)
    return found


def pod(name: str = "web", **spec: Any) -> Document:
    containers = [{"name": "main", "image": "busybox:1"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def claim(name: str = "gpu", **extra: Any) -> Document:
    exactly = {"deviceClassName": "gpu.example.com", **extra}
    requests = [{"name": "one", "exactly": exactly}]
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}


def result(device: str = "gpu-0", **extra: Any) -> Document:
    return {
        "request": "one",
        "driver": "gpu.example.com",
        "pool": "node-1",
        "device": device,
        **extra,
    }
