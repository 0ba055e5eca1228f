"""The DRA driver is replaced and killed while pods with claims come and go: each runs, and nothing is left behind."""

from __future__ import annotations

import random
import time
from pathlib import Path

from dray.dra.claims.state import Phase
from dray.testing.kubernetes.cluster import Cluster
from tests.campaign import campaign
from tests.e2e.agent_part import Agent
from tests.e2e.dra_agent import (
    GPU,
    GPUS,
    SIM,
    DraNode,
    access,
    dra_node,
    of,
    opaque,
    requests,
    sim_config,
    template,
)
from tests.e2e.dra_agent_pods import PodStream

KUBELET_EVERY = 5
"""Of so many kills of the agent one comes with a kill of the kubelet."""
SLOW_S = 0.2
"""So long a prepare takes, that kills hit some in the middle."""


def refusals(node: DraNode, pods: str, *agents: Agent) -> list[str]:
    """Claims that a driver refused, as it told itself, and as the kubelet did of pods of this name.

    Not where the kubelet could not read the claim itself: the API server may know of the pod's node a moment too late.
    """
    told = [line for agent in agents for line in agent.told("claim refused")]
    events = node.events("FailedPrepareDynamicResources") + node.events("DevicePrepareFailed")
    about = [one["message"] for one in events if one["involvedObject"]["name"].startswith(f"{pods}-")]
    return [line["error"] for line in told] + [text for text in about if "fetch ResourceClaim" not in text]


def test_a_rolling_update_fails_no_prepare(cluster: Cluster, tmp_path: Path) -> None:
    pods, rolls = campaign(10, 100), campaign(1, 5)
    with dra_node(cluster, "agent-roll-0", tmp_path, sim_config(), ["--instance-id=roll-0"]) as node:
        node.create(template("roll", requests(gpu=of(GPU))))
        agents = [node.agent]
        stream = PodStream(node, "roll", seed=1)
        with stream.flowing(pods):
            for roll in range(1, rolls + 1):
                stream.wait_done(roll * pods // (rolls + 2))
                flags = (*access(cluster), f"--instance-id=roll-{roll}")
                newer = Agent(cluster, f"agent-roll-{roll}", tmp_path, sim_config(), flags)
                agents.append(newer)
                newer.wait_told("registered", driver=SIM)
                node.agent.part.stop(40.0)
                assert node.agent.part.returncode == 0
                node.agent = newer
            stream.wait_done(pods)
        assert (stream.wrong, stream.done) == ([], pods)
        assert refusals(node, "roll", *agents) == []
        sockets = sorted(path.name for path in (cluster.dirs.kubelet / "plugins_registry").glob(f"{SIM}*"))
        assert sockets == [f"{SIM}-roll-{rolls}-reg.sock"]


def wait_begun(node: DraNode, seconds: float) -> None:
    """Until a claim is in the middle of its prepare, no longer than that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and Phase.STARTED not in node.entries().values():
        time.sleep(0.02)


def test_kills_lose_no_pod_and_leave_nothing(cluster: Cluster, tmp_path: Path) -> None:
    kills, dice = campaign(10, 200), random.Random(11)
    with dra_node(cluster, "agent-dra-kills", tmp_path, sim_config()) as node:
        node.create(template("kills", requests([opaque(prepareSeconds=SLOW_S)], gpu=of(GPU))))
        stream, registered = PodStream(node, "kills", seed=2, at_once=GPUS, patience=3.0), 0
        with stream.flowing():
            for kill in range(kills):
                if dice.random() < 0.8:  # else it is killed while it starts
                    node.agent.wait_told("registered", registered + 1, driver=SIM)
                if dice.random() < 0.5:
                    wait_begun(node, dice.uniform(0.0, 2.0))
                else:
                    time.sleep(dice.uniform(0.3, 1.5))
                registered = len(node.agent.told("registered", driver=SIM))
                node.agent.part.kill()
                if kill % KUBELET_EVERY == 0:
                    cluster.kubelet.kill()
                    cluster.start_kubelet()
                node.agent.part.start()
        assert stream.wrong == []
        assert stream.done == stream.started > kills
        prepared = len(node.agent.told("claim prepared"))
        rolled_back = len(node.agent.told("claim was left in the middle, rolled back"))
        print(f"{stream.done} pods, {prepared} claims prepared, {rolled_back} rolled back after a kill")
        node.wait_released()
        cluster.wait_node()
