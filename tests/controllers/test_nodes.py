"""Nodes that fall silent and come back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dray.api.core import Lease, Node
from dray.api.kinds import LEASES, NODES
from dray.client.client import Client
from dray.controllers.nodes import (
    LEASE_NAMESPACE,
    NodeConfig,
    NodeController,
    heartbeat,
    node_controller,
    plan_node,
)
from dray.runtime.clock import FakeClock
from dray.testing.check.api_server import Place
from tests.controllers.objects import Json, typed
from tests.controllers.server import Cluster, cluster
from tests.waiting import wait_until

NOW = datetime(2030, 1, 1, 0, 1, tzinfo=UTC)
UNREACHABLE = [
    ("node.kubernetes.io/unreachable", "NoSchedule"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
]
NOT_READY = [("node.kubernetes.io/not-ready", "NoSchedule"), ("node.kubernetes.io/not-ready", "NoExecute")]
MAINTENANCE = {"key": "maintenance", "effect": "NoSchedule"}


def node_document(ready: str | None = "True", taints: list[Json] | None = None) -> Json:
    conditions = [
        {"type": kind, "status": status, "lastHeartbeatTime": "2030-01-01T00:00:00Z"}
        for kind, status in (("Ready", ready), ("DiskPressure", "False"))
        if status is not None
    ]
    return {"metadata": {"name": "n"}, "spec": {"taints": taints or []}, "status": {"conditions": conditions}}


def node(ready: str | None = "True", taints: list[Json] | None = None) -> Node:
    return typed(NODES, node_document(ready, taints))


def lease(second: int) -> Lease:
    return typed(LEASES, lease_document(second))


def lease_document(second: int) -> Json:
    spec = {"holderIdentity": "n", "renewTime": f"2030-01-01T00:00:{second:02}.000000Z"}
    return {"metadata": {"name": "n", "namespace": LEASE_NAMESPACE}, "spec": spec}


def keys(plan: Any) -> list[tuple[str, str]] | None:
    return None if plan.taints is None else [(one.key, one.effect) for one in plan.taints]


def test_a_heartbeat_is_a_change_whatever_time_it_names() -> None:
    first = heartbeat(None, node(), lease(5), 100.0)
    assert first.since == 100.0
    assert heartbeat(first, node(), lease(5), 130.0) is first
    assert heartbeat(first, node(), lease(4), 130.0).since == 130.0
    assert heartbeat(first, node(), None, 130.0).since == 130.0


def test_a_silent_node_is_unknown_and_tainted_beside_what_it_had() -> None:
    plan = plan_node(node(taints=[MAINTENANCE]), is_silent=True, now=NOW)
    assert keys(plan) == [("maintenance", "NoSchedule"), *UNREACHABLE]
    assert plan.taints is not None and {one.time_added for one in plan.taints[1:]} == {NOW}
    assert plan.conditions is not None
    assert {one.type: (one.status, one.reason) for one in plan.conditions} == {
        "Ready": ("Unknown", "NodeStatusUnknown"),
        "DiskPressure": ("Unknown", "NodeStatusUnknown"),
        "MemoryPressure": ("Unknown", "NodeStatusNeverUpdated"),
        "PIDPressure": ("Unknown", "NodeStatusNeverUpdated"),
    }
    assert plan.conditions[0].last_heartbeat_time == datetime(2030, 1, 1, tzinfo=UTC)


def test_said_once_it_is_not_said_again() -> None:
    first = plan_node(node(), is_silent=True, now=NOW)
    assert first.conditions is not None and first.taints is not None
    document = node_document()
    silent = typed(NODES, document)
    after = type(silent)(
        metadata=silent.metadata,
        spec=type(silent.spec)(taints=first.taints),
        status=type(silent.status)(conditions=first.conditions),
    )
    later = NOW.replace(hour=5)
    for is_silent in (True, False):
        again = plan_node(after, is_silent=is_silent, now=later)
        assert (again.conditions, again.taints) == (None, None)


@pytest.mark.parametrize(
    ("ready", "taints", "expected"),
    [
        ("True", [], None),
        ("True", [MAINTENANCE], None),
        ("False", [], NOT_READY),
        ("Unknown", [], UNREACHABLE),
        (
            "True",
            [{"key": UNREACHABLE[0][0], "effect": "NoExecute"}, MAINTENANCE],
            [("maintenance", "NoSchedule")],
        ),
        ("False", [{"key": UNREACHABLE[0][0], "effect": "NoExecute"}], NOT_READY),
        (None, [], None),
    ],
)
def test_taints_follow_the_condition(
    ready: str | None, taints: list[Json], expected: list[tuple[str, str]] | None
) -> None:
    assert keys(plan_node(node(ready, taints), is_silent=False, now=NOW)) == expected


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[Cluster, Client]]:
    async with cluster(tmp_path) as found:
        yield found


async def renew(api: Cluster, second: int) -> None:
    if (LEASES.plural, LEASE_NAMESPACE, "n") not in api.objects:
        await api.create(Place(LEASES, LEASE_NAMESPACE, "", ""), lease_document(second))
        return
    stored = api.objects[LEASES.plural, LEASE_NAMESPACE, "n"]
    await api.put(LEASES, stored | {"spec": lease_document(second)["spec"]})


def renew_unseen(api: Cluster, second: int) -> None:
    """No watch tells of it."""
    stored = api.objects[LEASES.plural, LEASE_NAMESPACE, "n"]
    api.objects[LEASES.plural, LEASE_NAMESPACE, "n"] = stored | {"spec": lease_document(second)["spec"]}


def ready(api: Cluster) -> str:
    conditions = api.find(NODES, "n")["status"]["conditions"]
    return "".join(one["status"] for one in conditions if one["type"] == "Ready")


CONFIG = NodeConfig(grace=40.0, period=5.0)


class Passing:
    """A controller's passes, one after the other: its time is ours."""

    def __init__(self, api: Cluster, controller: NodeController, clock: FakeClock) -> None:
        self._api, self._controller, self._clock = api, controller, clock

    async def seconds(self, count: float) -> None:
        await wait_until(lambda: self._controller.passes)
        for _ in range(int(count / CONFIG.period)):
            passes = self._controller.passes
            await self._clock.advance(CONFIG.period)
            await wait_until(lambda: self._controller.passes > passes)  # noqa: B023

    async def seen(self) -> None:
        """The watches have brought the node and its lease."""
        nodes, leases = self._controller.nodes, self._controller.leases

        def is_seen() -> bool:
            node, lease = nodes.get("n"), leases.get("n", LEASE_NAMESPACE)
            return (node and node.metadata.resource_version, lease and lease.metadata.resource_version) == (
                self._api.find(NODES, "n")["metadata"]["resourceVersion"],
                self._api.objects[LEASES.plural, LEASE_NAMESPACE, "n"]["metadata"]["resourceVersion"],
            )

        await wait_until(is_seen)


async def test_a_node_falls_silent_and_comes_back(both: tuple[Cluster, Client]) -> None:
    api, client = both
    await api.add(NODES, node_document(taints=[MAINTENANCE]))
    await renew(api, 0)
    clock = FakeClock()
    async with node_controller(client, CONFIG, clock=clock) as controller:
        passing = Passing(api, controller, clock)
        for second in range(1, 10):
            await renew(api, second)
            await passing.seen()
            await passing.seconds(CONFIG.grace / 2)
        assert ready(api) == "True"
        await passing.seconds(CONFIG.grace)
        await passing.seen()
        await passing.seconds(CONFIG.period)
        assert len(api.find(NODES, "n")["spec"]["taints"]) == 3
        assert ready(api) == "Unknown"
        await renew(api, 30)
        fresh = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2030-01-01T00:05:00Z"}]
        await api.change(NODES, "n", status={"conditions": fresh})
        await passing.seen()
        await passing.seconds(CONFIG.period)
        assert api.find(NODES, "n")["spec"]["taints"] == [MAINTENANCE]
    assert api.refused == []


async def test_a_lease_that_only_the_server_has_counts(both: tuple[Cluster, Client]) -> None:
    """The watch brings nothing, as if it were stuck: the live look finds each renewal."""
    api, client = both
    await api.add(NODES, node_document())
    await renew(api, 0)
    clock = FakeClock()
    async with node_controller(client, CONFIG, clock=clock) as controller:
        passing = Passing(api, controller, clock)
        for second in range(1, 11):
            renew_unseen(api, second)
            await passing.seconds(CONFIG.grace / 2)
        assert controller.passes > 10
        assert ready(api) == "True"


async def test_a_node_that_dies_while_the_watch_is_stuck_is_noticed(both: tuple[Cluster, Client]) -> None:
    """What the picture has and what the server has differ, and neither changes any more."""
    api, client = both
    await api.add(NODES, node_document())
    await renew(api, 0)
    clock = FakeClock()
    async with node_controller(client, CONFIG, clock=clock) as controller:
        passing = Passing(api, controller, clock)
        renew_unseen(api, 1)
        await passing.seconds(CONFIG.grace * 2 + CONFIG.period)
        assert ready(api) == "True", "the live look saw the renewal late, so its time began late"
        await passing.seconds(CONFIG.period * 2)
        assert ready(api) == "Unknown"


async def test_time_in_which_the_server_was_away_does_not_count(both: tuple[Cluster, Client]) -> None:
    api, client = both
    await api.add(NODES, node_document())
    await renew(api, 0)
    clock = FakeClock()
    async with node_controller(client, CONFIG, clock=clock) as controller:
        passing = Passing(api, controller, clock)
        await passing.seconds(CONFIG.grace / 2)
        api.is_away = True
        passes = controller.passes
        await clock.advance(CONFIG.period)  # it asks
        await clock.advance(CONFIG.grace)
        api.is_away = False
        await wait_until(lambda: controller.passes > passes)
        await passing.seconds(CONFIG.grace / 2)
        assert ready(api) == "True"
        await passing.seconds(CONFIG.grace)
        assert ready(api) == "Unknown"
