"""The real node works: pods run, and so do the two Go peers, a device plugin and a DRA driver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dray.errors import UnavailableError
from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.images import BUSYBOX
from dray.testing.kubernetes.part import Part, wait_until
from tests.e2e.sample_plugin import sample_files

PLUGIN_RESOURCE = "example.com/resource"
DRIVER = "test-driver.cdi.k8s.io"


def pod(name: str, script: str, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "resources": spec.pop("resources", {}),
    }
    base = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**base, **spec}}


def run(cluster: Cluster, manifest: dict[str, Any]) -> str:
    """Run a pod to its end, remove it and return what it printed."""
    name = manifest["metadata"]["name"]
    cluster.kubectl("apply", "-f", "-", input=json.dumps(manifest))
    cluster.wait_pod(name, "Succeeded")
    printed = cluster.pod_log(name)
    cluster.kubectl("delete", "pod", name)
    return printed


def test_node_is_ready_and_of_the_version_asked_for(cluster: Cluster) -> None:
    (node,) = cluster.request("GET", "/api/v1/nodes")["items"]
    assert node["metadata"]["name"] == cluster.node_name
    assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.4"
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://2.3.4")
    assert cluster.request("GET", "/version")["gitVersion"] == "v1.36.4"


def test_pod_runs_to_completed(cluster: Cluster) -> None:
    assert run(cluster, pod("hello", "echo hello from $HOSTNAME; echo again", hostNetwork=True)).endswith(
        "\nagain\n"
    )


def test_pod_with_its_own_network_can_be_logged_and_entered(cluster: Cluster) -> None:
    manifest = pod("own-network", "ip -4 -o addr show eth0; exec sleep 1000")
    cluster.kubectl("apply", "-f", "-", input=json.dumps(manifest))
    running = cluster.wait_pod("own-network")
    assert f"inet {running['status']['podIP']}/24" in cluster.kubectl("logs", "own-network")
    assert cluster.kubectl("exec", "own-network", "--", "echo", "inside") == "inside\n"
    cluster.kubectl("delete", "pod", "own-network")


def test_failed_pod_is_said_at_once(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", input=json.dumps(pod("broken", "exit 3", hostNetwork=True)))
    with pytest.raises(UnavailableError, match=r"broken is Failed.*\"exitCode\": 3"):
        cluster.wait_pod("broken", "Succeeded")
    cluster.kubectl("delete", "pod", "broken")


@pytest.fixture
def device_plugin(cluster: Cluster) -> Iterator[Part]:
    with sample_files():
        plugin = cluster.spawn("sample-device-plugin", cluster.tools.path("sample-device-plugin"))
        yield plugin
        plugin.stop()


def test_go_device_plugin_serves_a_pod(cluster: Cluster, device_plugin: Part) -> None:
    def is_published() -> bool:
        node = cluster.request("GET", f"/api/v1/nodes/{cluster.node_name}")
        return bool(node["status"]["allocatable"].get(PLUGIN_RESOURCE) == "2")

    wait_until(is_published, "two devices in the node's status", 30.0, (device_plugin,))
    limits = {"limits": {PLUGIN_RESOURCE: "1"}}
    assert run(cluster, pod("with-plugin", "ls /tmp", hostNetwork=True, resources=limits)) in (
        "Dev-1\n",
        "Dev-2\n",
    )


@pytest.fixture
def dra_driver(cluster: Cluster) -> Iterator[Part]:
    (cluster.dirs.kubelet / "plugins" / DRIVER).mkdir(exist_ok=True)
    program = cluster.tools.path("test-driver")
    access = f"--kubeconfig={cluster.kubeconfig}"
    driver = cluster.spawn(
        "test-driver", program, access, "kubelet-plugin", f"--node-name={cluster.node_name}"
    )
    cluster.kubectl("apply", "-f", "-", input=json.dumps(CLASS))
    yield driver
    driver.stop()
    cluster.kubectl("delete", "deviceclass", "peer")
    cluster.kubectl("delete", "resourceslices", f"--field-selector=spec.driver={DRIVER}")


CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "peer"},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
}
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "peer"},
    "spec": {
        "devices": {
            "requests": [{"name": "one", "exactly": {"deviceClassName": "peer"}}],
            "config": [{"opaque": {"driver": DRIVER, "parameters": {"colour": "blue"}}}],
        }
    },
}


def test_go_dra_driver_serves_a_pod(cluster: Cluster, dra_driver: Part) -> None:
    def is_published() -> bool:
        slices = cluster.request("GET", "/apis/resource.k8s.io/v1/resourceslices")["items"]
        return any(item["spec"]["driver"] == DRIVER for item in slices)

    wait_until(is_published, "the driver's slice", 30.0, (dra_driver,))
    cluster.kubectl("apply", "-f", "-", input=json.dumps(CLAIM))
    manifest = pod(
        "with-claim",
        "env",
        hostNetwork=True,
        resources={"claims": [{"name": "device"}]},
        resourceClaims=[{"name": "device", "resourceClaimName": "peer"}],
    )
    assert "user_colour=blue" in run(cluster, manifest).splitlines()
    cluster.kubectl("delete", "resourceclaim", "peer")


def test_kubelet_restart_keeps_the_node(cluster: Cluster) -> None:
    cluster.stop_kubelet()
    cluster.start_kubelet()
    cluster.wait_node()
    assert run(cluster, pod("after-restart", "echo still here", hostNetwork=True)) == "still here\n"
