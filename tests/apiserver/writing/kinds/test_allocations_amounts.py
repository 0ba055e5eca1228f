"""Amounts in allocations: nothing gives more than it has, whoever writes, and only what is new is judged."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dray.api.codec import loads, view
from dray.api.kinds import RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.api.resource import ResourceClaim, ResourceSlice
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Key, Stored
from dray.apiserver.store.sqlite import open_store
from dray.apiserver.writing import indexes
from dray.apiserver.writing.create import create
from dray.apiserver.writing.kinds.allocations import POOLS
from dray.apiserver.writing.removing.emptying import create_namespaces
from dray.apiserver.writing.update import update, update_status
from dray.errors import ConflictError
from dray.testing.settled import Picture, disorder
from tests.apiserver.store.stores import memory_directory
from tests.apiserver.writing.allocating import allocate, card, claims, nic, part, share, slice_of
from tests.apiserver.writing.small_store import SmallStore, claim, result
from tests.campaign import campaign, seeds

SHARE = str(uuid.UUID(int=1))


def published(*names: str, devices: list[Document], memory: str = "") -> SmallStore:
    store = claims(*names)
    store.create("resourceslices", slice_of("devices", devices=devices))
    if memory:
        store.create("resourceslices", slice_of("counters", sharedCounters=card(memory)))
    return store


def republish(store: SmallStore, name: str, **part: Any) -> None:
    def change(old: Document | None) -> Document:
        assert old is not None
        return {**old, "spec": old["spec"] | part}

    write = store.write("resourceslices", name)
    store.run(lambda transaction: update(transaction, write, change))


def refused(store: SmallStore, name: str, *results: Document, namespace: str = "default") -> str:
    before = store.get("resourceclaims", name, namespace)
    with pytest.raises(ConflictError) as error:
        allocate(store, name, *results, namespace=namespace)
    assert store.get("resourceclaims", name, namespace) == before
    return str(error.value).partition(": ")[2]


def test_shares_have_no_more_than_the_device() -> None:
    store = published("a", "b", "c", devices=[nic("10G")])
    allocate(store, "a", share(1, "6G"))
    assert refused(store, "b", share(2, "6G")) == (
        "device gpu.example.com/node-1/nic cannot be allocated: "
        "6G of capacity bandwidth asked for, 4G of 10G left, the rest is allocated to claim default/a"
    )
    assert "8G of capacity bandwidth asked for, 4G" in refused(store, "b", share(2, "4G"), share(3, "4G"))
    allocate(store, "b", share(2, "4000M"))
    assert "0 of 10G left" in refused(store, "c", share(3, "1"))
    allocate(store, "c", share(3))
    allocate(store, "a")
    allocate(store, "a", share(1, "6G"))


def test_a_refusal_names_a_few_of_many_holders() -> None:
    names = [f"claim-{number}" for number in range(6)]
    store = published(*names, devices=[nic("5")])
    for number, name in enumerate(names[:5]):
        allocate(store, name, share(number + 1, "1"))
    text = "the rest is allocated to claims default/claim-0, default/claim-1, default/claim-2 and 2 more"
    assert text in refused(store, names[5], share(9, "1"))


@pytest.mark.parametrize("extra", [{}, {"shareID": SHARE}])
def test_one_alone_may_ask_for_too_much(extra: Document) -> None:
    store = published("a", devices=[nic("10")])
    text = refused(store, "a", result("nic", consumedCapacity={"bandwidth": "11"}, **extra))
    assert text.endswith("11 of capacity bandwidth asked for, 10 of 10 left")
    text = refused(store, "a", result("nic", consumedCapacity={"gone": "1"}, **extra))
    assert text.endswith("1 of capacity gone asked for, 0 of 0 left")


def test_counters_of_a_pool_are_not_overdrawn() -> None:
    devices = [part("half", "5"), part("most", "6"), part("rest", "4"), {"name": "plain"}]
    store = published("a", "b", "c", devices=devices, memory="10")
    allocate(store, "a", result("most"))
    assert refused(store, "b", result("plain"), result("half")) == (
        "device gpu.example.com/node-1/half cannot be allocated: "
        "5 of counter card/memory asked for, 4 of 10 left, the rest is allocated to claim default/a"
    )
    text = (
        "devices gpu.example.com/node-1/half, gpu.example.com/node-1/rest cannot be allocated: 9 of counter"
    )
    assert text in refused(store, "b", result("half"), result("rest"))
    allocate(store, "b", result("rest"), result("plain"))
    allocate(store, "a")
    allocate(store, "c", result("half"))


def test_a_device_draws_on_counters_once_and_admins_draw_nothing() -> None:
    devices = [part("nic", "6", **{k: v for k, v in nic("10").items() if k != "name"}), part("most", "6")]
    store = published("a", "b", devices=devices, memory="10")
    for name in ("watcher", "other"):
        store.create("resourceclaims", claim(name, adminAccess=True), namespace="admin")
    allocate(store, "watcher", result("most", adminAccess=True), namespace="admin")
    allocate(store, "a", share(1, "2"), share(2, "2"))
    allocate(store, "b", share(3, "6"))
    allocate(
        store, "other", result("most", adminAccess=True), share(4, "9", adminAccess=True), namespace="admin"
    )


@pytest.mark.parametrize("other", [{"pool": "node-2"}, {"device": "new"}, {"driver": "x.example.com"}])
def test_what_is_not_published_is_not_judged(other: Document) -> None:
    store = published("a", devices=[nic("10")])
    allocate(store, "a", share(1, "11") | other)


def test_the_newest_generation_counts_as_it_is_now() -> None:
    store = published("a", "b", devices=[nic("10")])
    allocate(store, "a", share(1, "10"))
    store.create("resourceslices", slice_of("newer", 2, devices=[nic("11")]))
    store.create("resourceslices", slice_of("elsewhere", 9, pool="node-2", devices=[nic("99")]))
    assert "2 of capacity bandwidth asked for, 1 of 11 left" in refused(store, "b", share(2, "2"))
    republish(store, "newer", devices=[nic("12")])
    allocate(store, "b", share(2, "2"))


def test_what_a_smaller_slice_overdraws_goes_on_and_is_not_added_to() -> None:
    store = published("a", "b", "c", devices=[nic("10"), part("most", "6")], memory="6")
    allocate(store, "a", share(1, "6"), result("most"))
    allocate(store, "b", share(2, "4"))
    republish(store, "devices", devices=[nic("5"), part("most", "7"), part("free", "0")])
    after = store.get("resourceclaims", "a") or {}
    status = after["status"] | {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
    write = store.write("resourceclaims", "a")
    store.run(lambda one: update_status(one, write, lambda old: after | {"status": status}))
    assert "0 of 5 left" in refused(store, "c", share(3, "1"))
    allocate(store, "c", share(3), result("free"))
    allocate(store, "b")


@pytest.mark.parametrize("raw", [b"x", b"{}", b'{"spec":7}', b'{"spec":{"driver":"d","pool":{"name":3}}}'])
def test_the_index_of_pools_reads_anything(raw: bytes) -> None:
    assert set(POOLS.values(Stored(Key(POOLS.resource, "", "a"), "u", 1, raw))) <= {"|"}


async def test_writers_at_once_do_not_overdraw() -> None:
    """Decisions that are not durable yet count, as with two schedulers that know nothing of each other."""
    small, names = SmallStore(), [f"claim-{number}" for number in range(12)]
    with memory_directory() as directory:
        async with open_store(Path(directory) / "store.db", indexes=indexes()) as store:
            await store.write(lambda one: create_namespaces(one, small.rules, small.now))
            document = slice_of("devices", devices=[nic("10")])
            await store.write(lambda one: create(one, small.write("resourceslices"), document))
            for each in [claim(name) for name in names]:
                await store.write(partial(create, write=small.write("resourceclaims"), document=each))

            async def give(number: int, name: str) -> bool:
                allocation = {"allocation": {"devices": {"results": [share(number + 1, "1")]}}}
                write = small.write("resourceclaims", name)
                try:
                    await store.write(
                        lambda one: update_status(
                            one, write, lambda old: (old or {}) | {"status": allocation}
                        )
                    )
                except ConflictError:
                    return False
                return True

            given = await asyncio.gather(*(give(number, name) for number, name in enumerate(names)))
    assert sum(given) == 10


POOL_NAMES = ("node-1", "node-2")
THING = {"apiGroup": "things.example.com", "resource": "things", "name": "t", "uid": "u"}


class Model:
    """Random writes to pools of shared, partitioned and plain devices, judged by sums over everything that is stored."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.claims = [f"claim-{number}" for number in range(10)]
        self.store = claims(*self.claims)
        self.generation = 1
        for pool in POOL_NAMES:
            for name, one in self.slices(pool).items():
                self.store.create("resourceslices", slice_of(name, 1, pool, **one))
            outdated = slice_of(f"{pool}-old", 0, pool, devices=[nic("99", "nic-0"), nic("1", "nic-1")])
            self.store.create("resourceslices", outdated)
        self.store.create("resourceclaims", claim("watcher", adminAccess=True), namespace="admin")
        watched = [share(1, "9", "nic-0", adminAccess=True), result("part-0", adminAccess=True)]
        self.put("watcher", watched, namespace="admin")

    def slices(self, pool: str) -> dict[str, Document]:
        some = self.chance.randint
        shared = [nic(str(some(3, 12)), f"nic-{number}") for number in range(2)]
        both = nic("6", "both") | part("both", str(some(1, 5)))
        parts = [part(f"part-{number}", str(some(1, 6))) for number in range(4)]
        return {
            f"{pool}-first": {"devices": [*shared, *parts[:2], {"name": "plain"}]},
            f"{pool}-second": {"devices": [both, *parts[2:]]},
            f"{pool}-counters": {"sharedCounters": card(str(some(6, 14)))},
        }

    def results(self) -> list[Document]:
        names = ("nic-0", "nic-1", "both", "part-0", "part-1", "part-2", "part-3", "plain")
        found = []
        for name in self.chance.choices(names, k=self.chance.randint(1, 3)):
            pool = {"pool": self.chance.choice(POOL_NAMES)}
            if name in ("nic-0", "nic-1", "both") and self.chance.random() < 0.9:
                one = share(self.chance.randint(1, 40), str(self.chance.randint(1, 5)), name)
                found.append(one | pool)
            else:
                found.append(result(name) | pool)
        return found

    def put(self, name: str, results: list[Document], namespace: str = "default") -> None:
        status = self.status(results)
        write = self.store.write("resourceclaims", name, namespace)
        self.store.run(lambda one: update_status(one, write, lambda old: (old or {}) | status))

    def status(self, results: list[Document]) -> Document:
        return {"status": {"allocation": {"devices": {"results": results}}, "reservedFor": [THING]}}

    def picture(self, changed: dict[str, Document]) -> Picture:
        """What would be stored after a change, by kind and name."""
        found: dict[str, Document] = {}
        for key, stored in self.store.objects.items():
            if key.resource in (str(RESOURCE_CLAIMS), str(RESOURCE_SLICES)):
                found[key.name] = changed.get(key.name) or loads(stored.raw)
        every = found.values()
        return Picture(
            claims=tuple(view(one, ResourceClaim) for one in every if one["kind"] == "ResourceClaim"),
            slices=tuple(view(one, ResourceSlice) for one in every if one["kind"] == "ResourceSlice"),
        )

    def republish(self) -> bool:
        """A pool in a new generation, where that overdraws nothing."""
        pool = self.chance.choice(POOL_NAMES)
        where = {"name": pool, "generation": self.generation + 1, "resourceSliceCount": 3}
        specs = {name: one | {"pool": where} for name, one in self.slices(pool).items()}
        documents = {}
        for name, spec in specs.items():
            old = self.store.get("resourceslices", name) or {}
            documents[name] = {**old, "spec": old["spec"] | spec}
        if disorder(self.picture(documents)):
            return False
        self.generation += 1
        for name, spec in specs.items():
            republish(self.store, name, **spec)
        return True

    def write(self) -> bool:
        """One claim gets devices, exactly where the sums allow it, or gives its devices back."""
        name, results = self.chance.choice(self.claims), self.results()
        old = self.store.get("resourceclaims", name) or {}
        if old.get("status", {}).get("allocation"):
            allocate(self.store, name)
            return True
        wrong = disorder(self.picture({name: old | self.status(results)}))
        try:
            self.put(name, results)
        except ConflictError as error:
            assert wrong, error
            return False
        assert not wrong
        return True


@pytest.mark.parametrize("seed", seeds(3, 40))
def test_writes_are_refused_exactly_where_sums_say_so(seed: int) -> None:
    model = Model(seed)
    seen: Counter[tuple[str, bool]] = Counter()
    for number in range(campaign(250, 2000)):
        if number % 20 == 19:
            seen["republish", model.republish()] += 1
        else:
            seen["write", model.write()] += 1
        assert disorder(model.picture({})) == []
    assert seen["write", True] > 20 < seen["write", False]
