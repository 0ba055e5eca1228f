"""Rules about device health and about the end of a driver."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from dray.testing.check.driver.subject import Driver, DriverSubject, each
from dray.testing.check.rules import Outcome, Rule, passed, skipped
from dray.testing.check.subject import cleans_up, stops
from dray.wire import health
from dray.wire.connect import connect
from dray.wire.gen.dra_health_v1_pb2 import NodeWatchResourcesRequest, NodeWatchResourcesResponse
from dray.wire.registration import first_known


async def health_stream(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """The first message; a driver that says it watches health must tell of it."""
    told = driver.info.supported_versions if driver.info is not None else ()
    version = first_known(told, health.VERSIONS)
    if version is None:
        return skipped("the driver does not offer it")
    first = await _first(driver, version, subject.pace.first_list)
    if first is None:
        return [f"no message within {subject.pace.first_list:g} s"]
    return health_faults(first) or passed(f"{version}: {len(first.devices)} devices")


async def _first(driver: Driver, version: str, seconds: float) -> NodeWatchResourcesResponse | None:
    async with connect(driver.endpoint) as channel:
        client = health.health_client(channel, version)
        async with client.node_watch_resources(NodeWatchResourcesRequest()) as answers:
            with suppress(TimeoutError, StopAsyncIteration):
                async with asyncio.timeout(seconds):
                    return await anext(answers)
    return None


def health_faults(message: NodeWatchResourcesResponse) -> list[str]:
    """What a kubelet could not use."""
    names = [(one.device.pool_name, one.device.device_name) for one in message.devices]
    faults = [
        f"{pool!r}/{name!r}: pool and device must be named" for pool, name in names if not pool or not name
    ]
    twice = sorted({f"{pool}/{name}" for pool, name in names if names.count((pool, name)) > 1})
    faults += [f"{name} twice in one message" for name in twice]
    faults += [
        f"{one.device.device_name}: health {one.health}"
        for one in message.devices
        if one.health not in (0, 1, 2)
    ]
    return faults + [
        f"{one.device.device_name}: a negative timeout"
        for one in message.devices
        if one.health_check_timeout_seconds < 0
    ]


RULES: tuple[Rule[DriverSubject], ...] = (
    Rule(
        id="health",
        title="The health stream begins with well-formed devices",
        kubelet="opens NodeWatchResources where it is offered, and again 5 s after it ended",
        why="Pods show no health of their devices, or a wrong one.",
        check=each(health_stream),
        live=True,
    ),
)
LAST_RULES: tuple[Rule[DriverSubject], ...] = (
    Rule(
        id="stops",
        title="Ends in time after SIGTERM",
        kubelet="kills it when its grace period is over",
        why="Every update of the driver waits for the grace period.",
        check=stops,
        ends=True,
    ),
    Rule(
        id="cleans-up",
        title="Removes its sockets when it ends",
        kubelet="keeps a driver registered for as long as its registration socket is there",
        why="The kubelet goes on calling a driver that is gone.",
        check=cleans_up,
        ends=True,
        bare=True,
    ),
)
