"""The control plane on a disk that is full for a while, and under clocks that jump."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import NoReturn

import pytest

from dray.api.kinds import CONFIG_MAPS, LEASES, NODES
from dray.api.meta import format_micro_time
from dray.apiserver.check import check_store
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.leader import LeaderConfig
from dray.client.lease import LeaseTimes
from dray.controllers.choice import ALL, policies
from dray.controllers.nodes import LEASE_NAMESPACE
from dray.controllers.pictures import Surroundings
from dray.errors import UnavailableError
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.processes.controllers import ControllersOptions, controllers
from dray.processes.scheduler import SchedulerOptions, run_scheduler
from dray.runtime.clock import SystemClock
from dray.runtime.tasks import running
from tests.campaign import campaign, seeded
from tests.processes.control_plane import control_plane
from tests.processes.small_disk import small_disk
from tests.processes.storm import finish, furnished, storm


async def test_the_disk_is_full(tmp_path: Path) -> None:
    """Writes are refused and say why, reads go on; with space everything goes on by itself."""
    async with (
        small_disk(tmp_path / "data", megabytes=campaign(8, 128)) as disk,
        control_plane(tmp_path, disk.enter, disk.root) as (plane, client),
    ):
        work = await furnished(client)
        await asyncio.gather(*(one.start() for one in (plane.scheduler(), plane.controllers())))
        refused = 0

        async def fill_for_a_while() -> None:
            nonlocal refused
            disk.fill()
            try:
                for _ in range(10):
                    refused += await is_refused(client)
                    assert (await client.list(NODES)).items
                    await asyncio.sleep(0.05)
            finally:
                disk.free()

        await storm(work, campaign(2, 30), fill_for_a_while)
        assert refused > 10
        await finish(work)


async def is_refused(client: Client) -> bool:
    document = {"metadata": {"generateName": "c", "namespace": "default"}, "data": {"text": "x" * 20_000}}
    try:
        await client.create(CONFIG_MAPS, document)
    except UnavailableError as error:
        assert "the disk is full: free space on it" in str(error)
        return True
    return False


class JumpingClock(SystemClock):
    """The wall clock is wrong by `off`, which may change at any time."""

    def __init__(self) -> None:
        self.off = timedelta()

    def now(self) -> datetime:
        return super().now() + self.off


async def test_the_wall_clock_jumps(tmp_path: Path) -> None:
    """By hours, forwards and back. Leases, backoffs, grace times: nothing that waits may be measured with it."""
    clock, rng = JumpingClock(), seeded(1)
    lease = LeaderConfig("kube-system", "s", times=LeaseTimes(5.0, 3.5, 0.5))
    async with AsyncExitStack() as stack:
        found = await stack.enter_async_context(api_server(ApiServerOptions(tmp_path, Address()), clock))
        clients = [
            await stack.enter_async_context(Client(find_access(found.kubeconfig), clock=clock))
            for _ in range(2)
        ]
        work = await furnished(clients[0])
        options = SchedulerOptions(found.kubeconfig, lease=lease)
        await stack.enter_async_context(running(run_scheduler(options, clock), name="scheduler"))
        everything = ControllersOptions(None, ALL, policies("correct", ""))
        await stack.enter_async_context(controllers(Surroundings.of(clients[1], clock), everything))

        await stack.enter_async_context(running(live(clients[0], clock), name="nodes"))

        async def jump() -> None:
            clock.off = timedelta(hours=rng.uniform(-100, 100))

        await storm(work, campaign(8, 100), jump)
        tainted = [one for one in (await clients[0].list(NODES)).items if one.spec.taints]
        await finish(work)
    assert tainted == []
    assert check_store(tmp_path / "store.db").faults == ()


async def live(client: Client, clock: JumpingClock) -> NoReturn:
    """The nodes' kubelets as far as a controller sees them: leases, renewed by a clock that is wrong too."""
    nodes = [one.metadata.name for one in (await client.list(NODES)).items]
    for name in nodes:
        await client.create(LEASES, {"metadata": {"name": name, "namespace": LEASE_NAMESPACE}})
    while True:
        for name in nodes:
            renewed = {"spec": {"renewTime": format_micro_time(clock.now())}}
            await client.patch(LEASES, name, renewed, namespace=LEASE_NAMESPACE)
        await clock.sleep(5)


@pytest.mark.parametrize("hours", [-30, 30])
async def test_the_clock_was_wrong_when_the_server_started_first(tmp_path: Path, hours: int) -> None:
    """Versions go on, and the certificates made then are none that clients of today refuse."""
    clock, versions = JumpingClock(), []
    for off, name in ((hours, "a"), (0, "b"), (-50, "c")):
        clock.off = timedelta(hours=off)
        async with (
            api_server(ApiServerOptions(tmp_path, Address()), clock) as found,
            Client(find_access(found.kubeconfig)) as client,
        ):
            if off > 0:
                continue  # its certificate is of tomorrow
            made = await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "default"}})
            versions.append(int(made.metadata.resource_version))
            assert made.metadata.creation_timestamp is not None
            assert abs(made.metadata.creation_timestamp - clock.now()) < timedelta(minutes=1)
    assert versions == sorted(set(versions))
    assert check_store(tmp_path / "store.db").faults == ()
