from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest

from dray.api.kinds import DEVICE_CLASSES, LEASES, NODES, PODS, RESOURCE_SLICES
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.requests import DeleteOptions
from dray.drivers.sim.profile import HOLLOW_LABEL, SimProfile
from dray.errors import ConflictError
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.runtime.clock import SystemClock
from dray.up.fleet.hollow_fleet import HollowFleet
from dray.up.fleet.objects import LEASE_NAMESPACE
from dray.up.fleet.profile_file import read_profile
from tests.campaign import campaign, seeded
from tests.processes.fast_clock import FastClock
from tests.up.fleet.fleet_cluster import GPUS, NS, fleet, server, small
from tests.waiting import until

Versions = dict[str, tuple[str, str]]


async def versions(client: Client) -> Versions:
    """Uid and version of all nodes and slices by name."""
    nodes, slices = (await client.list(NODES)).items, (await client.list(RESOURCE_SLICES)).items
    metas = [*(one.metadata for one in nodes), *(one.metadata for one in slices)]
    return {meta.name: (meta.uid, meta.resource_version) for meta in metas}


async def owned(client: Client) -> Counter[str]:
    """How many slices each node has that is there."""
    uids = {one.metadata.uid: one.metadata.name for one in (await client.list(NODES)).items}
    slices = (await client.list(RESOURCE_SLICES)).items
    return Counter(uids[one.metadata.owner_references[0].uid] for one in slices)


async def test_nodes_leases_slices_and_classes_are_written(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    async with server(tmp_path) as client:
        made = HollowFleet(client, small(3, 2), SystemClock(), lambda done, total: told.append((done, total)))
        async with made.running():
            await asyncio.wait_for(made.wait_written(), 60)
            nodes = (await client.list(NODES)).items
            assert [one.metadata.name for one in nodes] == ["n-0", "n-1", "n-2"]
            assert {one.metadata.labels[HOLLOW_LABEL] for one in nodes} == {"true"}
            assert {str(one.status.allocatable["example.com/plugin"]) for one in nodes} == {"4"}
            slices = (await client.list(RESOURCE_SLICES)).items
            assert {one.metadata.labels[HOLLOW_LABEL] for one in slices} == {"true"}
            assert {one.spec.pool.name: len(one.spec.devices or ()) for one in slices} == {
                "n-0": 2,
                "n-1": 2,
                "n-2": 2,
            }
            assert [one.metadata.name for one in (await client.list(LEASES)).items] == ["n-0", "n-1", "n-2"]
            assert [one.metadata.name for one in (await client.list(DEVICE_CLASSES)).items] == ["gpu"]
    assert told == [(1, 3), (2, 3), (3, 3)]


async def test_started_again_nothing_is_written(tmp_path: Path) -> None:
    async with server(tmp_path) as client:
        async with fleet(client, small(3)):
            first = await versions(client)
        async with fleet(client, small(3)):
            assert await versions(client) == first


async def test_another_profile_changes_what_differs_and_removes_the_rest(tmp_path: Path) -> None:
    async with server(tmp_path) as client:
        async with fleet(client, small(4, 2)):
            first = await versions(client)
        async with fleet(client, small(2, 3)):
            second = await versions(client)
            slices = (await client.list(RESOURCE_SLICES)).items
            assert [(one.spec.node_name, len(one.spec.devices or ())) for one in slices] == [
                ("n-0", 3),
                ("n-1", 3),
            ]
            assert second["n-0"] == first["n-0"]
            leases = (await client.list(LEASES)).items
            assert [one.metadata.name for one in leases] == ["n-0", "n-1"]
        async with fleet(client, SimProfile()):
            assert await versions(client) == {}


async def test_a_profile_without_nodes_follows_nothing(tmp_path: Path) -> None:
    async with server(tmp_path) as client, fleet(client, SimProfile()):
        assert await versions(client) == {}


async def test_what_others_delete_comes_back(tmp_path: Path) -> None:
    async with server(tmp_path) as client, fleet(client, small(2)):
        before = await versions(client)
        await client.delete(NODES, "n-0")
        lost = next(name for name in sorted(before) if "-n-1-" in name)
        await client.delete(RESOURCE_SLICES, lost)

        async def is_whole() -> bool:
            now = await versions(client)
            return now.get("n-0", before["n-0"]) != before["n-0"] and await owned(client) == {
                "n-0": 1,
                "n-1": 1,
            }

        assert await until(is_whole)


async def test_what_others_change_is_put_right(tmp_path: Path) -> None:
    async with server(tmp_path) as client, fleet(client, small(1)):
        (one,) = (await client.list(RESOURCE_SLICES)).items
        document = await client.get_raw(RESOURCE_SLICES, one.metadata.name)
        document["spec"]["devices"] = document["spec"]["devices"][:1]
        await client.update(RESOURCE_SLICES, document)
        unknown = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        await client.patch(NODES, "n-0", unknown, subresource="status")
        await client.patch(NODES, "n-0", {"metadata": {"labels": {"topology.kubernetes.io/zone": "x"}}})

        async def is_right() -> bool:
            node = await client.get(NODES, "n-0")
            found = await client.get(RESOURCE_SLICES, one.metadata.name)
            return (
                len(found.spec.devices or ()) == 2
                and node.status.conditions[0].status == "True"
                and node.metadata.labels["topology.kubernetes.io/zone"] == "a"
            )

        assert await until(is_right)


async def test_a_node_of_somebody_else_is_never_taken(tmp_path: Path) -> None:
    async with server(tmp_path) as client:
        real = await client.create(NODES, {"metadata": {"name": "n-1"}})
        with pytest.raises(ConflictError, match="'n-1' is there and is not a hollow one"):
            async with fleet(client, small(2)):
                pass
        assert (await client.get(NODES, "n-1")).metadata.resource_version == real.metadata.resource_version
        assert list(await versions(client)) == ["n-1"]


async def test_leases_are_renewed(tmp_path: Path) -> None:
    async with server(tmp_path) as client, fleet(client, small(2), FastClock(50)):
        first = {one.metadata.name: one.spec.renew_time for one in (await client.list(LEASES)).items}

        async def are_new() -> bool:
            now = [await client.get(LEASES, name, namespace=LEASE_NAMESPACE) for name in first]
            return all(one.spec.renew_time != first[one.metadata.name] for one in now)

        assert await until(are_new)


async def test_pods_of_other_nodes_are_left_alone(tmp_path: Path) -> None:
    container = {"name": "c", "image": "i"}
    async with server(tmp_path) as client:
        await client.create(NODES, {"metadata": {"name": "real"}})
        async with fleet(client, small(1)):
            for name, node in (("a", "real"), ("b", "n-0")):
                spec = {"nodeName": node, "containers": [container]}
                await client.create(PODS, {"metadata": {"name": name, "namespace": NS}, "spec": spec})

            async def runs() -> bool:
                return (await client.get(PODS, "b", namespace=NS)).status.phase == "Running"

            assert await until(runs)
            assert (await client.get(PODS, "a", namespace=NS)).status.phase == "Pending"
            options = DeleteOptions(grace_period=0)
            await client.delete(PODS, "a", namespace=NS, options=options)


async def test_killed_at_any_moment_nothing_is_doubled(tmp_path: Path) -> None:
    """A process is killed while it writes, again and again; the next one goes on."""
    rng, count = seeded(7), 40
    profile = tmp_path / "p.yaml"
    profile.write_text(GPUS.format(count=count, devices=2))
    options = ApiServerOptions(tmp_path / "data", Address("127.0.0.1", 0))
    program = Path(__file__).with_name("fleet_program.py")
    async with api_server(options) as at, Client(find_access(at.kubeconfig)) as client:
        for _ in range(campaign(2, 40)):
            process = await asyncio.create_subprocess_exec(
                sys.executable, program, at.kubeconfig, profile, stdout=asyncio.subprocess.PIPE
            )
            assert process.stdout is not None
            for _ in range(rng.randrange(1, 20)):
                await asyncio.wait_for(process.stdout.readline(), 60)
            await asyncio.sleep(rng.random() * 0.01)
            process.kill()
            await process.wait()
            for one in rng.sample((await client.list(RESOURCE_SLICES)).items, 1):
                await client.delete(RESOURCE_SLICES, one.metadata.name)
        async with fleet(client, read_profile(profile.read_text(), "p.yaml")):
            found = await owned(client)
            assert found == {f"n-{number:02}": 1 for number in range(count)}
