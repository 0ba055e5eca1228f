"""The Node, its Lease and statuses of pods, written to the real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from dray.api.core import Node, Pod
from dray.api.core.pod import PodStatus
from dray.api.kinds import LEASES, NAMESPACES, NODES, PODS
from dray.api.quantity import Quantity
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.errors import ConflictError, NotFoundError
from dray.kubelet.node.keeper import LEASE_NAMESPACE, NodeKeeper, NodeOptions
from dray.kubelet.node.machine import read_machine
from dray.kubelet.node.resources import DeviceCapacity
from dray.kubelet.pods.publish import ApiStatuses
from dray.kubelet.pods.sources import follow_api
from dray.runtime.clock import SystemClock
from dray.runtime.tasks import running
from dray.testing.kubernetes.control_plane import ControlPlane
from tests.waiting import until, wait_until

NODE, GPU = "dray-node", "example.com/gpu"


@pytest.fixture
async def client(apiserver: ControlPlane) -> AsyncIterator[Client]:
    async with Client(find_access(apiserver.kubeconfig, environ={})) as entered:
        with contextlib.suppress(ConflictError):
            await entered.create(NAMESPACES, {"metadata": {"name": LEASE_NAMESPACE}})
        yield entered
        with contextlib.suppress(NotFoundError):
            await entered.delete(NODES, NODE)


class Changing:
    """Capacities that a test moves."""

    def __init__(self) -> None:
        self.now = DeviceCapacity()
        self._event = asyncio.Event()

    def set(self, *counts: int, deleted: tuple[str, ...] = ()) -> None:
        self.now = (
            DeviceCapacity({GPU: counts[0]}, {GPU: counts[1]}) if counts else DeviceCapacity(deleted=deleted)
        )
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()
        self._event.clear()


def keeper(client: Client, changing: Changing, *, reset: bool = False) -> NodeKeeper:
    return NodeKeeper(
        client,
        read_machine(),
        NodeOptions(NODE, {"zone": "a"}, "runc"),
        SystemClock(),
        capacity=lambda: changing.now,
        reset=reset,
    )


async def node_until(
    client: Client, wanted: dict[str, tuple[str, str]], nudge: Callable[[], None] = lambda: None
) -> Node:
    """Wait until the node has these pairs of capacity and allocatable; nudge before each look."""

    async def look() -> Node | None:
        nudge()
        with contextlib.suppress(NotFoundError):
            node = await client.get(NODES, NODE)
            capacity, free = node.status.capacity, node.status.allocatable
            found = {name: (str(capacity.get(name)), str(free.get(name))) for name in wanted}
            return node if found == wanted else None
        return None

    return await until(look)


async def test_the_node_is_made_kept_and_made_again(client: Client) -> None:
    changing = Changing()
    kept = keeper(client, changing)
    async with running(kept.run(changing.wait), name="node"):
        changing.set(3, 2)
        node = await node_until(client, {GPU: ("3", "2")})
        assert node.metadata.labels["zone"] == "a"
        assert [(one.type, one.status) for one in node.status.conditions] == [("Ready", "True")]
        assert node.status.capacity["pods"] == Quantity("110")
        lease = await client.get(LEASES, NODE, namespace=LEASE_NAMESPACE)
        assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == (NODE, 40)
        await client.delete(NODES, NODE)
        changing.set(3, 1)
        # Found to be gone at one change, made again at the next.
        await node_until(client, {GPU: ("3", "1")}, lambda: changing.set(3, 1))
        changing.set(deleted=(GPU,))
        await node_until(client, {GPU: ("0", "0")})
    assert str(kept.allocatable[GPU]) == "0"


async def test_after_a_new_set_up_old_resources_are_zero_and_foreign_conditions_stay(client: Client) -> None:
    network = {"type": "NetworkUnavailable", "status": "False"}
    status: dict[str, Any] = {"capacity": {GPU: "4", "cpu": "1"}, "conditions": [network]}
    await client.create(NODES, {"metadata": {"name": NODE}, "status": status})
    await keeper(client, Changing()).report()
    assert (await client.get(NODES, NODE)).status.capacity[GPU] == Quantity("4")
    await keeper(client, Changing(), reset=True).report()
    node = await client.get(NODES, NODE)
    assert node.status.capacity[GPU] == Quantity("0")
    assert sorted(one.type for one in node.status.conditions) == ["NetworkUnavailable", "Ready"]


async def test_pods_come_from_the_server_and_statuses_go_back(client: Client) -> None:
    statuses, taken = ApiStatuses(client, SystemClock()), dict[str, Pod]()

    def take(_: str, pods: Any) -> None:
        taken.clear()
        taken.update({pod.metadata.name: pod for pod in pods})

    async def is_running(name: str) -> bool:
        return (await client.get(PODS, name, namespace="default")).status.phase == "Running"

    spec = {"nodeName": NODE, "containers": [{"name": "a", "image": "i"}], "terminationGracePeriodSeconds": 5}
    async with (
        running(statuses.run(), name="statuses"),
        running(follow_api(client, NODE, take), name="pods"),
    ):
        await client.create(PODS, {"metadata": {"name": "mine", "namespace": "default"}, "spec": spec})
        other = await client.create(
            PODS, {"metadata": {"name": "other", "namespace": "default"}, "spec": spec | {"nodeName": "else"}}
        )
        await wait_until(lambda: "mine" in taken)
        assert list(taken) == ["mine"]
        pod = taken["mine"]
        for phase in ("Pending", "Running", "Running"):
            statuses.tell(pod, PodStatus(phase=phase, start_time=pod.metadata.creation_timestamp))
        await until(lambda: is_running("mine"))
        await client.delete(PODS, "mine", namespace="default")
        await wait_until(lambda: taken["mine"].metadata.deletion_timestamp)
        statuses.ended(taken["mine"])
        await wait_until(lambda: not taken)
        statuses.tell(pod, PodStatus(phase="Failed"))  # it is gone: nothing happens
        statuses.tell(other, PodStatus(phase="Running"))
        await until(lambda: is_running("other"))
        with pytest.raises(NotFoundError):
            await client.get(PODS, "mine", namespace="default")
        await client.delete(PODS, "other", namespace="default")
