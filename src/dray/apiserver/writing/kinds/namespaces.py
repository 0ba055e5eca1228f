"""Namespaces: who may write into one, how one is deleted, and the ones that are always there."""

from __future__ import annotations

from typing import Final

from dray.api.codec import decode
from dray.api.core import Namespace
from dray.api.kinds import NAMESPACES
from dray.api.meta import format_time
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Key, Stored, Transaction
from dray.apiserver.writing import faults
from dray.apiserver.writing.faults import TerminatingError
from dray.apiserver.writing.names import shown_name
from dray.apiserver.writing.removing import grace
from dray.apiserver.writing.removing.grace import DeleteOptions
from dray.apiserver.writing.request import Write, Written, document_of, remove, replace
from dray.errors import NotFoundError

TERMINATING: Final = "Terminating"
IMMORTAL: Final = ("default", "kube-system", "kube-public")
"""Nobody may delete these."""
ALWAYS_THERE: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
"""A server creates these when it starts."""


def namespace_key(name: str) -> Key:
    """Where a namespace is kept."""
    return Key(str(NAMESPACES), "", name)


def find_namespace(transaction: Transaction, name: str) -> Namespace:
    """The namespace, which must exist."""
    stored = transaction.get(namespace_key(name))
    if stored is None:
        raise NotFoundError(f'namespaces "{name}" not found', kind="namespaces", name=name)
    return decode(stored.raw, Namespace)


def check_create(transaction: Transaction, write: Write, document: Document) -> None:
    """Nothing new goes into a namespace that is missing or on its way out."""
    if not write.served.resource.namespaced:
        return
    if find_namespace(transaction, write.namespace).status.phase == TERMINATING:
        why = f"unable to create new content in namespace {write.namespace} because it is being terminated"
        name = shown_name(document["metadata"])
        text = f'{write.served.resource} "{name}" is forbidden: {why}'
        raise TerminatingError(text, faults.about(write.served.resource, name), namespace=write.namespace)


def delete_namespace(
    transaction: Transaction, write: Write, stored: Stored, options: DeleteOptions
) -> Written:
    """The first deletion marks it; its content and `spec.finalizers` go before it can go itself."""
    if write.name in IMMORTAL:
        raise faults.denied(write.served.resource, write.name, "this namespace may not be deleted")
    document = document_of(stored)
    metadata = document["metadata"]
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = format_time(write.now)
        document["status"] = (document.get("status") or {}) | {"phase": TERMINATING}
        grace.set_finalizers(metadata, grace.finalizers_after(metadata, options, write.served))
        return replace(transaction, write, stored, document)
    if holds_on(document) or metadata.get("finalizers"):
        return replace(transaction, write, stored, document)
    return remove(transaction, write, stored)


def holds_on(document: Document) -> bool:
    """Whether a namespace still has finalizers of its own kind, in its spec."""
    return bool((document.get("spec") or {}).get("finalizers"))
