from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.apiserver.served import standard
from dray.apiserver.store.contract import Key, Store
from dray.apiserver.store.sqlite import StoreConfig, open_store
from dray.apiserver.upkeep import Upkeep
from dray.apiserver.writing import indexes
from dray.apiserver.writing.create import create
from dray.apiserver.writing.removing.delete import delete
from dray.apiserver.writing.removing.emptying import create_namespaces
from dray.apiserver.writing.removing.grace import DeleteOptions
from dray.apiserver.writing.request import Rules, Write
from dray.apiserver.writing.update import update
from dray.runtime.clock import FakeClock, SystemClock
from dray.runtime.quarantine import PLACE, Quarantine, object_key
from dray.runtime.tasks import running
from tests.apiserver.store.stores import Gate
from tests.deadly import make_deadly
from tests.waiting import wait_until

RULES = Rules()
CLOCK = SystemClock()


def open_at(path: Path, **more: Any) -> Any:
    return open_store(path, indexes=indexes(), **more)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_at(tmp_path / "store.db") as opened:
        await opened.write(lambda transaction: create_namespaces(transaction, RULES, CLOCK.now()))
        async with running(Upkeep(opened, RULES, CLOCK).run(), name="upkeep"):
            yield opened


def write(plural: str, namespace: str, name: str = "") -> Write:
    found = next(one for one in standard().all if one.resource.plural == plural)
    return Write(RULES, found, namespace if found.resource.namespaced else "", name, CLOCK.now())


async def make(store: Store, plural: str, name: str, namespace: str = "default", **metadata: Any) -> str:
    asked = write(plural, namespace)
    place = asked.served.resource
    document = {
        "apiVersion": place.api_version,
        "kind": place.kind,
        "metadata": {"name": name, **metadata},
    }
    written = await store.write(lambda transaction: create(transaction, asked, document))
    return str(msgspec.json.decode(written.raw)["metadata"]["uid"])


def owner(name: str, uid: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, **more}


async def remove(
    store: Store, plural: str, name: str, namespace: str = "default", policy: str | None = None
) -> None:
    asked = write(plural, namespace, name)
    options = DeleteOptions(propagation_policy=policy)
    await store.write(lambda transaction: delete(transaction, asked, options))


def gone(store: Store, plural: str, name: str, namespace: str = "default") -> bool:
    return store.get(write(plural, namespace, name).key) is None


async def test_dependents_go_with_their_last_owner(store: Store) -> None:
    first, second = await make(store, "configmaps", "a"), await make(store, "configmaps", "b")
    await make(store, "secrets", "one", ownerReferences=[owner("a", first)])
    await make(store, "secrets", "both", ownerReferences=[owner("a", first), owner("b", second)])
    await make(store, "secrets", "none")
    await remove(store, "configmaps", "a")
    await wait_until(lambda: gone(store, "secrets", "one"))
    assert not gone(store, "secrets", "both")
    await remove(store, "configmaps", "b")
    await wait_until(lambda: gone(store, "secrets", "both"))
    assert not gone(store, "secrets", "none")


async def test_orphans_stay_and_lose_their_owner(store: Store) -> None:
    uid = await make(store, "configmaps", "a")
    await make(store, "secrets", "s", ownerReferences=[owner("a", uid)])
    await remove(store, "configmaps", "a", policy="Orphan")
    await wait_until(lambda: gone(store, "configmaps", "a"))
    found = store.get(Key("secrets", "default", "s"))
    assert found is not None and b"ownerReferences" not in found.raw


async def test_an_owner_that_waits_goes_last(store: Store) -> None:
    uid = await make(store, "configmaps", "a")
    reference = owner("a", uid, blockOwnerDeletion=True)
    await make(store, "secrets", "s", ownerReferences=[reference], finalizers=["example.com/held"])
    await remove(store, "configmaps", "a", policy="Foreground")
    await wait_until(
        lambda: b"deletionTimestamp" in (store.get(Key("secrets", "default", "s")) or _none()).raw
    )
    assert not gone(store, "configmaps", "a")
    asked = write("secrets", "default", "s")

    def let_go(old: dict[str, Any] | None) -> dict[str, Any]:
        assert old is not None
        return old | {"metadata": old["metadata"] | {"finalizers": []}}

    await store.write(lambda transaction: update(transaction, asked, let_go))
    await wait_until(lambda: gone(store, "configmaps", "a") and gone(store, "secrets", "s"))


async def test_an_owner_goes_when_what_it_waits_for_is_taken_from_it(store: Store) -> None:
    uid = await make(store, "configmaps", "a")
    reference = owner("a", uid, blockOwnerDeletion=True)
    await make(store, "secrets", "s", ownerReferences=[reference], finalizers=["example.com/held"])
    await remove(store, "configmaps", "a", policy="Foreground")
    await wait_until(
        lambda: b"deletionTimestamp" in (store.get(Key("secrets", "default", "s")) or _none()).raw
    )
    asked = write("secrets", "default", "s")

    def disown(old: dict[str, Any] | None) -> dict[str, Any]:
        assert old is not None
        return old | {"metadata": old["metadata"] | {"ownerReferences": []}}

    await store.write(lambda transaction: update(transaction, asked, disown))
    await wait_until(lambda: gone(store, "configmaps", "a"))
    assert not gone(store, "secrets", "s")


def _none() -> Any:
    raise AssertionError("it is gone")


async def test_an_owner_that_never_was_counts_as_gone(store: Store) -> None:
    await make(store, "secrets", "s", ownerReferences=[owner("a", "no-such-uid")])
    await wait_until(lambda: gone(store, "secrets", "s"))


async def test_a_namespace_ends_with_all_that_is_in_it(store: Store) -> None:
    await make(store, "namespaces", "n")
    for number in range(5):
        await make(store, "configmaps", f"c{number}", "n")
        await make(store, "secrets", f"s{number}", "n")
    await make(store, "configmaps", "stays")
    await remove(store, "namespaces", "n")
    await wait_until(lambda: gone(store, "namespaces", "n"))
    assert not store.list("configmaps", "n").items and not store.list("secrets", "n").items
    assert not gone(store, "configmaps", "stays")


async def test_what_was_left_undone_is_done_after_a_restart(tmp_path: Path) -> None:
    async with open_at(tmp_path / "store.db") as store:
        await store.write(lambda transaction: create_namespaces(transaction, RULES, CLOCK.now()))
        uid = await make(store, "configmaps", "a")
        await make(store, "secrets", "s", ownerReferences=[owner("a", uid)])
        await make(store, "namespaces", "n")
        await make(store, "secrets", "t", "n")
        await remove(store, "configmaps", "a")
        await remove(store, "namespaces", "n")
    async with (
        open_at(tmp_path / "store.db") as store,
        running(Upkeep(store, RULES, CLOCK).run(), name="upkeep"),
    ):
        await wait_until(lambda: gone(store, "secrets", "s") and gone(store, "namespaces", "n"))


async def test_two_at_once_and_a_short_history(tmp_path: Path) -> None:
    async with open_at(tmp_path / "store.db", config=StoreConfig(history_changes=4)) as store:
        await store.write(lambda transaction: create_namespaces(transaction, RULES, CLOCK.now()))
        twice = [running(Upkeep(store, RULES, CLOCK).run(), name=f"upkeep {number}") for number in range(2)]
        async with twice[0], twice[1]:
            uid = await make(store, "configmaps", "a")
            names = [f"s{number}" for number in range(40)]
            for name in names:
                await make(store, "secrets", name, ownerReferences=[owner("a", uid)])
            await remove(store, "configmaps", "a")
            await wait_until(lambda: not store.list("secrets", "default").items)


async def test_events_go_when_their_time_is_over(tmp_path: Path) -> None:
    clock = FakeClock(CLOCK.now())
    event = Key("events", "default", "e")
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    asked = write("events", "default")
    async with open_at(tmp_path / "store.db") as opened:
        await opened.write(lambda transaction: create_namespaces(transaction, RULES, clock.now()))
        document = {"metadata": {"name": "e"}, "involvedObject": about}
        await opened.write(lambda transaction: create(transaction, asked, document))
        await make(opened, "configmaps", "c")
        async with running(Upkeep(opened, RULES, clock, event_ttl=3600.0).run(), name="upkeep"):
            async with asyncio.timeout(60):
                while opened.get(event) is not None:
                    await clock.advance(300)
                    await asyncio.sleep(0.01)
            assert clock.monotonic() >= 3600
            assert opened.get(Key("configmaps", "default", "c")) is not None


async def test_a_full_disk_only_delays_it(tmp_path: Path) -> None:
    gate, event = Gate(), Key("events", "default", "e")
    asked = write("events", "default")
    document = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    async with open_at(tmp_path / "store.db", connect=gate.connect) as opened:
        await opened.write(lambda transaction: create_namespaces(transaction, RULES, CLOCK.now()))
        await opened.write(lambda transaction: create(transaction, asked, document))
        gate.is_on, gate.fail_before = True, "SQLITE_FULL"
        clock = FakeClock(CLOCK.now() + timedelta(hours=2))
        async with running(Upkeep(opened, RULES, clock, event_ttl=3600.0).run(), name="upkeep"):
            await wait_until(lambda: gate.commits > 1)
            gate.fail_before = ""
            async with asyncio.timeout(60):
                while opened.get(event) is not None:
                    await clock.advance(1)
                    await asyncio.sleep(0.01)


async def test_an_object_that_ended_the_server_is_left_alone_and_others_are_not(tmp_path: Path) -> None:
    clock = FakeClock(CLOCK.now())
    async with open_at(tmp_path / "store.db") as store:
        await store.write(lambda transaction: create_namespaces(transaction, RULES, clock.now()))
        uid = await make(store, "configmaps", "a")
        deadly = await make(store, "secrets", "deadly", ownerReferences=[owner("a", uid)])
        await make(store, "secrets", "other", ownerReferences=[owner("a", uid)])
        make_deadly(tmp_path, object_key("secrets", "default", "deadly", deadly), clock)
        with Quarantine(tmp_path / PLACE, clock) as quarantine:
            async with running(Upkeep(store, RULES, clock, quarantine=quarantine).run(), name="upkeep"):
                await remove(store, "configmaps", "a")
                await wait_until(lambda: gone(store, "secrets", "other"))
                assert not gone(store, "secrets", "deadly")
