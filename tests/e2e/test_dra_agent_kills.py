"""The DRA driver is replaced and killed while pods with claims come and go: each runs, and nothing is left behind."""

from __future__ import annotations

import time
from pathlib import Path

from dray.dra.claims.state import Phase
from dray.testing.kubernetes.cluster import Cluster
from tests.campaign import campaign, seeded
from tests.e2e.agent_part import Agent
from tests.e2e.dra_agent import (
    GPU,
    GPUS,
    SIM,
    STAYS,
    DraNode,
    access,
    container,
    dra_node,
    of,
    opaque,
    pod,
    requests,
    sim_config,
    template,
)
from tests.e2e.dra_agent_pods import SEES, PodStream

KUBELET_EVERY = 20
"""Of so many kills of the agent one comes with a kill of the kubelet, which needs a while to be where it was."""
SLOW_S, VERY_SLOW_S = 0.4, 3.0
"""So long a prepare takes, that kills hit it in the middle: some of many, and one for sure."""
ROLLED_BACK = "claim was left in the middle, rolled back"
GIVEN_BACK = "claim left in the middle, and gone: given back"
KUBELET_KNOWS = "dra_manager_state"
"""The kubelet's file about the claims that it has to give back."""


def refusals(node: DraNode, pods: str, *agents: Agent) -> list[str]:
    """Claims that a driver refused, as it told itself, and as the kubelet did of pods of this name."""
    told = [line for agent in agents for line in agent.told("claim refused")]
    events = node.events("FailedPrepareDynamicResources") + node.events("DevicePrepareFailed")
    about = [one["message"] for one in events if one["involvedObject"]["name"].startswith(f"{pods}-")]
    passed_over = [text for text in about if is_before_the_graph(node, text)]
    print(f"{len(passed_over)} reads of a claim came before the node authorizer knew of the pod")
    return [line["error"] for line in told] + [text for text in about if text not in passed_over]


def is_before_the_graph(node: DraNode, message: str) -> bool:
    """Whether the kubelet was not allowed to read the claim: it has not looked for the driver then.

    The node authorizer lets a kubelet read the claims of its pods by a graph that it fills from a watch of its own. The
    kubelet hears of a pod from another watch, and reads the pod's claim at once: it may be first, is refused, and tries
    again. Any other reason why it cannot read a claim is not passed over.
    """
    reason = f"no relationship found between node '{node.cluster.node_name}' and this object"
    return "fetch ResourceClaim " in message and " is forbidden: " in message and reason in message


def test_a_rolling_update_fails_no_prepare(cluster: Cluster, tmp_path: Path) -> None:
    pods, rolls = campaign(10, 100), campaign(1, 5)
    with dra_node(cluster, "agent-roll-0", tmp_path, sim_config(), ["--instance-id=roll-0"]) as node:
        node.create(template("roll", requests(gpu=of(GPU))))
        agents = [node.agent]
        stream = PodStream(node, "roll", seed=11)
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


# Kills


def begun(node: DraNode) -> set[str]:
    """The claims in the middle of their prepare, or left there, by their UIDs."""
    return {uid for uid, phase in node.entries().items() if phase is Phase.STARTED}


def wait_begun(node: DraNode, seconds: float, left: set[str]) -> None:
    """Until a claim is in the middle of its prepare, not only one of those that were left there; no longer than that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not begun(node) - left:
        time.sleep(0.02)


def kill_in_the_middle(node: DraNode, name: str) -> tuple[str, str]:
    """Run a pod and kill the agent while it prepares the claim; its name and UID."""
    node.create(pod(name, container(f"{SEES} && {{ {STAYS}; }}", "device"), device="template:slow"))
    wait_begun(node, 60.0, set())
    node.agent.part.kill()
    claim = node.claim_of(name, "device")
    uid = str(node.find("ResourceClaim", claim)["metadata"]["uid"])
    assert node.entries() == {uid: Phase.STARTED}
    return claim, uid


def test_a_claim_left_in_the_middle_is_rolled_back_whoever_comes_next(
    cluster: Cluster, tmp_path: Path
) -> None:
    with dra_node(cluster, "agent-dra-middle", tmp_path, sim_config()) as node:
        node.create(template("slow", requests([opaque(prepareSeconds=VERY_SLOW_S)], gpu=of(GPU))))
        prepared_anew(node)
        given_back_by_the_kubelet(node)
        given_back_when_nobody_asks(node)


def prepared_anew(node: DraNode) -> None:
    claim, uid = kill_in_the_middle(node, "anew")
    node.agent.part.start()
    node.agent.wait_told("registered", 2, driver=SIM)
    node.touch("anew", "1")
    node.cluster.wait_pod("anew")
    assert [line["claim"] for line in node.agent.told(ROLLED_BACK)] == [f"default/{claim}"]
    assert [line["uid"] for line in node.agent.told("claim prepared")] == [uid]
    assert node.entries() == {uid: Phase.COMPLETED}
    assert node.held() == [f"{node.allocated(claim)[0]} by default/{claim}"]
    node.delete_pod("anew")
    node.wait_released()


def given_back_by_the_kubelet(node: DraNode) -> None:
    """The pod is deleted while there is no driver."""
    claim, _ = kill_in_the_middle(node, "deleted")
    node.delete("/api/v1/namespaces/default/pods/deleted")
    node.agent.part.start()
    node.wait_released()
    node.delete_pod("deleted")
    assert not any(claim in line["claim"] for line in node.agent.told("claim prepared"))


def given_back_when_nobody_asks(node: DraNode) -> None:
    """Pod and claim go while neither is there, and the kubelet has lost what it knew of claims."""
    claim, uid = kill_in_the_middle(node, "lost")
    node.cluster.kubelet.kill()
    node.cluster.request(
        "DELETE", "/api/v1/namespaces/default/pods/lost", {"gracePeriodSeconds": 0, "kind": "DeleteOptions"}
    )
    node.cluster.kubectl("wait", "--for=delete", f"resourceclaim/{claim}", "--timeout=60s")
    (node.cluster.dirs.kubelet / KUBELET_KNOWS).unlink()
    node.agent.part.start()
    assert node.agent.wait_told(GIVEN_BACK)["uid"] == uid
    node.cluster.start_kubelet()
    node.wait_released()
    node.cluster.wait_node()


def test_kills_lose_no_pod_and_leave_nothing(cluster: Cluster, tmp_path: Path) -> None:
    kills, dice = campaign(5, 200), seeded(11)
    with dra_node(cluster, "agent-dra-kills", tmp_path, sim_config()) as node:
        node.create(template("kills", requests([opaque(prepareSeconds=SLOW_S)], gpu=of(GPU))))
        node.create(template("slow", requests([opaque(prepareSeconds=VERY_SLOW_S)], gpu=of(GPU))))
        claim, uid = kill_in_the_middle(node, "patient")
        node.agent.part.start()
        stream = PodStream(node, "kills", seed=11, at_once=GPUS - 1, patience=3.0)
        registered, left, hits = 1, {uid}, 0
        with stream.flowing():
            for kill in range(kills):
                if dice.random() < 0.8:  # else it is killed while it starts
                    node.agent.wait_told("registered", registered + 1, driver=SIM)
                if kill == 0 or dice.random() < 0.5:
                    wait_begun(node, dice.uniform(0.0, 2.0) if kill else 60.0, left)
                else:
                    time.sleep(dice.uniform(0.3, 1.5))
                registered = len(node.agent.told("registered", driver=SIM))
                node.agent.part.kill()
                before, left = left, begun(node)
                hits += bool(left - before)
                if kill % KUBELET_EVERY == 0:
                    cluster.kubelet.kill()
                    cluster.start_kubelet()
                node.agent.part.start()
        assert stream.wrong == []
        assert stream.done == stream.started > kills
        node.touch("patient", "1")
        cluster.wait_pod("patient")
        prepared, rolled_back = len(node.agent.told("claim prepared")), len(node.agent.told(ROLLED_BACK))
        print(f"{stream.done} pods, {prepared} claims prepared, {kills} kills")
        print(f"{hits} kills in the middle of a prepare, {rolled_back} claims rolled back by the next one")
        assert hits >= 1
        assert rolled_back >= max(1, kills // 20)
        # Nobody gave this one back: the only way out of the middle is that the next one rolls it back.
        assert f"default/{claim}" in [line["claim"] for line in node.agent.told(ROLLED_BACK)]
        node.delete_pod("patient")
        node.wait_released()
        cluster.wait_node()
