"""Reflectors against the real API server, killed and restarted again and again under writes, compaction included."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pytest

from dray.api.kinds import CONFIG_MAPS, RESOURCE_SLICES, Resource
from dray.api.meta import Model
from dray.client.client import Client
from dray.client.failures import ExpiredError
from dray.client.feed import Changes, Replaced
from dray.client.follow import FollowConfig
from dray.client.kubeconfig import find_access
from dray.client.reflector import Reflector, ReflectorConfig
from dray.client.requests import Selection
from dray.client.store import Added, Change, Deleted, Entry, Key, Modified, replay
from dray.errors import ConflictError, Error, NotFoundError
from dray.runtime.backoff import BackoffPolicy
from dray.testing.kubernetes.control_plane import ControlPlane
from tests.campaign import campaign
from tests.waiting import PATIENCE

ROUNDS = campaign(4, 20)
WRITERS = 4
OBJECTS = 24
CONFIG = ReflectorConfig(
    follow=FollowConfig(page_size=7, backoff=BackoffPolicy(first=0.05, limit=0.5, jitter=1.0)), buffer=10**6
)
SELECTED = Selection("default", labels="picked=yes")

T = TypeVar("T", bound=Model)


@dataclass
class Writer:
    """Writes until told to stop, whatever the server's state. Remembers what it knows to have happened."""

    client: Client
    rng: random.Random
    stopped: bool = False
    written: set[tuple[str, str]] = field(default_factory=set)
    unsure: int = 0
    done: int = 0

    async def run(self) -> None:
        while not self.stopped:
            try:
                await self._write()
                self.done += 1
            except (ConflictError, NotFoundError):
                pass  # another writer was first
            except Error:
                self.unsure += 1
                await asyncio.sleep(0.02)
            await asyncio.sleep(self.rng.choice((0, 0, 0.01)))

    async def _write(self) -> None:
        resource: Resource[Any] = self.rng.choice((CONFIG_MAPS, RESOURCE_SLICES))
        name = f"o{self.rng.randrange(OBJECTS)}"
        namespace = "default" if resource.namespaced else None
        action = self.rng.choice(("create", "create", "patch", "patch", "patch", "delete"))
        if action == "delete":
            await self.client.delete(resource, name, namespace=namespace)
            return
        if action == "create":
            made = await self.client.create(resource, self._document(resource, name))
        else:
            made = await self.client.patch(resource, name, self._change(resource), namespace=namespace)
        self.written.add((made.metadata.uid, made.metadata.resource_version))

    def _labels(self) -> dict[str, str]:
        return {"picked": self.rng.choice(("yes", "no"))}

    def _document(self, resource: Resource[Any], name: str) -> dict[str, Any]:
        if resource is CONFIG_MAPS:
            meta = {"name": name, "namespace": "default", "labels": self._labels()}
            return {"metadata": meta, "data": {"blob": "x" * self.rng.randrange(20_000)}}
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "e2e.example.com", "pool": pool, "nodeName": "n", "devices": [{"name": "d"}]}
        return {"metadata": {"name": name}, "spec": spec}

    def _change(self, resource: Resource[Any]) -> dict[str, Any]:
        number = self.rng.randrange(1, 10**9)
        if resource is CONFIG_MAPS:
            return {"metadata": {"labels": self._labels()}, "data": {"number": str(number)}}
        return {"spec": {"pool": {"generation": number}}}


class Witness(Generic[T]):
    """Reads a reflector's change log as it comes and checks that every step is legal."""

    def __init__(self, reflector: Reflector[T], selection: Selection) -> None:
        self.reflector = reflector
        self.selection = selection
        self.entries: dict[Key, Entry[T]] = {}
        self.seen: set[tuple[str, str]] = set()
        self.counts = {Added: 0, Modified: 0, Deleted: 0}

    async def follow(self, changes: Changes[T]) -> None:
        first = await anext(changes)
        assert isinstance(first, Replaced)
        self.entries = dict(first.snapshot.entries)
        async for change in changes:
            assert not isinstance(change, Replaced), "the log has a hole"
            self._check(change)
            self.counts[type(change)] += 1
            replay(self.entries, [change])

    def _check(self, change: Change[T]) -> None:
        known = self.entries.get(change.key)
        match change:
            case Added(new):
                assert known is None
            case Modified(old, new):
                assert known == old
                assert old.uid == new.uid
                assert int(new.version) > int(old.version)
            case Deleted(old):
                assert known == old
                return
        if not self.selection.labels:  # an object may leave a selection and come back unchanged in version
            assert (new.uid, new.version) not in self.seen, "told twice"
        self.seen.add((new.uid, new.version))

    def is_at(self, fresh: dict[Key, tuple[str, str]]) -> bool:
        cache = {key: (one.uid, one.version) for key, one in self.reflector.snapshot().entries.items()}
        log = {key: (one.uid, one.version) for key, one in self.entries.items()}
        return cache == fresh == log


async def fresh(client: Client, witness: Witness[T]) -> dict[Key, tuple[str, str]]:
    """A new list, once the server answers."""
    async with asyncio.timeout(60):
        while True:
            try:
                listing = await client.list(witness.reflector.resource, witness.selection)
            except Error:
                await asyncio.sleep(0.1)
            else:
                return {entry.key: (entry.uid, entry.version) for entry in listing.entries}


async def caught_up(client: Client, witnesses: list[Witness[Any]]) -> float:
    """Wait until every cache and log equals a fresh list; how long that took."""
    started = time.monotonic()
    for witness in witnesses:
        wanted = await fresh(client, witness)
        deadline = time.monotonic() + 60
        while not witness.is_at(wanted):
            assert time.monotonic() < deadline, (witness.reflector.resource, witness.reflector.stats)
            await asyncio.sleep(0.02)
        assert witness.is_at(await fresh(client, witness))
    return time.monotonic() - started


async def disturb(plane: ControlPlane, number: int) -> None:
    """Kill and restart; in between, on every third round, etcd forgets its history; some rounds do it twice."""
    await asyncio.sleep(0.2)
    for _ in range(2 if number % 10 == 9 else 1):
        await asyncio.to_thread(plane.kill_apiserver)
        if number % 3 == 1:
            await asyncio.to_thread(plane.compact_etcd)
        await asyncio.to_thread(plane.start_apiserver)
        await asyncio.sleep(0.2)
    if number % 3 == 2:
        await asyncio.to_thread(plane.compact_etcd)


async def test_caches_and_logs_survive_kills_under_writes(
    killable: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    access = find_access(killable.kubeconfig, environ={})
    slowest = 0.0
    async with (
        Client(access) as client,
        Client(access) as writing,
        asyncio.TaskGroup() as group,
        Reflector(client, CONFIG_MAPS, Selection("default"), CONFIG) as maps,
        Reflector(client, RESOURCE_SLICES, config=CONFIG) as slices,
        Reflector(client, CONFIG_MAPS, SELECTED, CONFIG) as picked,
    ):
        witnesses: list[Witness[Any]] = [
            Witness(maps, Selection("default")),
            Witness(slices, Selection()),
            Witness(picked, SELECTED),
        ]
        for witness in witnesses:
            group.create_task(witness.follow(witness.reflector.changes()))
        writers: list[Writer] = []
        for number in range(ROUNDS):
            crew = [Writer(writing, random.Random(number * 100 + index)) for index in range(WRITERS)]
            writers += crew
            async with asyncio.TaskGroup() as round_group:
                for writer in crew:
                    round_group.create_task(writer.run())
                await disturb(killable, number)
                for writer in crew:
                    writer.stopped = True
            slowest = max(slowest, await caught_up(client, witnesses))
    with capsys.disabled():
        report(witnesses, writers, slowest)
    check_nothing_invented(witnesses, writers)
    stats = [witness.reflector.stats for witness in witnesses]  # it was no fair-weather run
    assert all(one.failures >= ROUNDS for one in stats)
    # Whoever has seen the newest write of all can go on after a compaction; the others list again.
    assert sum(one.lists - 1 for one in stats) >= ROUNDS // 2
    await asyncio.to_thread(killable.kubectl, "delete", "configmaps,resourceslices", "--all")


def check_nothing_invented(witnesses: list[Witness[Any]], writers: list[Writer]) -> None:
    """Every version in a log was written; a write whose answer was lost may or may not have happened."""
    written = set().union(*(writer.written for writer in writers))
    unsure = sum(writer.unsure for writer in writers)
    told = set().union(*(witness.seen for witness in witnesses))
    assert len(told - written) <= unsure


def report(witnesses: list[Witness[Any]], writers: list[Writer], slowest: float) -> None:
    writes, unsure = sum(writer.done for writer in writers), sum(writer.unsure for writer in writers)
    print(
        f"\n{ROUNDS} restarts, {writes} writes ({unsure} without an answer), slowest catch-up {slowest:.1f} s"
    )
    for witness in witnesses:
        stats = witness.reflector.stats
        counts = ", ".join(f"{count} {kind.__name__}" for kind, count in witness.counts.items())
        print(f"  {witness.reflector.resource} {witness.selection.labels}: {counts}; {stats}")


async def test_old_versions_expire_after_compaction(killable: ControlPlane) -> None:
    async with Client(find_access(killable.kubeconfig, environ={})) as client:
        for number in range(3):
            document = {"metadata": {"name": f"c{number}", "namespace": "default"}}
            await client.create(CONFIG_MAPS, document)
        first = await client.list_page(CONFIG_MAPS, limit=1)
        await client.patch(CONFIG_MAPS, "c1", {"data": {"a": "b"}}, namespace="default")
        await asyncio.to_thread(killable.kill_apiserver)
        await asyncio.to_thread(killable.compact_etcd)
        await asyncio.to_thread(killable.start_apiserver)
        with pytest.raises(ExpiredError):
            async with client.watch(CONFIG_MAPS, resource_version=first.resource_version) as watch:
                async with asyncio.timeout(PATIENCE):
                    await anext(watch)
        with pytest.raises(ExpiredError):
            await client.list_page(CONFIG_MAPS, limit=1, continue_token=first.continue_token)
        for number in range(3):
            await client.delete(CONFIG_MAPS, f"c{number}", namespace="default")
