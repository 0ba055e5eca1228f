from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.kinds import LEASES
from dray.client.client import Client
from dray.errors import UnavailableError
from dray.runtime.clock import FakeClock
from dray.up.fleet.leases import ROUND, HollowLeases
from dray.up.fleet.objects import LEASE_NAMESPACE
from tests.up.fleet.fleet_cluster import server


async def test_leases_are_made_and_renewed(tmp_path: Path) -> None:
    clock = FakeClock()
    async with server(tmp_path) as client:
        leases = HollowLeases(client, clock, list)
        await leases.renew(["a", "b"])
        first = (await client.list(LEASES)).items
        assert [one.metadata.name for one in first] == ["a", "b"]
        assert [one.spec.lease_duration_seconds for one in first] == [40, 40]
        await clock.advance(5)
        await leases.renew(["a"])
        await leases.create("a")
        second = await client.get(LEASES, "a", namespace=LEASE_NAMESPACE)
        assert second.spec.renew_time == "2030-01-01T00:00:05.000000Z"
        assert second.metadata.uid == first[0].metadata.uid
    async with Client(client.access) as client:
        with pytest.raises(UnavailableError):
            await HollowLeases(client, clock, list).renew(["a", "b"])


@pytest.mark.parametrize("count", [0, 1, 19, 20, 21, 1000])
async def test_every_node_has_its_turn_within_a_round(count: int, tmp_path: Path) -> None:
    names = [f"n-{number:04}" for number in range(count)]
    async with server(tmp_path) as client:
        leases = HollowLeases(client, FakeClock(), lambda: names)
        turns = [leases.next_turn() for _ in range(ROUND)]
    assert {name for turn in turns for name in turn} == set(names)
    assert max(len(turn) for turn in turns) == -(-count // ROUND)


async def test_nodes_that_come_and_go_in_between_do_no_harm(tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    async with server(tmp_path) as client:
        leases = HollowLeases(client, FakeClock(), lambda: names)
        assert [list(leases.next_turn()) for _ in range(2)] == [["a"], ["b"]]
        names.clear()
        assert list(leases.next_turn()) == []
        names += ["x"]
        assert list(leases.next_turn()) == ["x"]
