"""The same slices before, the same pool wanted: our publisher and Kubernetes' own controller do the same.

Compared: the slices at the end, and how many were created, updated and deleted. Three differences stay. Kubernetes'
controller takes either of two slices for one index, ours the first by name. Ours puts the owner of a slice right. And
ours keeps the time of a taint when its device goes to another slice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api.codec import to_raw
from dray.api.core import Node
from dray.api.kinds import NODES, RESOURCE_SLICES
from dray.api.meta import ObjectMeta
from dray.api.resource.slice import ResourceSlice
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.dra.parcels import NodeRef
from dray.dra.slices.layout import SliceContents
from dray.dra.slices.publish import SlicePublisher
from dray.dra.slices.reconcile import PoolOwner
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.testing.kubernetes.control_plane import ControlPlane
from tests.campaign import seeds
from tests.dra.pools import DRIVER, pool
from tests.dra.test_publish import QUICK, Seen, looked_again, touch
from tests.oracle_driver.program import DriverOracle
from tests.oracle_driver.states import LONG_AGO, Case, Found, random_case, with_twin
from tests.waiting import PATIENCE

FIRST_SEED, AT_ONCE = 318, 20
Json = dict[str, Any]


@dataclass
class Server:
    """An API server with nodes of ours; `uids` by name."""

    kubeconfig: Path
    client: Client
    uids: dict[str, str]

    def owner(self, case: Case) -> PoolOwner:
        return PoolOwner(DRIVER, NodeRef(case.node, self.uids[case.node]))

    async def stored(self, node: str) -> list[ResourceSlice]:
        return [one for one in (await self.client.list(RESOURCE_SLICES)).items if one.spec.node_name == node]

    async def clear(self, node: str) -> None:
        for one in await self.stored(node):
            await self.client.delete(RESOURCE_SLICES, one.metadata.name)

    async def start(self, case: Case) -> None:
        """Its node is there, and on it what the case says."""
        if case.node not in self.uids:
            made = await self.client.create(NODES, Node(metadata=ObjectMeta(name=case.node)))
            self.uids[case.node] = made.metadata.uid
        await self.clear(case.node)
        for one in case.objects(self.owner(case)):
            await self.client.create(RESOURCE_SLICES, one)

    async def leave(self) -> None:
        for node in self.uids:
            await self.clear(node)
            await self.client.delete(NODES, node)


@asynccontextmanager
async def serving(kubeconfig: Path) -> AsyncIterator[Server]:
    async with Client(find_access(kubeconfig, environ={})) as client:
        server = Server(kubeconfig, client, {})
        try:
            yield server
        finally:
            async with asyncio.timeout(PATIENCE):
                await server.leave()


@pytest.fixture(params=["embedded", "real"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    if request.param == "real":
        real: ControlPlane = request.getfixturevalue("apiserver")
        async with serving(real.kubeconfig) as entered:
            yield entered
    else:
        async with (
            api_server(ApiServerOptions(tmp_path / "data", Address())) as ours,
            serving(ours.kubeconfig) as entered,
        ):
            yield entered


@dataclass(frozen=True)
class End:
    """The slices, and the numbers of creates, updates and deletes. `kept`: taints that still have their old time."""

    slices: list[Json]
    calls: tuple[int, int, int]
    kept: frozenset[tuple[str, str]]


async def theirs(server: Server, oracle: DriverOracle, cases: Sequence[Case]) -> list[End]:
    pools = [_pool(server.owner(case), case) for case in cases]
    asked = {"ask": "slices", "kubeconfig": str(server.kubeconfig), "pools": pools}
    answer = await asyncio.to_thread(oracle.ask, asked)
    ends = []
    for case, one in zip(cases, answer["pools"], strict=True):
        assert one["errors"] == [], case.node
        ends.append(await _end(server, case, (one["creates"], one["updates"], one["deletes"])))
    return ends


def _pool(owner: PoolOwner, case: Case) -> Json:
    slices = [
        {"devices": [*map(to_raw, one.devices)], "sharedCounters": [*map(to_raw, one.counters)]}
        for one in case.slices
    ]
    return {"driver": DRIVER, "node": case.node, "uid": owner.node.uid, "slices": slices}


async def ours(server: Server, cases: Sequence[Case]) -> list[End]:
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(_publish(server, case)) for case in cases]
    return [one.result() for one in running]


async def _publish(server: Server, case: Case) -> End:
    seen = Seen()
    async with SlicePublisher(server.client, server.owner(case), QUICK, observer=seen) as publisher:
        publisher.want(case.wanted)
        async with asyncio.timeout(PATIENCE):
            await publisher.wait_published()
        verbs = Counter(seen.verbs)
        end = await _end(server, case, (verbs["create"], verbs["update"], verbs["delete"]))
        await looked_again(seen, lambda: touch(server.client, case.node))
        assert Counter(seen.verbs) == verbs, "there is no second round"
    assert seen.failures == []
    return end


async def _end(server: Server, case: Case, calls: tuple[int, int, int]) -> End:
    slices = await server.stored(case.node)
    before = {one.metadata.name for one in case.objects(server.owner(case))}
    kept = frozenset(
        (device.name, taint.key)
        for one in slices
        for device in one.spec.devices or ()
        for taint in device.taints
        if taint.time_added == LONG_AGO
    )
    shown = [_shown(one, one.metadata.name in before) for one in slices]
    return End(sorted(shown, key=lambda one: str(one["name"])), calls, kept)


def _shown(one: ResourceSlice, is_old: bool) -> Json:
    """One that was there keeps its name; of a new one the server makes the end. Times of taints are looked at elsewhere."""
    devices = tuple(
        msgspec.structs.replace(
            device,
            taints=tuple(msgspec.structs.replace(taint, time_added=None) for taint in device.taints),
        )
        for device in one.spec.devices or ()
    )
    metadata = one.metadata
    return {
        "name": metadata.name if is_old else metadata.name.rpartition("-")[0],
        "labels": dict(metadata.labels),
        "owners": [*map(to_raw, metadata.owner_references)],
        "spec": to_raw(msgspec.structs.replace(one.spec, devices=devices)),
    }


async def both(server: Server, oracle: DriverOracle, cases: Sequence[Case]) -> list[tuple[End, End]]:
    """What comes of the cases, theirs and ours."""
    for case in cases:
        await server.start(case)
    first = await theirs(server, oracle, cases)
    for case in cases:
        await server.start(case)
    return list(zip(first, await ours(server, cases), strict=True))


async def test_random_states(server: Server) -> None:
    seen, wrong = Counter[str](), []
    with DriverOracle() as oracle:
        for first in seeds(20, 500, first=FIRST_SEED)[::AT_ONCE]:
            cases = [random_case(seed) for seed in range(first, first + AT_ONCE)]
            for case, (their, our) in zip(cases, await both(server, oracle, cases), strict=True):
                if (their.slices, their.calls) != (our.slices, our.calls) or not their.kept <= our.kept:
                    wrong.append(_told(case, their, our))
                seen["nothing to do" if not any(our.calls) else "calls"] += 1
                seen["old times in an update"] += bool(their.kept and our.calls[1])
                seen.update(verb for verb, count in zip("cud", our.calls, strict=True) if count)
            await server.leave()
            server.uids.clear()
    print(dict(seen))
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:3])
    assert (
        min(seen[what] for what in ("nothing to do", "old times in an update", *"cud")) > 0
    )  # or they would show little


def _told(case: Case, their: End, our: End) -> str:
    found = [
        (one.name, one.at, one.driver, one.generation, one.count, len(one.contents.devices))
        for one in case.found
    ]
    sizes = [(len(one.devices), len(one.counters)) for one in case.slices]
    ends = [
        (end.calls, len(end.kept), [(one["name"], one["spec"]["pool"]) for one in end.slices])
        for end in (their, our)
    ]
    return f"seed {case.seed}: {found} -> {sizes}: theirs {ends[0]}, ours {ends[1]}"


async def test_two_slices_of_one_index(server: Server) -> None:
    """One stays, and is as wanted; which one, theirs leaves to chance."""
    old, new = pool(3), pool(3, mark="new")
    case = with_twin(Case(0, (Found(f"00000-{DRIVER}", SliceContents(old.devices), 1, 1),), new))
    with DriverOracle() as oracle:
        ((their, our),) = await both(server, oracle, [case])
    assert their.calls == our.calls == (0, 1, 1)
    assert [one["spec"] for one in their.slices] == [one["spec"] for one in our.slices]
    assert [one["name"] for one in our.slices] == [f"00000-{DRIVER}-{case.node}"]


async def test_only_we_put_the_owner_right(server: Server) -> None:
    """A slice without it would not go when its node goes."""
    case = Case(1, (), pool(3))
    await server.start(case)
    await ours(server, [case])
    (stored,) = await server.stored(case.node)
    metadata = msgspec.structs.replace(stored.metadata, owner_references=())
    await server.client.update(RESOURCE_SLICES, to_raw(msgspec.structs.replace(stored, metadata=metadata)))
    with DriverOracle() as oracle:
        (their,) = await theirs(server, oracle, [case])
    (our,) = await ours(server, [case])
    assert (their.calls, our.calls) == ((0, 0, 0), (0, 1, 0))
    assert their.slices[0]["owners"] == []
    assert our.slices[0]["owners"] == [to_raw(server.owner(case).reference)]
