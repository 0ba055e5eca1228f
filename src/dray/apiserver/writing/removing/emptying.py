"""Namespaces over their life beyond single writes: those that are always there, and the end of one that is deleted."""

from __future__ import annotations

from datetime import datetime

from dray.api.kinds import NAMESPACES
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Transaction
from dray.apiserver.writing.create import create
from dray.apiserver.writing.kinds.namespaces import ALWAYS_THERE, namespace_key
from dray.apiserver.writing.removing.collection import delete_collection
from dray.apiserver.writing.removing.grace import DeleteOptions
from dray.apiserver.writing.request import Rules, Write, document_of
from dray.apiserver.writing.update import finalize

_KUBERNETES = "kubernetes"


def create_namespaces(transaction: Transaction, rules: Rules, now: datetime) -> None:
    """Make the namespaces that every cluster has. A server calls it at each start."""
    served = rules.serving.of_key(namespace_key(""))
    for name in ALWAYS_THERE:
        if transaction.get(namespace_key(name)) is None:
            document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            create(transaction, Write(rules, served, "", "", now), document)


def empty_namespace(transaction: Transaction, rules: Rules, name: str, now: datetime) -> bool:
    """Delete what is in a terminating namespace, then let go of it; False while finalizers or pods hold it up.

    Whoever watches calls it after every deletion in the namespace; doing it again changes nothing.
    """
    stored = transaction.get(namespace_key(name))
    if stored is None:
        return True
    if not document_of(stored)["metadata"].get("deletionTimestamp"):
        return False
    left = 0
    for served in rules.serving.all:
        if served.resource.namespaced and transaction.list(str(served.resource), name):
            write = Write(rules, served, name, "", now)
            delete_collection(transaction, write, DeleteOptions(propagation_policy="Background"))
            left += len(transaction.list(str(served.resource), name))
    if left:
        return False
    write = Write(rules, rules.serving.of_key(namespace_key("")), "", name, now)
    finalize(transaction, write, _without_ours)
    return transaction.get(namespace_key(name)) is None


def _without_ours(old: Document | None) -> Document:
    assert old is not None, f"{NAMESPACES} was found above"
    spec = old.get("spec") or {}
    finalizers = [one for one in spec.get("finalizers") or () if one != _KUBERNETES]
    return old | {"spec": spec | {"finalizers": finalizers}}
