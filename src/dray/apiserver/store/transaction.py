"""One decision's view of the store: the newest state, and its own changes on top."""

from __future__ import annotations

from typing import Any

from dray.api.codec import encode, loads
from dray.apiserver.store.contract import Change, ChangeKind, Key, Stored
from dray.apiserver.store.memory import Indexes, Layer, State, Step, in_order
from dray.errors import InvariantError


class Counter:
    """The last revision that was given, to whomever; those of dropped changes are not given again."""

    def __init__(self, given: int) -> None:
        self.given = given

    def take(self) -> int:
        """The next one."""
        self.given += 1
        return self.given


class OpenTransaction:
    """A `Transaction`; `steps` are its changes, in order. `close` ends its use."""

    def __init__(self, below: State, counter: Counter, indexes: Indexes) -> None:
        self.steps: list[Step] = []
        self._layer = Layer(below)
        self._counter = counter
        self._indexes = indexes
        self._open = True

    def close(self) -> None:
        """Refuse every further call: the state may move on."""
        self._open = False

    @property
    def revision(self) -> int:
        """The next one to be given."""
        self._check_open()
        return self._counter.given + 1

    def get(self, key: Key) -> Stored | None:
        """The object, or None."""
        self._check_open()
        return self._layer.get(key)

    def list(self, resource: str, namespace: str = "") -> tuple[Stored, ...]:
        """The objects in order."""
        self._check_open()
        return self._layer.list(resource, namespace)

    def indexed(self, name: str, value: str) -> tuple[Stored, ...]:
        """The objects with that entry, in order."""
        self._check_open()
        return in_order(self._layer.indexed(name, value))

    def put(self, key: Key, uid: str, document: dict[str, Any]) -> Stored:
        """Create or replace."""
        self._check_open()
        if "/" in key.name or "/" in key.namespace or not (key.resource and key.name):
            raise InvariantError(f"{key} is no place for an object: it was not validated")
        old = self._layer.get(key)
        revision = self._counter.take()
        new = Stored(key, uid, revision, encode(_with_revision(document, revision)))
        kind = ChangeKind.ADDED if old is None else ChangeKind.MODIFIED
        return self._add(Step(Change(kind, revision, new, old), self._indexes.terms(new)))

    def delete(self, key: Key) -> Stored:
        """Remove."""
        self._check_open()
        old = self._layer.get(key)
        if old is None:
            raise InvariantError(f"{key} is deleted but not there")
        revision = self._counter.take()
        new = Stored(key, old.uid, revision, encode(_with_revision(loads(old.raw), revision)))
        return self._add(Step(Change(ChangeKind.DELETED, revision, new, old), ()))

    def _add(self, step: Step) -> Stored:
        self._layer.apply(step)
        self.steps.append(step)
        return step.change.new

    def _check_open(self) -> None:
        if not self._open:
            raise InvariantError("a transaction is used after its decision was taken")


def _with_revision(document: dict[str, Any], revision: int) -> dict[str, Any]:
    metadata = {**(document.get("metadata") or {}), "resourceVersion": str(revision)}
    return {**document, "metadata": metadata}
