"""kube-scheduler and Dray's scheduler give out the same devices at the same time, with the guard between them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from pathlib import Path

import pytest

from dray.api.kinds import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.client.client import Client
from dray.client.informer import Informer
from dray.client.requests import WriteOptions
from dray.errors import Error
from dray.runtime.tasks import running
from dray.testing.kubernetes.tools import Tools
from dray.testing.settled import disorder
from tests.campaign import campaign, seeded
from tests.e2e import shared_workload as workload
from tests.e2e.claim_witness import Witness
from tests.e2e.shared_cluster import Shared, shared
from tests.waiting import PATIENCE

PODS_IN_ALL = campaign(60, 1000)
NODES_IN_ALL = campaign(3, 20)
LIVE = NODES_IN_ALL * 14
"""Pods at once: more than there are devices for, so that some wait."""
BURST = 12


@pytest.mark.parametrize("seed", range(20_260, 20_260 + campaign(1, 3)))
async def test_two_schedulers_share_the_devices(tools: Tools, tmp_path: Path, seed: int) -> None:
    async with shared(tools, tmp_path, seed) as both:
        await both.fill(NODES_IN_ALL)
        await both.start("dray-controllers", "msg=guarding")
        await wait_asked(both.client)
        await both.start("dray-scheduler", "msg=ready")
        await both.start("kube-scheduler")
        witness = Witness((await both.client.list(RESOURCE_SLICES)).items)
        async with running(witness.run(both.client), name="witness"):
            async with Informer(both.client, PODS) as pods:
                pods.on_change(both.see_pod)
                await churn(both)
                waited = await drain(both)
                await meet(both)
            await settle(both)
        assert "forbidden" not in both.parts["dray-controllers"].log.read_text()
        bound, refused = Counter(both.bound.values()), both.refused()
    print(
        f"seed {seed}: {dict(bound)} bound, {witness.allocations} allocations, refused {refused}, {waited} had to wait"
    )
    assert witness.seen == []
    assert waited, "there were devices for all"
    assert min(bound.values()) > PODS_IN_ALL // 10, "one of them starved"
    assert sum(refused.values()) >= campaign(1, 10), "nobody was in anybody's way: this run has shown nothing"


async def churn(both: Shared) -> None:
    """Pods come in bursts, so that both schedulers decide at once, and go at random. In one of the bursts the guard is killed."""
    bursts = range(0, PODS_IN_ALL, BURST)
    for first in bursts:
        async with asyncio.TaskGroup() as group:
            for number in range(first, min(first + BURST, PODS_IN_ALL)):
                group.create_task(both.add(number))
            if first == bursts[len(bursts) // 2]:
                group.create_task(both.kill_guard())
        pods = list(await both.pods())
        both.dice.shuffle(pods)
        keep = min(LIVE, len(pods)) - both.dice.randint(0, BURST // 2)
        async with asyncio.TaskGroup() as group:
            for one in pods[keep:]:
                group.create_task(both.remove(one))


async def meet(both: Shared) -> None:
    """Where chance has kept the schedulers out of each other's way so far: more pods at once, until it has not."""
    for burst in range(campaign(20, 0)):
        if sum(both.refused().values()):
            return
        async with asyncio.TaskGroup() as group:
            for one in await both.pods():
                group.create_task(both.remove(one))
        first = PODS_IN_ALL + burst * BURST
        async with asyncio.TaskGroup() as group:
            for number in range(first, first + BURST):
                group.create_task(both.add(number))
        await both.wait_nobody_overlooked()


async def drain(both: Shared) -> int:
    """Bound pods go until nobody waits. Whenever nothing moves, no devices are free that would do for those that wait.

    Gives how many waited when all had come.
    """
    waited: int | None = None
    while True:
        await both.wait_nobody_overlooked()
        pods = await both.pods()
        placed = [one for one in pods if one.spec.node_name]
        waited = len(pods) - len(placed) if waited is None else waited
        if len(placed) == len(pods):
            return waited
        for one in placed:
            if both.dice.random() < 0.5:
                await both.remove(one)


async def settle(both: Shared) -> None:
    """The controllers have their own pace."""
    found = ["not looked yet"]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while found:
                await asyncio.sleep(0.2)
                found = disorder(await both.picture())
    assert found == []


async def wait_asked(client: Client) -> None:
    """The API server takes a moment to hear of a webhook: until then it lets everything through."""
    await client.create(
        RESOURCE_CLAIMS,
        workload.claim("twice", seeded(0)) | {"metadata": {"name": "twice", "namespace": workload.NS}},
    )
    one = {"request": "r", "driver": workload.WHOLE, "pool": "none", "device": "d"}
    change = {"status": {"allocation": {"devices": {"results": [one, one]}}}}
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.patch(
                    RESOURCE_CLAIMS,
                    "twice",
                    change,
                    namespace=workload.NS,
                    subresource="status",
                    options=WriteOptions(dry_run=True),
                )
            except Error as error:
                assert "denied the request" in str(error), error
                break
            await asyncio.sleep(0.05)
    await client.delete(RESOURCE_CLAIMS, "twice", namespace=workload.NS)
