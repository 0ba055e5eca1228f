from __future__ import annotations

import re
import uuid
from collections import Counter
from typing import Any

import pytest

from dray.apiserver.served import Document
from dray.apiserver.store.contract import Key, Stored
from dray.apiserver.writing.kinds.allocations import DEVICES
from dray.apiserver.writing.removing.delete import delete
from dray.apiserver.writing.update import update_status
from dray.errors import ConflictError
from tests.apiserver.writing.allocating import allocate, claims
from tests.apiserver.writing.small_store import body, claim, result
from tests.campaign import campaign, seeded

SHARE, OTHER = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))


def test_a_device_is_allocated_once_and_the_refusal_names_the_holder() -> None:
    store = claims("a", "b")
    allocate(store, "a", result("gpu-0"), result("gpu-1"))
    text = (
        'Operation cannot be fulfilled on resourceclaims.resource.k8s.io "b": '
        "device gpu.example.com/node-1/gpu-1 is already allocated to claim default/a"
    )
    with pytest.raises(ConflictError, match=re.escape(text)):
        allocate(store, "b", result("gpu-2"), result("gpu-1"))
    assert (store.get("resourceclaims", "b") or {})["status"] == {}
    allocate(store, "b", result("gpu-2"))


@pytest.mark.parametrize(
    ("first", "second", "is_fine"),
    [
        ({}, {}, False),
        ({}, {"shareID": SHARE}, False),
        ({"shareID": SHARE}, {"shareID": SHARE}, False),
        ({"shareID": SHARE}, {"shareID": OTHER}, True),
        ({"adminAccess": True}, {"adminAccess": True}, False),
        ({"adminAccess": True}, {}, False),
        ({"adminAccess": True, "shareID": SHARE}, {"shareID": OTHER}, True),
    ],
)
def test_a_claim_gets_a_device_once_or_in_different_shares(
    first: Document, second: Document, is_fine: bool
) -> None:
    store = claims()
    requests = [{"name": "one", "exactly": {"deviceClassName": "c", "adminAccess": True}}]
    spec = {"devices": {"requests": requests}}
    store.create("resourceclaims", {"metadata": {"name": "a"}, "spec": spec}, namespace="admin")
    results = (result("gpu-0", **first), result("gpu-0", **second))
    if is_fine:
        allocate(store, "a", *results, namespace="admin")
        return
    with pytest.raises(ConflictError, match="is allocated twice"):
        allocate(store, "a", *results, namespace="admin")


def test_other_namespaces_hold_devices_too() -> None:
    store = claims("a")
    store.create("resourceclaims", claim("a"), namespace="other")
    allocate(store, "a", result(), namespace="other")
    with pytest.raises(ConflictError, match="to claim other/a"):
        allocate(store, "a", result())


@pytest.mark.parametrize("other", [{"driver": "x.example.com"}, {"pool": "node-2"}, {"device": "gpu-1"}])
def test_a_device_is_named_by_all_three_parts(other: Document) -> None:
    store = claims("a", "b")
    allocate(store, "a", result())
    allocate(store, "b", result() | other)


@pytest.mark.parametrize("how", ["deallocated", "deleted"])
def test_a_device_is_free_again(how: str) -> None:
    store = claims("a", "b")
    allocate(store, "a", result())
    if how == "deleted":
        store.run(lambda transaction: delete(transaction, store.write("resourceclaims", "a")))
    else:
        allocate(store, "a")
    allocate(store, "b", result())


def test_a_claim_may_write_its_own_status_again() -> None:
    store = claims("a")
    after = allocate(store, "a", result())
    reserved = [{"resource": "pods", "name": "p", "uid": "u"}]
    status = after["status"] | {"reservedFor": reserved}
    write = store.write("resourceclaims", "a")
    written = store.run(lambda one: update_status(one, write, lambda old: after | {"status": status}))
    assert body(written)["status"]["reservedFor"] == reserved


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        ({"shareID": SHARE}, {"shareID": OTHER}, True),
        ({"shareID": SHARE}, {"shareID": SHARE}, False),
        ({"shareID": SHARE}, {}, False),
        ({}, {"shareID": SHARE}, False),
    ],
)
def test_shares_of_a_device(first: Document, second: Document, fits: bool) -> None:
    store = claims("a", "b")
    allocate(store, "a", result(**first))
    if fits:
        allocate(store, "b", result(**second))
        return
    with pytest.raises(ConflictError, match="is already allocated to claim default/a"):
        allocate(store, "b", result(**second))


@pytest.mark.parametrize("admin_first", [True, False])
def test_admin_access_holds_nothing(admin_first: bool) -> None:
    store = claims("a")
    store.create("resourceclaims", claim("watcher", adminAccess=True), namespace="admin")
    steps: list[Any] = [
        lambda: allocate(store, "watcher", result(adminAccess=True), namespace="admin"),
        lambda: allocate(store, "a", result()),
    ]
    for step in steps if admin_first else reversed(steps):
        step()


@pytest.mark.parametrize(
    "raw", [b"{}", b'{"status":{"allocation":null}}', b'{"status":{"allocation":7}}', b"x"]
)
def test_the_index_reads_anything(raw: bytes) -> None:
    assert list(DEVICES.values(Stored(Key(DEVICES.resource, "default", "a"), "u", 1, raw))) == []


def test_whatever_is_tried_no_device_has_two_holders() -> None:
    names = [f"claim-{number}" for number in range(6)]
    store = claims(*names)
    chance = seeded(5)
    refused = 0
    for _ in range(campaign(150, 20_000)):
        name = chance.choice(names)
        found = store.get("resourceclaims", name) or {}
        devices = chance.sample(range(5), chance.randint(1, 2))
        held = found.get("status", {}).get("allocation")
        try:
            allocate(store, name, *(() if held else (result(f"gpu-{number}") for number in devices)))
        except ConflictError:
            refused += 1
        allocations = [(store.get("resourceclaims", one) or {}).get("status", {}) for one in names]
        holders = Counter(
            one["device"]
            for status in allocations
            for one in status.get("allocation", {}).get("devices", {}).get("results", ())
        )
        assert max(holders.values(), default=0) <= 1
    assert refused
