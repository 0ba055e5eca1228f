"""What the tests of allocations share: claims in a small store, slices with amounts, and the write of an allocation."""

from __future__ import annotations

import uuid
from typing import Any

from dray.apiserver.served import Document
from dray.apiserver.writing.update import update_status
from tests.apiserver.writing.small_store import SmallStore, body, claim, result


def allocate(store: SmallStore, name: str, *results: Document, namespace: str = "default") -> Document:
    """Write an allocation, or take it back where there are no results."""
    allocation = {"allocation": {"devices": {"results": list(results)}}} if results else {}

    def change(old: Document | None) -> Document:
        assert old is not None
        return {**old, "status": allocation}

    write = store.write("resourceclaims", name, namespace)
    return body(store.run(lambda transaction: update_status(transaction, write, change)))


def claims(*names: str) -> SmallStore:
    store = SmallStore()
    store.create("namespaces", {"metadata": {"name": "other"}})
    labels = {"resource.kubernetes.io/admin-access": "true"}
    store.create("namespaces", {"metadata": {"name": "admin", "labels": labels}})
    for name in names:
        store.create("resourceclaims", claim(name))
    return store


def share(number: int, amount: str = "", device: str = "nic", **extra: Any) -> Document:
    consumed = {"consumedCapacity": {"bandwidth": amount}} if amount else {}
    return result(device, shareID=str(uuid.UUID(int=number)), **consumed, **extra)


def slice_of(name: str, generation: int = 1, pool: str = "node-1", **part: Any) -> Document:
    where = {"name": pool, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "node-1", "pool": where, **part}
    return {"metadata": {"name": name}, "spec": spec}


def nic(amount: str, name: str = "nic", **more: Any) -> Document:
    capacity = {"bandwidth": {"value": amount}}
    return {"name": name, "allowMultipleAllocations": True, "capacity": capacity, **more}


def part(name: str, amount: str, **more: Any) -> Document:
    takes = [{"counterSet": "card", "counters": {"memory": {"value": amount}}}]
    return {"name": name, "consumesCounters": takes, **more}


def card(amount: str) -> list[Document]:
    return [{"name": "card", "counters": {"memory": {"value": amount}}}]
