"""The agent as DRA driver while things happen to it: a device fails, a resource changes doors, kubelet and agent restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.part import wait_until
from tests.e2e.agent_part import Agent, wait_allocatable
from tests.e2e.dra_agent import (
    GPU,
    GPUS,
    SHOWS,
    SIM,
    STAYS,
    TIMEOUT_S,
    DraNode,
    access,
    claim,
    container,
    dra_node,
    of,
    pod,
    requests,
    sim_config,
    template,
)

END = "that is all"
NOBODY_UNPREPARES = "unprepare dynamic resources"
"""What the kubelet logs when the driver of a claim is not there."""
PRINTS = f"{SHOWS}; echo {END}; {STAYS}"
"""Drivers that wait for their next look take 30."""


def fault_file(state: Path) -> Path:
    return state / "fault"


@pytest.fixture(scope="module")
def served(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DraNode]:
    state = tmp_path_factory.mktemp("dra-agent-lives")
    fault = {"device": "gpu-7", "whileFile": str(fault_file(state))}
    with dra_node(cluster, "agent-dra-lives", state, sim_config(fault)) as node:
        node.create(template("gpu", requests(gpu=of(GPU))))
        yield node


@pytest.fixture
def node(served: DraNode) -> Iterator[DraNode]:
    before = len(served.created)
    yield served
    for _, path in served.created[before:]:
        served.delete(path)


def gpu_pod(name: str) -> dict[str, Any]:
    return pod(name, container(PRINTS, "device"), device="template:gpu")


def plugin_pod(name: str) -> dict[str, Any]:
    return pod(name, container(PRINTS, limits={GPU: "1"}))


def running_since(node: DraNode, name: str) -> tuple[str, int]:
    """What a container that is left alone keeps."""
    status = node.cluster.wait_pod(name)["status"]["containerStatuses"][0]
    return str(status["containerID"]), int(status["restartCount"])


def test_an_unhealthy_device_is_tainted_and_told_of(node: DraNode) -> None:
    expression = f'device.attributes["{SIM}"].serial == "SIM-GPU-7"'
    chosen = {"deviceClassName": SIM, "selectors": [{"cel": {"expression": expression}}]}
    node.create(claim("ill", requests(gpu=chosen)))
    node.run(pod("ill", container(PRINTS, "device"), device="ill"))
    before = running_since(node, "ill")
    fault = fault_file(node.state)
    fault.write_text("XID 79\n")
    node.wait(lambda: bool(node.taints("gpu-7")), "a taint")
    assert node.taints("gpu-7") == [f"{SIM}/unhealthy=XID-79:NoSchedule"]
    assert node.taints("gpu-6") == []

    def told(reason: str) -> set[str]:
        found = [one for one in node.events(reason) if "gpu-7" in one["message"]]
        return {one["involvedObject"]["kind"] for one in found}

    node.wait(lambda: told("DeviceUnhealthy") >= {"Node", "ResourceClaim", "Pod"}, "events about all three")
    assert all("XID 79" in one["message"] for one in node.events("DeviceUnhealthy"))
    fault.unlink()
    node.wait(lambda: not node.taints("gpu-7"), "the taint to be gone")
    node.wait(lambda: told("DeviceRecovered") >= {"Node", "ResourceClaim", "Pod"}, "events about all three")
    assert running_since(node, "ill") == before


def test_a_restarted_kubelet_finds_slices_and_pods_as_they_were(node: DraNode) -> None:
    node.run(gpu_pod("over-restart"))
    before, uids = running_since(node, "over-restart"), {one["metadata"]["uid"] for one in node.slices()}
    times = len(node.agent.told("registered", driver=SIM))
    node.cluster.kubelet.kill()
    node.cluster.start_kubelet()
    node.agent.wait_told("registered", times + 1, driver=SIM)

    def are_new() -> bool:
        """The kubelet deletes all slices when it starts, before or after it knows the driver."""
        return len(node.devices()) > GPUS and uids.isdisjoint(one["metadata"]["uid"] for one in node.slices())

    node.wait(are_new, "the kubelet to delete the slices, and new ones")
    node.cluster.wait_node()
    node.run(gpu_pod("after-restart"))
    assert running_since(node, "over-restart") == before
    node.delete_pod("over-restart")
    node.delete_pod("after-restart")
    node.wait_released()


def test_a_second_owner_of_the_names_is_refused(node: DraNode, tmp_path: Path) -> None:
    cluster = node.cluster
    second = Agent(cluster, "agent-dra-second", tmp_path, sim_config(), access(cluster))
    node.wait(lambda: not second.part.is_running, "the second agent to end")
    said = second.part.tail(1)
    assert (second.part.returncode, "Traceback" in second.part.log.read_text()) == (1, False)
    assert "is served on this node by" in said and f"(pid {node.agent.part.pid})" in said
    node.run(gpu_pod("undisturbed"))
    node.delete_pod("undisturbed")


def test_a_killed_agent_goes_on_where_it_was(node: DraNode) -> None:
    node.run(gpu_pod("stays"))
    node.run(gpu_pod("leaves"))
    before, entries, devices = running_since(node, "stays"), node.entries(), node.devices()
    node.agent.part.kill()
    log = node.cluster.kubelet.log
    failures = log.read_text().count(NOBODY_UNPREPARES)
    node.delete("/api/v1/namespaces/default/pods/leaves")
    wait_until(
        lambda: log.read_text().count(NOBODY_UNPREPARES) > failures, "the kubelet to find nobody", TIMEOUT_S
    )
    assert node.entries() == entries
    assert node.devices() == devices, "slices stay when a driver goes"
    node.agent.part.start()
    node.wait(lambda: len(node.entries()) == 1, "the claim to be given back")
    node.delete_pod("leaves")
    assert running_since(node, "stays") == before
    assert node.devices() == devices
    node.delete_pod("stays")
    node.wait_released()


def test_a_resource_moves_to_dra_by_one_line_and_no_pod_is_restarted(node: DraNode, tmp_path: Path) -> None:
    config = sim_config()
    node.agent.write({"dray": {**config["dray"], "doors": {"*": "dra", GPU: "plugin"}}})
    node.agent.wait_serves({GPU: GPUS})
    node.run(plugin_pod("plugin-holder"))
    before = running_since(node, "plugin-holder")
    held = node.printed("plugin-holder", END)[0]
    assert held.startswith("gpu-") and held not in node.devices()
    node.agent.write(config)  # without that line
    node.wait(lambda: held in node.devices(), "the GPUs to be published")
    (taint,) = node.taints(held)  # from the first moment on
    assert taint.startswith(f"{SIM}/held-by-plugin=")
    named = [f"{SIM}/held-by-plugin=plugin-holder:NoSchedule"]
    node.wait(lambda: node.taints(held) == named, "the taint to name the pod, once the kubelet has told")
    node.wait(lambda: f"{GPU.replace('/', '--')}" in classes(node), "the class of the resource")
    # Until the node's status says that the plugin is gone, kube-scheduler counts on it.
    wait_allocatable(node.cluster, {GPU: 0}, node.agent.part)
    node.run(plugin_pod("dra-holder"))
    found = node.find("Pod", "dra-holder")["status"]["extendedResourceClaimStatus"]
    assert found["requestMappings"][0]["resourceName"] == GPU
    assert node.printed("dra-holder", END)[0] == node.allocated(found["resourceClaimName"])[0] != held
    assert running_since(node, "plugin-holder") == before
    node.delete_pod("plugin-holder")
    node.wait(lambda: not node.taints(held), "the taint to be gone with the pod")
    node.delete_pod("dra-holder")
    node.wait_released()


def classes(node: DraNode) -> set[str]:
    items = node.cluster.request("GET", "/apis/resource.k8s.io/v1/deviceclasses")["items"]
    return {one["metadata"]["name"] for one in items}
