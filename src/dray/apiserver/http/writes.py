"""One write as a decision over a transaction: which door it goes through, and whether this client may change this object."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from dray.apiserver.access.authorize import check_change
from dray.apiserver.access.identity import Identity
from dray.apiserver.access.roles import Asked
from dray.apiserver.http.bodies import document_of
from dray.apiserver.http.failures import RequestError
from dray.apiserver.http.options import ListOptions
from dray.apiserver.http.paths import Place
from dray.apiserver.patching.entry import APPLY_PATCH, patched
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Index, Key, Stored, Transaction
from dray.apiserver.writing.binding import bind
from dray.apiserver.writing.collection import delete_collection
from dray.apiserver.writing.create import create
from dray.apiserver.writing.delete import delete
from dray.apiserver.writing.eviction import evict
from dray.apiserver.writing.grace import DeleteOptions
from dray.apiserver.writing.request import Write, Written
from dray.apiserver.writing.update import Changing, finalize, update, update_status

_NOT_ALLOWED = "the server does not allow this method on the requested resource"
BY_NODE = "node"


def _node_of(stored: Stored) -> Iterable[str]:
    found = msgspec.json.decode(stored.raw).get("spec")
    node = found.get("nodeName") if isinstance(found, dict) else None
    return (node,) if isinstance(node, str) and node else ()


INDEXES = (
    Index(f"pods by {BY_NODE}", "pods", _node_of),
    Index(f"slices by {BY_NODE}", "resourceslices.resource.k8s.io", _node_of),
)


class ClusterView:
    """What the rules about nodes ask, as the transaction sees it."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def pods_of(self, node: str) -> Iterator[Mapping[str, Any]]:
        """The pods bound to it."""
        for one in self._transaction.indexed(INDEXES[0].name, node):
            yield msgspec.json.decode(one.raw)

    def drivers_of(self, node: str) -> Collection[str]:
        """The drivers that have slices for it."""
        slices = self._transaction.indexed(INDEXES[1].name, node)
        return {str(msgspec.json.decode(one.raw)["spec"].get("driver", "")) for one in slices}

    def get(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        """One object."""
        found = self._transaction.get(Key(resource, namespace, name))
        return None if found is None else msgspec.json.decode(found.raw)


@dataclass(frozen=True, slots=True)
class Body:
    """What came with the request."""

    data: bytes
    content_type: str


def decide(
    transaction: Transaction, write: Write, place: Place, asked: Asked, identity: Identity, body: Body
) -> Written:
    """POST, PUT and PATCH of one object. A refusal leaves no trace: the transaction is dropped."""
    before = transaction.get(write.key) if write.name else None
    written = _written(transaction, write, place, asked.verb, body)
    old = None if before is None else msgspec.json.decode(before.raw)
    check_change(identity, asked, old, msgspec.json.decode(written.raw), ClusterView(transaction))
    return written


def _written(transaction: Transaction, write: Write, place: Place, verb: str, body: Body) -> Written:
    door = place.subresource
    if verb == "create":
        document = document_of(body.data, body.content_type)
        doors = {"": create, "binding": bind, "eviction": evict}
        if door not in doors or (not door and place.name):
            raise RequestError(405, _NOT_ALLOWED)
        return doors[door](transaction, write, document)
    doors_of_change: dict[str, Callable[[Transaction, Write, Changing], Written]] = {
        "": update,
        "status": update_status,
        "finalize": finalize,
    }
    if door not in doors_of_change or not place.name:
        raise RequestError(405, _NOT_ALLOWED)
    return doors_of_change[door](transaction, write, _change(place, verb, body))


def _change(place: Place, verb: str, body: Body) -> Changing:
    if verb == "update":
        wanted = document_of(body.data, body.content_type)
        return lambda _: wanted
    if body.content_type.partition(";")[0].strip() == APPLY_PATCH:
        raise RequestError(415, "server-side apply is not served yet: use another kind of patch")
    kind = f"{place.served.api_version(place.version)}/{place.served.resource.kind}"

    def change(current: Document | None) -> Any:
        return patched(kind, body.content_type, current or {}, body.data)

    return change


def decide_delete(
    transaction: Transaction, write: Write, asked: Asked, identity: Identity, options: DeleteOptions
) -> Written:
    """DELETE of one object."""
    before = transaction.get(write.key)
    written = delete(transaction, write, options)
    old = None if before is None else msgspec.json.decode(before.raw)
    check_change(identity, asked, old, None, ClusterView(transaction))
    return written


def decide_delete_all(
    transaction: Transaction,
    write: Write,
    asked: Asked,
    identity: Identity,
    options: DeleteOptions,
    wanted: ListOptions,
) -> list[Document]:
    """DELETE of a collection; gives what was deleted, as it was last."""
    done = delete_collection(
        transaction, write, options, labels=wanted.select.labels, fields=wanted.select.fields
    )
    found = [msgspec.json.decode(one.raw) for one in done]
    for one in found:
        check_change(identity, asked, one, None, ClusterView(transaction))
    return found
