"""Agent and kubelet killed (-9) in every order: every resource is back, and a running pod keeps its devices."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from dray.testing.kubernetes.cluster import Cluster
from dray.wire.deviceplugin import KUBELET_SOCKET
from tests.campaign import LONG, campaign, seeded
from tests.e2e.agent_part import TUN, Agent, kubelet_has, plugin_sockets
from tests.e2e.test_cluster import pod, run

GPU, NODE = "example.com/gpu", "example.com/node"
# Many: a kubelet that has just started counts devices of pods that are gone until it has heard of all pods.
COUNT = 60
SERVED = {TUN: 1000, GPU: COUNT, NODE: COUNT}
CONFIG = {
    "dray": {
        "sim": {
            "devices": [{"name": "gpu", "count": COUNT, "resourceName": GPU, "preStart": {"action": "reset"}}]
        },
        "generic": [{"name": "node", "path": "/dev/zero", "count": COUNT, "resourceName": NODE}],
    }
}
# "-" kills and "+" starts the agent or the kubelet; "." lets the one that runs notice what happened.
ORDERS = (
    "-agent +agent",
    "-kubelet +kubelet",
    "-agent -kubelet +agent +kubelet",
    "-agent -kubelet +kubelet +agent",
    "-kubelet . -agent +agent . +kubelet",
    "-agent . -kubelet +kubelet . +agent",
    "-agent . +agent",
    "-kubelet . +kubelet",
    "-kubelet . -agent . +kubelet . +agent",
    "-agent . -kubelet . +agent . +kubelet",
)


@pytest.fixture
def agent(cluster: Cluster, tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(cluster, "agent-kills", tmp_path, CONFIG)
    yield agent
    agent.part.stop()
    assert plugin_sockets(cluster) == []


def carry_out(order: str, cluster: Cluster, agent: Agent, pauses: random.Random) -> None:
    parts = {"agent": agent.part, "kubelet": cluster.kubelet}
    for step in order.split():
        if step == ".":
            time.sleep(pauses.uniform(0.2, 1.2))
        elif step[0] == "-":
            parts[step[1:]].kill()
        else:
            parts[step[1:]].start()


def registered_after(cluster: Cluster, agent: Agent) -> float:
    """Seconds from the appearance of the kubelet's socket to the last registration."""
    appeared = (cluster.dirs.kubelet / "device-plugins" / KUBELET_SOCKET).lstat().st_mtime
    last = agent.told("registered")[-1]["ts"]
    return datetime.fromisoformat(last).timestamp() - appeared


def holding(cluster: Cluster, name: str) -> tuple[Any, ...]:
    """What must not change while a pod runs; fails when the pod cannot use its devices any more."""
    status = cluster.wait_pod(name)["status"]["containerStatuses"][0]
    use = ": <>/dev/net/tun; echo x >/dev/dray-sim/$SIM_RESOURCE_EXAMPLE_COM_GPU; echo used"
    assert cluster.kubectl("exec", name, "--", "sh", "-ec", use) == "used\n"
    return status["containerID"], status["restartCount"]


def test_kills_in_every_order_lose_nothing(cluster: Cluster, agent: Agent) -> None:
    agent.wait_serves(SERVED)
    limits = {"limits": dict.fromkeys(SERVED, "1")}
    holder = pod("holder", "exec sleep 100000", hostNetwork=True, resources=limits)
    cluster.kubectl("apply", "-f", "-", input=json.dumps(holder))
    before = holding(cluster, "holder")
    chance = seeded(4)
    orders = [*ORDERS[: 10 if LONG else 4]] * campaign(1, 5)
    chance.shuffle(orders)
    waits: list[float] = []
    for number, order in enumerate(orders):
        known = agent.registrations()
        carry_out(order, cluster, agent, chance)
        for resource in sorted(known):
            agent.wait_told("registered", known[resource] + 1, resource=resource)
        agent.wait_serves(SERVED, f"in round {number}: {order}")
        if "agent" not in order:
            waits.append(registered_after(cluster, agent))
        new = pod(f"new-{number}", "echo $SIM_RESOURCE_EXAMPLE_COM_GPU", hostNetwork=True, resources=limits)
        assert run(cluster, new).startswith("gpu-")
        assert holding(cluster, "holder") == before, f"round {number}: {order}"
    print(f"registered after the kubelet's socket appeared: {max(waits):.3f} s at most, of {len(waits)}")
    assert kubelet_has(cluster)[GPU] == SERVED[GPU]
    cluster.kubectl("delete", "pod", "holder")
