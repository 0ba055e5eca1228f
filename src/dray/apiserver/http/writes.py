"""One write as a decision over a transaction: which door it goes through, and whether this client may change this object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from dray.apiserver.access.authorize import check_change, is_checked_by_change
from dray.apiserver.access.identity import Identity
from dray.apiserver.access.roles import Asked
from dray.apiserver.forms import PLAIN, Form
from dray.apiserver.http.bodies import YAML, document_of
from dray.apiserver.http.options import ListOptions
from dray.apiserver.http.paths import Place
from dray.apiserver.patching.apply.apply import applied
from dray.apiserver.patching.entry import APPLY_PATCH, patched
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Index, Key, Lookup, Stored, Transaction
from dray.apiserver.writing.create import create
from dray.apiserver.writing.faults import not_found
from dray.apiserver.writing.kinds.allocations import POOLS, pool_key
from dray.apiserver.writing.kinds.binding import bind
from dray.apiserver.writing.kinds.scale import update_scale
from dray.apiserver.writing.metadata import MAX_OBJECT_BYTES
from dray.apiserver.writing.removing.collection import delete_collection
from dray.apiserver.writing.removing.delete import delete
from dray.apiserver.writing.removing.eviction import evict
from dray.apiserver.writing.removing.grace import DeleteOptions
from dray.apiserver.writing.request import Write, Written
from dray.apiserver.writing.update import Changing, finalize, update, update_status
from dray.runtime.http_server import RequestError

_NOT_ALLOWED = "the server does not allow this method on the requested resource"
_SCALE = "autoscaling/v1/Scale"
BY_NODE = "node"


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: Any = None


class _OfNode(msgspec.Struct, frozen=True):
    spec: _Spec | None = None


_decode_of_node = msgspec.json.Decoder(_OfNode).decode


def _node_of(stored: Stored) -> Iterable[str]:
    """Asked at every write of a pod: the rest of the object is passed over, not read."""
    try:
        found = _decode_of_node(stored.raw).spec
    except msgspec.ValidationError:
        return ()
    node = found.node_name if found is not None else None
    return (node,) if isinstance(node, str) and node else ()


INDEXES = (Index(f"pods by {BY_NODE}", "pods", _node_of),)


class ClusterView:
    """What the rules about nodes ask: of the durable state for a request, inside the transaction for a change."""

    def __init__(self, objects: Lookup) -> None:
        self._objects = objects

    def pods_of(self, node: str) -> Iterator[Mapping[str, Any]]:
        """The pods bound to it."""
        for one in self._objects.indexed(INDEXES[0].name, node):
            yield msgspec.json.decode(one.raw)

    def publishers_of(self, driver: str, pool: str) -> set[str]:
        """The nodes of which the pool has slices; "" stands for slices of no single node."""
        found = self._objects.indexed(POOLS.name, pool_key(driver, pool))
        return {next(iter(_node_of(one)), "") for one in found}

    def get(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        """One object."""
        found = self._objects.get(Key(resource, namespace, name))
        return None if found is None else msgspec.json.decode(found.raw)


@dataclass(frozen=True, slots=True)
class Body:
    """What came with the request. `force` is an apply's."""

    data: bytes
    content_type: str
    force: bool = False

    @property
    def is_apply(self) -> bool:
        """Whether a PATCH with it is a server-side apply."""
        return self.content_type.partition(";")[0].strip() == APPLY_PATCH


def decide(
    transaction: Transaction, write: Write, place: Place, asked: Asked, identity: Identity, body: Body
) -> Written:
    """POST, PUT and PATCH of one object. A refusal leaves no trace: the transaction is dropped."""
    before = transaction.get(write.key) if write.name else None
    written = _written(transaction, write, place, asked.verb, body)
    if is_checked_by_change(identity):
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
        return doors[door](transaction, write, document if door else place.form.inward(document))
    if not place.name:
        raise RequestError(405, _NOT_ALLOWED)
    if door == "scale":
        if body.is_apply:
            raise RequestError(415, "apply is not served for this subresource: use another kind of patch")
        return update_scale(transaction, write, _change(write, place, body, _SCALE, PLAIN, verb))
    change = _change(write, place, body, _kind(place), place.form, verb)
    if not door:
        return update(transaction, write, change, creates=write.is_apply)
    doors_of_change: dict[str, Callable[[Transaction, Write, Changing], Written]] = {
        "status": update_status,
        "finalize": finalize,
    }
    if door not in doors_of_change:
        raise RequestError(405, _NOT_ALLOWED)
    return doors_of_change[door](transaction, write, change)


def _kind(place: Place) -> str:
    return f"{place.served.api_version(place.version)}/{place.served.resource.kind}"


def _change(write: Write, place: Place, body: Body, kind: str, form: Form, verb: str) -> Changing:
    """What the request makes of a stored document; a client sees and changes it in the form of the place."""
    if verb == "update":
        wanted = document_of(body.data, body.content_type)
        return lambda _: form.inward(wanted)
    if body.is_apply:
        return _apply(write, place, body)

    def change(current: Document | None) -> Any:
        if current is None:  # also of a kind that a PUT makes
            raise not_found(write.served, write.name)
        return form.inward(patched(kind, body.content_type, form.outward(current), body.data))

    return change


def _apply(write: Write, place: Place, body: Body) -> Changing:
    if len(body.data) > MAX_OBJECT_BYTES:
        # Before its fields are compared: the object would be refused after that.
        text = f"the configuration has {len(body.data)} bytes, the limit is {MAX_OBJECT_BYTES}"
        raise RequestError(413, f"Request entity too large: {text}")
    try:
        wanted = document_of(body.data, YAML)
    except RequestError as error:
        raise RequestError(400, f"error decoding YAML: {error}") from None
    if not isinstance(wanted, dict):
        raise RequestError(400, "error decoding YAML: the patch must be an object")
    served = write.served
    versions = [served.api_version(version) for version in served.versions]
    patch = place.form.inward(wanted)

    def change(current: Document | None) -> Any:
        door, kind = place.subresource, served.resource
        return applied(kind, current, patch, write.manager, body.force, door, write.now, versions)

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
