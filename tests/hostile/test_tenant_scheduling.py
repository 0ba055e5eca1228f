"""Claims of all kinds come to a scheduler that others use as well: each is decided or stopped, and a hundred plain pods a minute bind."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dray.api.codec.json_codec import to_raw
from dray.api.kinds import DEVICE_CLASSES, NAMESPACES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.cli.main import make_parser
from dray.cli.scheduler import make_options
from dray.client.requests import DeleteOptions
from dray.errors import NotFoundError
from dray.runtime.forked import Limits
from dray.scheduler.apart import ApartOptions
from tests.campaign import seeds
from tests.hostile.deciding import classes, shared_slice
from tests.hostile.test_tenant_claims import ENDLESS, LARGE, SMALL, Maker
from tests.mig_pool import NODE, mig_slices
from tests.scheduler.live import CONFIG, Live, live, scheduling, until

Json = dict[str, Any]
HANG = 120.0
AT_ONCE = 8
PACE = 0.6
"""Seconds from one plain pod to the next: a hundred a minute."""
TENANT = "tenant"
SCHEDULER = replace(CONFIG, apart=ApartOptions(limits=Limits(seconds=0.5)))


async def furnish(server: Live) -> None:
    """The node of eight cards, and one that is plain."""
    await server.client.create(NAMESPACES, {"metadata": {"name": TENANT}})
    await server.node(NODE, 0)
    await server.node("plain", 0, has={"pods": "1000", "cpu": "1000", "memory": "1Ti"})
    for one in classes():
        await server.client.create(DEVICE_CLASSES, to_raw(one))
    for part in (*mig_slices(), shared_slice()):
        await server.client.create(RESOURCE_SLICES, to_raw(part))


async def decided(server: Live, name: str, claims: list[Json]) -> str:
    """A pod with these claims comes and is decided; then all of it goes. Return what its condition said, "" where it was bound."""
    client = server.client
    names = [f"{name}-{place}" for place in range(len(claims))]
    for own, claim in zip(names, claims, strict=True):
        await client.create(RESOURCE_CLAIMS, {**claim, "metadata": {"name": own}}, namespace=TENANT)
    entries = [{"name": one, "resourceClaimName": one} for one in names]
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": one} for one in names]}}
    spec = {
        "schedulerName": "dray",
        "resourceClaims": entries,
        "containers": [container],
    }
    await client.create(PODS, {"metadata": {"name": name}, "spec": spec}, namespace=TENANT)
    told = ""

    async def is_decided() -> bool:
        nonlocal told
        found = await client.get(PODS, name, namespace=TENANT)
        told = next((one.message for one in found.status.conditions if one.type == "PodScheduled"), "")
        return bool(found.spec.node_name or told)

    await until(is_decided, HANG, 0.02)
    await client.delete(PODS, name, namespace=TENANT, options=DeleteOptions(grace_period=0))
    free = {"status": {"allocation": None, "reservedFor": None}}
    for own in names:
        await client.patch(RESOURCE_CLAIMS, own, free, namespace=TENANT, subresource="status")
        await client.patch(RESOURCE_CLAIMS, own, {"metadata": {"finalizers": None}}, namespace=TENANT)
        with suppress(NotFoundError):
            await client.delete(RESOURCE_CLAIMS, own, namespace=TENANT)
    return told


@dataclass
class Plain:
    """Of the plain pods: how many were made, and how many of those were bound."""

    made: int = 0
    bound: int = 0


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--decision-timeout=0.4"], "stopped after 0.1"),
        (["--filter-timeout=0.3", "--decision-timeout=60"], "stopped after 0.3 s"),
    ],
    ids=["decision", "filter"],
)
async def test_the_flags_say_how_long_it_may_take(tmp_path: Path, flags: list[str], told: str) -> None:
    words = ["scheduler", *flags]
    config = make_options(make_parser(words).parse_args(words)).config
    async with live(tmp_path) as server:
        await furnish(server)
        async with scheduling(server, config):
            await server.client.create(
                RESOURCE_CLAIMS, {**ENDLESS, "metadata": {"name": "endless"}}, namespace="default"
            )
            await server.pod("endless", resourceClaims=[{"name": "x", "resourceClaimName": "endless"}])
            # The other node waits to be asked: of the time for all, this one has half.
            where = f"SchedulerError: node {NODE}: timed out trying to allocate devices (the search for devices was "
            assert (await server.wait_message("endless", "stopped after")).startswith(where + told)


async def bind_plain(server: Live, name: str, count: Plain) -> None:
    await server.pod(name)

    async def is_bound() -> bool:
        return bool((await server.get_pod(name)).spec.node_name)

    await until(is_bound, HANG, 0.05)
    count.bound += 1
    await server.end(name)


async def bind_plain_ones(
    server: Live, group: asyncio.TaskGroup, count: Plain, is_over: asyncio.Event
) -> None:
    """As many as are due, however late this task has its turn, until it is over. The caller waits for those in flight."""
    started = time.monotonic()
    while True:
        ends = is_over.is_set()
        seconds = time.monotonic() - started
        due = int(seconds / PACE) + 1
        for number in range(count.made, due):
            group.create_task(bind_plain(server, f"plain-{number}", count))
        count.made = due
        if ends:
            break
        await asyncio.sleep(PACE / 2)
    waiting = count.made - count.bound
    print(f"plain pods: {count.bound} bound and {waiting} in flight after {seconds:.1f} s")
    assert count.bound >= seconds / PACE - waiting
    # They were bound beside the claims, not after them.
    assert waiting <= count.made // 2 + 5


async def test_random_claims_and_a_hundred_plain_pods_a_minute(tmp_path: Path) -> None:
    waiting = [(f"p-{seed}", Maker(seed).question("")["claims"]) for seed in seeds(24, 10_000)]
    waiting.insert(AT_ONCE, ("endless", [ENDLESS]))
    waiting.insert(AT_ONCE, ("large", [LARGE]))
    told: dict[str, str] = {}

    async def work(server: Live) -> None:
        while waiting:
            name, claims = waiting.pop()
            told[name] = await decided(server, name, claims)

    async def is_small_one_bound(server: Live) -> bool:
        return await decided(server, "small", [SMALL]) == ""

    async with live(tmp_path) as server:
        await furnish(server)
        async with scheduling(server, SCHEDULER), asyncio.TaskGroup() as group:
            count, is_over = Plain(), asyncio.Event()
            group.create_task(bind_plain_ones(server, group, count, is_over))
            async with asyncio.TaskGroup() as workers:
                for _ in range(AT_ONCE):
                    workers.create_task(work(server))
            # The scheduler may hear a little later that the others are gone.
            await until(partial(is_small_one_bound, server), HANG, 0.05)
            is_over.set()
    assert count.made > 0 and count.bound == count.made, "each plain pod was bound"
    assert "the search for devices was stopped after 0." in told["endless"]
    assert "cannot allocate all claims" in told["large"]
