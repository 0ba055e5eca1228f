"""The agent beside a real kubelet: real pods get what they ask for and nothing else, and the node follows the devices."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.testing.host import Host
from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.part import wait_until
from tests.e2e.agent_part import (
    KVM,
    SHARES,
    TUN,
    VHOST_NET,
    Agent,
    Config,
    counts,
    make_node,
    plugin_sockets,
    wait_allocatable,
)
from tests.e2e.sample_plugin import sample_files
from tests.e2e.test_cluster import PLUGIN_RESOURCE, pod, run
from tests.waiting import PATIENCE

GPU = "example.com/gpu"
NODE = "example.com/node"
MORE = "example.com/more"
HAS_KVM = pytest.mark.skipif(not Path("/dev/kvm").exists(), reason="this machine has no /dev/kvm")
Start = Callable[..., Agent]


def gpus(**entry: Any) -> dict[str, Any]:
    return {"name": "gpu", "count": 2, "resourceName": GPU, **entry}


def limits(*resources: str) -> dict[str, Any]:
    return {"limits": dict.fromkeys(resources, "1")}


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Start]:
    """Starts an agent with a config. At the end of the test it is told to stop, and no socket is left."""
    agents: list[Agent] = []

    def start(config: Config, *flags: str) -> Agent:
        agents.append(Agent(cluster, f"agent-{request.node.name}", tmp_path, config, flags))
        return agents[-1]

    yield start
    for agent in agents:
        agent.part.stop()
        assert agent.part.returncode == 0
    assert plugin_sockets(cluster) == []


def created(cluster: Cluster, manifest: dict[str, Any]) -> str:
    cluster.kubectl("apply", "-f", "-", input=json.dumps(manifest))
    return str(manifest["metadata"]["name"])


def allowed(cluster: Cluster, pod_status: Any) -> dict[str, str]:
    """What the container's cgroup allows by the runtime's own spec: device numbers to access."""
    container = pod_status["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    spec = json.loads(cluster.ctr("containers", "info", container))["Spec"]
    rules = spec["linux"]["resources"]["devices"]
    return {f"{rule.get('major')}:{rule.get('minor')}": rule["access"] for rule in rules if rule["allow"]}


def readiness(agent: Agent) -> tuple[int, str]:
    address = agent.told("metrics")[-1]["address"].removesuffix("/metrics")
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@HAS_KVM
def test_a_pod_gets_what_it_asks_for_and_nothing_else(cluster: Cluster, start: Start) -> None:
    agent = start({"dray": {"sim": {"devices": [gpus(numaNodes=2, preStart={"action": "reset"})]}}})
    has_vhost = Path("/dev/vhost-net").exists()
    agent.wait_serves({KVM: SHARES, TUN: SHARES, GPU: 2, VHOST_NET: SHARES if has_vhost else 0})
    makes = "mknod /own c 10 232 && (exec 3<>/own) 2>&1"
    opens = "for node in /dev/kvm /dev/net/tun /dev/dray-sim/*; do (exec 3<>$node) && echo $node; done"
    name = created(
        cluster,
        pod(
            "with-all",
            f"{makes} && {opens}; echo $SIM_RESOURCE_EXAMPLE_COM_GPU; ls /dev/dray-sim",
            hostNetwork=True,
            resources=limits(KVM, TUN, GPU),
        ),
    )
    ended = cluster.wait_pod(name, "Succeeded")
    kvm, tun, node, variable, listed = cluster.pod_log(name).splitlines()
    assert (kvm, tun, node) == ("/dev/kvm", "/dev/net/tun", f"/dev/dray-sim/{variable}")
    assert listed == variable
    assert variable in ("gpu-0", "gpu-1")
    assert [line["devices"] for line in agent.told("simulated reset")] == [variable]
    asked = "rwm" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "rw"
    rules = allowed(cluster, ended)
    assert (rules["10:232"], rules["10:200"]) == (asked, asked)
    cluster.kubectl("delete", "pod", name)
    script = f"{makes}; test -e /dev/kvm || echo none"
    refused = run(cluster, pod("with-tun", script, hostNetwork=True, resources=limits(TUN)))
    assert refused.splitlines() == ["sh: can't create /own: Operation not permitted", "none"]


def test_edits_of_the_config_touch_what_they_name(cluster: Cluster, start: Start) -> None:
    one: Config = {"dray": {"sim": {"devices": [gpus()]}}}
    agent = start(one)
    agent.wait_serves({GPU: 2, TUN: SHARES})
    holder = created(cluster, pod("holder", "exec sleep 1000", hostNetwork=True, resources=limits(GPU)))
    started = cluster.wait_pod(holder)["status"]["containerStatuses"][0]["containerID"]
    before = agent.registrations()
    more = {"name": "more", "count": 3, "resourceName": MORE}
    agent.write({"dray": {"sim": {"devices": [gpus(count=4), more]}}})
    agent.wait_serves({GPU: 4, MORE: 3, TUN: SHARES})
    assert agent.registrations() - before == {MORE: 1}
    agent.write("dray:\n  sim:\n    devices:\n    - {name: gpu, count: many}\n")
    told = agent.wait_told("configuration refused, the last good one stays in force")["error"]
    assert told.startswith(f"{agent.config}:4: dray.sim.devices[0].count: ")
    assert counts(cluster, GPU) == (4, 4)
    agent.write(one)
    agent.wait_serves({GPU: 2, MORE: 0, TUN: SHARES})
    assert agent.registrations() - before == {MORE: 1}
    assert [name for name in plugin_sockets(cluster) if "more" in name] == []
    now = cluster.wait_pod(holder)["status"]["containerStatuses"][0]
    assert (now["containerID"], now["restartCount"]) == (started, 0)
    cluster.kubectl("delete", "pod", holder)


def test_an_unhealthy_device_is_not_allocatable_until_it_is_healthy(
    cluster: Cluster, start: Start, tmp_path: Path
) -> None:
    fault, node = tmp_path / "fault", tmp_path / "node"
    make_node(node, "/dev/null")
    faults = [{"device": "gpu-1", "whileFile": str(fault)}]
    generic = [{"name": "node", "path": str(node), "count": 5, "resourceName": NODE}]
    agent = start({"dray": {"sim": {"devices": [gpus()], "faults": faults}, "generic": generic}})
    agent.wait_serves({GPU: 2, NODE: 5})
    fault.write_text("XID 79\n")
    node.unlink()
    agent.wait_serves({GPU: 1, NODE: 0})
    assert (counts(cluster, GPU), counts(cluster, NODE)) == ((2, 1), (5, 0))
    fault.unlink()
    make_node(node, "/dev/zero")
    agent.wait_serves({GPU: 2, NODE: 5})
    script = f"head -c 3 {node} | wc -c"
    assert run(cluster, pod("with-node", script, hostNetwork=True, resources=limits(NODE))) == "3\n"


def test_a_start_that_fails_says_why_and_is_tried_again(cluster: Cluster, start: Start) -> None:
    agent = start({"dray": {"sim": {"devices": [gpus(preStart={"action": "fail", "times": 1})]}}})
    agent.wait_serves({GPU: 2})
    name = created(cluster, pod("fails-once", "echo runs", hostNetwork=True, resources=limits(GPU)))
    said: list[str] = []

    def is_said() -> bool:
        events = cluster.request("GET", "/api/v1/namespaces/default/events")["items"]
        said[:] = [event["message"] for event in events if event["involvedObject"]["name"] == name]
        return any("simulated failure to reset gpu-" in message for message in said)

    wait_until(is_said, "an event with the reason", 60, (agent.part,))
    cluster.wait_pod(name, "Succeeded")
    assert cluster.pod_log(name) == "runs\n"
    cluster.kubectl("delete", "pod", name)


def test_an_agent_that_is_stopped_leaves_nothing(cluster: Cluster, start: Start) -> None:
    agent = start({"dray": {"sim": {"devices": [gpus()]}}})
    agent.wait_serves({GPU: 2, TUN: SHARES})
    wait_until(lambda: readiness(agent)[0] == 200, "the agent to be ready", 10, (agent.part,))
    agent.part.stop()
    assert plugin_sockets(cluster) == []
    wait_allocatable(cluster, {GPU: 0, TUN: 0})


def test_beside_kubevirt_only_external_entries_are_served(
    cluster: Cluster, start: Start, tmp_path: Path
) -> None:
    host = Host(tmp_path / "host")
    host.pci("0000:05:00.0", vendor="10de", device="2330", driver="vfio-pci", iommu_group=12)
    host.pci("0000:06:00.0", vendor="10de", device="2331", driver="vfio-pci", iommu_group=13)
    ours, theirs = "example.com/ours", "example.com/theirs"
    entries = [
        {"pciVendorSelector": "10DE:2330", "resourceName": ours, "externalResourceProvider": True},
        {"pciVendorSelector": "10DE:2331", "resourceName": theirs},
    ]
    configuration = {"permittedHostDevices": {"pciHostDevices": entries}}
    kubevirt = {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt"}}
    agent = start({**kubevirt, "spec": {"configuration": configuration}}, f"--host-root={host.root}")
    agent.wait_serves({ours: 1})
    assert agent.registrations() == {ours: 1}
    assert plugin_sockets(cluster) == ["kubevirt-example.com-ours.sock"]


@pytest.fixture
def alone() -> Iterator[None]:
    with sample_files():
        yield


@pytest.mark.usefixtures("alone")
def test_what_another_plugin_serves_is_left_to_it(cluster: Cluster, start: Start) -> None:
    other = cluster.spawn("rival", cluster.tools.path("sample-device-plugin"))
    wait_allocatable(cluster, {PLUGIN_RESOURCE: 2}, other)
    agent = start({"dray": {"sim": {"devices": [gpus(count=3, resourceName=PLUGIN_RESOURCE)]}}})
    error = agent.wait_told("refused", resource=PLUGIN_RESOURCE)["error"]
    assert f"{PLUGIN_RESOURCE} is served by another plugin" in error
    assert f"sample-device-plugin (pid {other.pid}) on dp." in error
    agent.wait_serves({PLUGIN_RESOURCE: 2, TUN: SHARES})
    code, text = readiness(agent)
    assert code == 503
    assert f"{PLUGIN_RESOURCE}: refused: {error}" in text
    other.stop()
    agent.wait_serves({PLUGIN_RESOURCE: 3})
    other.start()
    wait_allocatable(cluster, {PLUGIN_RESOURCE: 2}, other, agent.part)
    error = agent.wait_told("displaced by another plugin", resource=PLUGIN_RESOURCE)["error"]
    assert f"(pid {other.pid})" in error
    agent.wait_serves({PLUGIN_RESOURCE: 2, TUN: SHARES})
    theirs = pod("with-theirs", "ls /tmp", hostNetwork=True, resources=limits(PLUGIN_RESOURCE))
    device = run(cluster, theirs).strip()
    assert device in ("Dev-1", "Dev-2")
    other.stop()
    agent.wait_serves({PLUGIN_RESOURCE: 3, TUN: SHARES})


def test_a_killed_agents_sockets_go_with_its_resources(cluster: Cluster, start: Start) -> None:
    agent = start({"dray": {"sim": {"devices": [gpus(), {"name": "more", "resourceName": MORE}]}}})
    agent.wait_serves({GPU: 2, MORE: 1})
    agent.part.kill()
    agent.write({"dray": {"sim": {"devices": [gpus()]}}})
    agent.part.start()
    agent.wait_serves({GPU: 2})  # the fixture then stops it, and no socket may be left
