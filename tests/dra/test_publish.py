from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import msgspec
import pytest

from dray.api.codec import to_raw
from dray.api.core import Node
from dray.api.kinds import NODES, RESOURCE_SLICES
from dray.api.meta import ObjectMeta, OwnerReference
from dray.api.resource.slice import ResourceSlice, ResourceSliceSpec
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.dra.parcels import NodeRef
from dray.dra.slices.layout import PoolContents
from dray.dra.slices.publish import PublishConfig, SlicePublisher
from dray.dra.slices.reconcile import PoolOwner
from dray.errors import ConflictError, Error, NotFoundError, UnavailableError
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import Clock
from tests.campaign import campaign, seeded
from tests.dra.pools import DRIVER, NODE, counter_set, is_complete, pool, pool_device
from tests.waiting import PATIENCE, until, wait_until

replace = msgspec.structs.replace
OWNER = PoolOwner(DRIVER, NodeRef(NODE.name, ""))
TOUCHES = count()
LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)

QUICK = PublishConfig(
    calm=BackoffPolicy(first=0.02, limit=0.2, jitter=0.0), retry=BackoffPolicy(first=0.02, limit=0.2)
)


@dataclass
class Seen:
    """Counts what it is told."""

    published_as: list[tuple[int, int, int]] = field(default_factory=list)
    verbs: list[str] = field(default_factory=list)
    failures: list[Error] = field(default_factory=list)
    gates: list[Sequence[str]] = field(default_factory=list)

    def published(self, slices: int, devices: int, generation: int) -> None:
        self.published_as.append((slices, devices, generation))

    def wrote(self, verb: str) -> None:
        self.verbs.append(verb)

    def failed(self, error: Error) -> None:
        self.failures.append(error)

    def dropped(self, features: Sequence[str]) -> None:
        self.gates.append(features)


class KilledError(Exception):
    """In place of the end of the process."""


class Kill:
    """At the n-th step."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, step: str) -> None:
        self.left -= 1
        if self.left == 0:
            raise KilledError(step)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        api_server(ApiServerOptions(tmp_path / "data", Address())) as server,
        Client(find_access(server.kubeconfig)) as client,
    ):
        await add_node(client)
        yield client


async def add_node(client: Client) -> str:
    """Without it the slices would be collected."""
    return (await client.create(NODES, Node(metadata=ObjectMeta(name=NODE.name)))).metadata.uid


async def stored(client: Client) -> list[ResourceSlice]:
    return list((await client.list(RESOURCE_SLICES)).items)


def tainted_at(spec: ResourceSliceSpec, time: datetime) -> ResourceSliceSpec:
    """The slice with all its taints since then."""
    devices = tuple(
        replace(device, taints=tuple(replace(taint, time_added=time) for taint in device.taints))
        for device in spec.devices or ()
    )
    return replace(spec, devices=devices)


async def looked_again(seen: Seen, touch: Callable[[], Awaitable[object]]) -> None:
    """Somebody touches a slice and changes nothing. Twice: the second look comes after the watch has brought the first
    touch, and with it all that was before."""
    for _ in range(2):
        looks = len(seen.published_as)
        await touch()
        await wait_until(lambda: len(seen.published_as) > looks)  # noqa: B023


async def touch(client: Client, node: str = NODE.name) -> None:
    """Any slice of the driver on the node; while publishers put the pool right, one may go before it is touched."""
    change = {"metadata": {"labels": {"touched": str(next(TOUCHES))}}}

    async def is_touched() -> bool:
        for one in await stored(client):
            if (one.spec.driver, one.spec.node_name) == (DRIVER, node):
                with suppress(NotFoundError, ConflictError):
                    await client.patch(RESOURCE_SLICES, one.metadata.name, change)
                    return True
        return False

    await until(is_touched)


async def wait_complete(
    client: Client, contents: PoolContents, also: Callable[[list[ResourceSlice]], bool] = bool
) -> list[ResourceSlice]:
    async def found() -> list[ResourceSlice] | None:
        slices = await stored(client)
        return slices if is_complete(slices, contents) and also(slices) else None

    return await until(found)


@asynccontextmanager
async def publishing(
    client: Client,
    contents: PoolContents,
    owner: PoolOwner = OWNER,
    config: PublishConfig = QUICK,
    clock: Clock | None = None,
) -> AsyncIterator[tuple[SlicePublisher, Seen]]:
    seen = Seen()
    async with SlicePublisher(client, owner, config, clock=clock, observer=seen) as publisher:
        publisher.want(contents)
        async with asyncio.timeout(60):
            await publisher.wait_published()
        yield publisher, seen


async def test_the_first_publish_ends_at_generation_one(client: Client) -> None:
    async with publishing(client, pool(200)) as (_, seen):
        slices = await stored(client)
        assert is_complete(slices, pool(200))
        assert {one.spec.pool.generation for one in slices} == {1}
        node = await client.get(NODES, NODE.name)
        owner = PoolOwner(DRIVER, NodeRef(NODE.name, node.metadata.uid))
        assert [one.metadata.owner_references for one in slices] == [(owner.reference,)] * 2
        assert all(one.metadata.name.startswith(f"0000{i}-{DRIVER}-") for i, one in enumerate(slices))
        assert seen.published_as[0] == (2, 200, 1)
        # Its own changes come back through the watch, and are no reason to write.
        await looked_again(seen, lambda: touch(client))
        assert seen.verbs == ["create", "create"]
        assert [one.spec for one in await stored(client)] == [one.spec for one in slices]
        slices = await stored(client)
    assert await stored(client) == slices


async def test_a_driver_without_devices_is_alive(client: Client) -> None:
    async with publishing(client, PoolContents()):
        assert is_complete(await stored(client), PoolContents())


async def test_what_is_wanted_next_is_written_at_once(client: Client) -> None:
    slow = PublishConfig(calm=BackoffPolicy(first=3600.0, limit=3600.0))
    async with publishing(client, pool(3), config=slow) as (publisher, seen):
        for mark in ("a", "b", "c"):
            publisher.want(pool(3, mark))
            async with asyncio.timeout(60):
                await publisher.wait_published()
            (one,) = await stored(client)
            assert one.spec.devices == pool(3, mark).devices
            assert one.spec.pool.generation == 1
        assert seen.verbs == ["create", "update", "update", "update"]
        assert seen.failures == []


async def test_what_others_do_is_reverted(client: Client) -> None:
    contents = pool(200)
    async with publishing(client, contents) as (_, seen):
        first = (await stored(client))[0].metadata.name
        document = await client.get_raw(RESOURCE_SLICES, first)
        document["spec"]["devices"] = document["spec"]["devices"][:5]
        await client.update(RESOURCE_SLICES, document)
        await wait_complete(client, contents)
        await client.delete(RESOURCE_SLICES, first)
        slices = await wait_complete(client, contents)
        assert first not in {one.metadata.name for one in slices}
        spec = msgspec.structs.replace(slices[0].spec, devices=pool(1, "foreign").devices)
        await client.create(RESOURCE_SLICES, ResourceSlice(metadata=ObjectMeta(name="00000-mine"), spec=spec))
        await wait_complete(client, contents, lambda found: len(found) == 2)
        assert seen.failures == []


async def test_after_the_kubelet_has_cleared_all_slices(client: Client) -> None:
    """The watch would tell it too, but much later here."""
    slow = PublishConfig(calm=BackoffPolicy(first=3600.0, limit=3600.0))
    contents = pool(200, taint="gone")
    async with publishing(client, contents):
        pass
    for one in await stored(client):
        await client.update(RESOURCE_SLICES, to_raw(replace(one, spec=tainted_at(one.spec, LONG_AGO))))
    async with publishing(client, contents, config=slow) as (publisher, seen):
        assert seen.verbs == []
        before = await stored(client)
        for one in before:
            await client.delete(RESOURCE_SLICES, one.metadata.name)
        publisher.wake()
        after = await wait_complete(client, contents)
        # A taint does not begin anew.
        assert [one.spec.devices for one in after] == [one.spec.devices for one in before]
        assert {
            taint.time_added for one in after for device in one.spec.devices or () for taint in device.taints
        } == {LONG_AGO}


async def test_a_stray_slice_does_not_date_a_taint(client: Client) -> None:
    contents = pool(1, taint="gone")
    async with publishing(client, contents):
        pass
    (made,) = await stored(client)
    spec = tainted_at(made.spec, LONG_AGO)
    await client.update(RESOURCE_SLICES, to_raw(replace(made, spec=spec)))
    stray = ObjectMeta(name="zzz", owner_references=made.metadata.owner_references)
    await client.create(RESOURCE_SLICES, ResourceSlice(metadata=stray, spec=made.spec))
    async with publishing(client, contents) as (_, seen):
        assert seen.verbs == ["delete"]
    assert [one.spec.devices for one in await stored(client)] == [spec.devices]


async def test_slices_are_taken_away_on_demand_only(client: Client) -> None:
    async with publishing(client, pool(200)):
        pass
    assert is_complete(await stored(client), pool(200))
    other = PoolOwner("usb.dray.internal", OWNER.node)
    async with publishing(client, pool(1), other):
        pass
    async with publishing(client, pool(200), config=PublishConfig(remove=True)) as (_, seen):
        assert seen.verbs == []
    assert [one.spec.driver for one in await stored(client)] == [other.driver]


async def test_counters_come_first(client: Client) -> None:
    devices = tuple(pool_device(f"p{i}", counters=["g0"]) for i in range(3))
    contents = PoolContents(devices, (counter_set("g0"),))
    async with publishing(client, contents):
        counters, partitions = await stored(client)
        assert counters.spec.shared_counters == contents.counters
        assert partitions.spec.devices == devices
        assert is_complete([counters, partitions], contents)


async def test_two_processes_of_one_driver_do_not_fight(client: Client) -> None:
    contents = pool(200)
    async with publishing(client, contents) as (_, first), publishing(client, contents) as (_, second):
        for one in (first, second):
            await looked_again(one, lambda: touch(client))
        assert (len(first.verbs), second.verbs) == (2, [])
        document = await client.get_raw(RESOURCE_SLICES, (await stored(client))[0].metadata.name)
        await client.delete(RESOURCE_SLICES, document["metadata"]["name"])
        await wait_complete(client, contents)
        for one in (first, second):
            await looked_again(one, lambda: touch(client))
        await wait_complete(client, contents, lambda found: len(found) == 2)


async def test_the_node_is_looked_up_and_may_become_another_one(client: Client) -> None:
    await client.delete(NODES, NODE.name)
    seen = Seen()
    async with SlicePublisher(client, OWNER, QUICK, observer=seen) as publisher:
        publisher.want(pool(1))
        await wait_until(lambda: bool(seen.failures))
        assert isinstance(seen.failures[0], UnavailableError)
        for _ in range(2):
            uid = await add_node(client)
            owner = PoolOwner(DRIVER, NodeRef(NODE.name, uid)).reference

            async def is_owned(owner: OwnerReference = owner) -> bool:
                return [one.metadata.owner_references for one in await stored(client)] == [(owner,)]

            await until(is_owned)
            await client.delete(NODES, NODE.name)


@pytest.mark.parametrize("count", range(1, 7))
async def test_killed_after_any_step(client: Client, count: int) -> None:
    """From two slices, one of which somebody spoiled, to three."""
    async with publishing(client, pool(200)):
        pass
    spec = (await stored(client))[0].spec
    await client.create(RESOURCE_SLICES, ResourceSlice(metadata=ObjectMeta(name="odd"), spec=spec))
    seen = Seen()
    with pytest.raises(KilledError):
        async with SlicePublisher(client, OWNER, QUICK, observer=seen, reached=Kill(count)) as publisher:
            publisher.want(pool(300))
            async with asyncio.timeout(PATIENCE):
                await publisher.wait_published()
            for _ in range(count):  # where all is done in fewer steps, it dies as it looks again
                await looked_again(seen, lambda: touch(client))
    async with publishing(client, pool(300)) as (_, seen):
        slices = await stored(client)
        assert is_complete(slices, pool(300))
        assert seen.failures == []


async def test_whatever_happens_the_pool_ends_right(client: Client) -> None:
    """Wants, foreign writes, kills and wakes in any order."""
    rng = seeded(7)
    for _ in range(campaign(6, 300)):
        contents = pool(rng.choice([0, 3, 130, 260]), rng.choice(["", "x"]), rng.choice(["", "gone"]))
        try:
            async with SlicePublisher(client, OWNER, QUICK, reached=Kill(rng.randrange(1, 12))) as publisher:
                for _ in range(rng.randrange(4)):
                    publisher.want(pool(rng.choice([1, 130, 300]), rng.choice(["", "y"])))
                    await _meddle(client, rng)
                    if rng.random() < 0.3:
                        publisher.wake()
                    await asyncio.sleep(rng.choice([0.0, 0.01, 0.05]))
        except KilledError:
            pass
        async with publishing(client, contents):
            found = await wait_complete(client, contents)
            names = [device.name for one in found for device in one.spec.devices or ()]
            assert names == [device.name for device in contents.devices]


async def _meddle(client: Client, rng: random.Random) -> None:
    for one in await stored(client):
        try:
            if rng.random() < 0.2:
                await client.delete(RESOURCE_SLICES, one.metadata.name)
            elif rng.random() < 0.2:
                spec = msgspec.structs.replace(one.spec, devices=None)
                await client.update(RESOURCE_SLICES, dict(to_raw(msgspec.structs.replace(one, spec=spec))))
        except Error:
            continue  # the publisher was faster
