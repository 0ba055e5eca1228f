"""Programs of others on `dray apiserver`: the real kubelet with containerd, kube-scheduler, kube-controller-manager, and two Go drivers.

The tests share one node and come in this order: the last looks at what the programs said while all others ran.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dray.errors import UnavailableError
from dray.testing.kubernetes.embedded import EmbeddedCluster
from dray.testing.kubernetes.images import BUSYBOX
from dray.testing.kubernetes.part import Part, wait_until
from dray.testing.kubernetes.tools import Tools
from tests.e2e.sample_plugin import sample_files

DRIVER = "test-driver.cdi.k8s.io"
PLUGIN_RESOURCE = "example.com/resource"
RESOURCES = "/apis/resource.k8s.io/v1"
DEFAULT = "namespaces/default"
LOGS = Path(__file__).parents[2] / "build" / "e2e-logs" / "foreign-programs"
TIMEOUT_S = 60.0
Document = dict[str, Any]


@pytest.fixture(scope="module")
def node(tools: Tools, request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    failed_before = request.session.testsfailed
    with EmbeddedCluster(tools, save_logs=LOGS) as parts:
        yield parts
        parts.failed = request.session.testsfailed > failed_before
    print(parts.log_ends())


@pytest.fixture(scope="module")
def driver(node: EmbeddedCluster) -> Iterator[Part]:
    """The Go DRA driver with the rights of the node."""
    (node.dirs.kubelet / "plugins" / DRIVER).mkdir(exist_ok=True)
    config = f"--kubeconfig={node.node_kubeconfig}"
    program = node.tools.path("test-driver")
    part = node.spawn("test-driver", program, config, "kubelet-plugin", f"--node-name={node.node_name}")
    apply(node, CLASS)
    apply(node, TEMPLATE)
    wait_until(lambda: bool(slices(node)), "the driver's slice", TIMEOUT_S, (part,))
    yield part
    part.stop()


CLASS: Document = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "peer"},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
}
DEVICES = {
    "requests": [{"name": "one", "exactly": {"deviceClassName": "peer"}}],
    "config": [{"opaque": {"driver": DRIVER, "parameters": {"colour": "blue"}}}],
}
TEMPLATE: Document = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "peer"},
    "spec": {"spec": {"devices": DEVICES}},
}


def pod_spec(script: str, **more: Any) -> Document:
    container = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        **more.pop("container", {}),
    }
    return {"hostNetwork": True, "terminationGracePeriodSeconds": 0, "containers": [container], **more}


def deployment(name: str, replicas: int, spec: Document) -> Document:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def apply(node: EmbeddedCluster, *documents: Document) -> None:
    for document in documents:
        node.kubectl("apply", "-f", "-", input=json.dumps(document))


def items(node: EmbeddedCluster, path: str, **labels: str) -> list[Document]:
    query = "?labelSelector=" + ",".join(f"{key}%3D{value}" for key, value in labels.items())
    found: list[Document] = node.request("GET", path + query * bool(labels))["items"]
    return found


def pods(node: EmbeddedCluster, app: str) -> list[Document]:
    return items(node, f"/api/v1/{DEFAULT}/pods", app=app)


def slices(node: EmbeddedCluster) -> list[str]:
    found = items(node, f"{RESOURCES}/resourceslices")
    return [one["metadata"]["uid"] for one in found if one["spec"]["driver"] == DRIVER]


def claims(node: EmbeddedCluster) -> list[Document]:
    return items(node, f"{RESOURCES}/{DEFAULT}/resourceclaims")


def held(node: EmbeddedCluster) -> dict[str, str]:
    """The pod that has each device, by the claims' status."""
    found = {}
    for one in claims(node):
        status = one.get("status") or {}
        for result in ((status.get("allocation") or {}).get("devices") or {}).get("results", []):
            assert result["device"] not in found, "a device twice"
            found[result["device"]] = ",".join(user["name"] for user in status.get("reservedFor", []))
    return found


def wait_running(node: EmbeddedCluster, app: str, count: int) -> list[str]:
    """Until so many pods of it run and no others are there; their names."""

    def are_there() -> bool:
        found = pods(node, app)
        return len(found) == count and all(one["status"].get("phase") == "Running" for one in found)

    parts = (node.apiserver, node.kubelet, node.scheduler, node.controller_manager)
    wait_until(are_there, f"{count} pods of {app}", TIMEOUT_S, parts, poll=0.2)
    return sorted(one["metadata"]["name"] for one in pods(node, app))


def wait_released(node: EmbeddedCluster, count: int) -> None:
    wait_until(lambda: len(claims(node)) == count, f"{count} claims", TIMEOUT_S, poll=0.2)


def restart(node: EmbeddedCluster) -> None:
    node.kill_apiserver()
    node.start_apiserver()


def test_the_kubelet_registers_its_node_and_keeps_a_lease(node: EmbeddedCluster) -> None:
    found = node.request("GET", f"/api/v1/nodes/{node.node_name}")
    assert found["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.4"
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    wait_until(lambda: bool(items(node, path)), "the node's lease", TIMEOUT_S, (node.kubelet,))
    (lease,) = items(node, path)
    assert lease["spec"]["holderIdentity"] == lease["metadata"]["name"] == node.node_name
    (owner,) = lease["metadata"]["ownerReferences"]
    assert owner["uid"] == found["metadata"]["uid"]


def test_the_scheduler_is_elected(node: EmbeddedCluster) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    wait_until(lambda: bool(items(node, path)), "the scheduler's lease", TIMEOUT_S, (node.scheduler,))
    (lease,) = items(node, path)
    assert lease["metadata"]["name"] == "kube-scheduler"
    assert lease["spec"]["holderIdentity"] and lease["spec"]["leaseDurationSeconds"] == 90


def test_an_administrator_acts_as_the_node(node: EmbeddedCluster) -> None:
    """So a kubeconfig can give a kubelet the rights of its node without a token of its own."""
    identity = (f"--as=system:node:{node.node_name}", "--as-group=system:nodes")
    own = f"--field-selector=spec.nodeName={node.node_name}"
    assert "items" in node.kubectl("get", "pods", "-A", own, "-o", "json", *identity)
    with pytest.raises(UnavailableError, match="cannot list resource"):
        node.kubectl("get", "pods", "-A", *identity)


def test_programs_ask_the_server_about_their_callers(node: EmbeddedCluster) -> None:
    for port, unknown in ((node.scheduler_port, 403), (node.kubelet_port, 401)):
        wait_until(partial(_listens, port), "the program's port", TIMEOUT_S)
        assert node.get(port, "/metrics", node.admin_token) == 200
        assert node.get(port, "/metrics", "") == unknown
        assert node.get(port, "/metrics", "nobody's") == 401
        assert node.get(port, "/metrics", node.identities.driver_token) == 403
    assert node.kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert "system:masters" in node.kubectl("auth", "whoami")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_deployment_with_devices_outlives_kills_of_the_server(node: EmbeddedCluster, driver: Part) -> None:
    spec = pod_spec(
        "env; exec sleep 100000",
        container={"resources": {"claims": [{"name": "device"}]}},
        resourceClaims=[{"name": "device", "resourceClaimTemplateName": "peer"}],
    )
    apply(node, deployment("web", 2, spec))
    first = wait_running(node, "web", 2)
    assert sorted(held(node).values()) == first
    for name in first:
        assert "user_colour=blue" in node.pod_log(name).splitlines()

    node.kubectl("scale", "deployment/web", "--replicas=4")
    restart(node)
    names = wait_running(node, "web", 4)
    assert set(first) < set(names) and sorted(held(node).values()) == names

    node.kubectl("scale", "deployment/web", "--replicas=1")
    restart(node)
    (left,) = wait_running(node, "web", 1)
    assert left in names
    wait_released(node, 1)
    assert list(held(node).values()) == [left]

    node.kubectl("delete", "deployment", "web")
    wait_running(node, "web", 0)
    wait_released(node, 0)
    # The deployment controller may have made one more before it heard that its Deployment is gone; the garbage collector finds it.
    wait_until(
        lambda: items(node, f"/apis/apps/v1/{DEFAULT}/replicasets") == [],
        "no ReplicaSets",
        TIMEOUT_S,
        poll=0.2,
    )


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_both_collectors_of_garbage_agree(node: EmbeddedCluster, cascade: str) -> None:
    """The server collects what has lost its owner, and so does the controller manager."""
    name, sets = f"gone-{cascade}", f"/apis/apps/v1/{DEFAULT}/replicasets"
    apply(node, deployment(name, 2, pod_spec("exec sleep 100000")))
    before = wait_running(node, name, 2)
    node.kubectl("delete", "deployment", name, f"--cascade={cascade}")
    if cascade == "orphan":
        wait_until(lambda: not _owned(items(node, sets, app=name)), "an orphan", TIMEOUT_S, poll=0.2)
        assert wait_running(node, name, 2) == before
        node.kubectl("delete", "replicasets", "-l", f"app={name}")
    wait_running(node, name, 0)
    wait_until(lambda: not items(node, sets, app=name), "no ReplicaSet", TIMEOUT_S, poll=0.2)


def _owned(found: list[Document]) -> list[Document]:
    assert found, "orphans stay"
    return [one for one in found if one["metadata"].get("ownerReferences")]


def test_a_pod_gets_a_token_that_ends_with_it(node: EmbeddedCluster) -> None:
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}
    spec = pod_spec(
        "cat /tokens/token; echo; exec sleep 100000",
        container={"volumeMounts": [{"name": "tokens", "mountPath": "/tokens"}]},
        serviceAccountName="default",
        volumes=[{"name": "tokens", "projected": {"sources": [source]}}],
    )
    apply(node, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tokens"}, "spec": spec})
    node.wait_pod("tokens")
    wait_until(lambda: bool(_printed(node, "tokens")), "the token", TIMEOUT_S)
    token = _printed(node, "tokens")
    argv = ("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", f"--token={token}")
    assert node.kubectl(*argv) == "system:serviceaccount:default:default"
    restart(node)
    assert node.kubectl(*argv) == "system:serviceaccount:default:default"
    node.kubectl("delete", "pod", "tokens")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    told = node.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
    assert told == {"user": {}, "error": "the bearer token is of a pod that is gone"}


def _printed(node: EmbeddedCluster, name: str) -> str:
    files = sorted((node.dirs.log / "pods").glob(f"default_{name}_*/main/*.log"))
    return node.pod_log(name).strip() if files and files[0].stat().st_size else ""


def test_the_go_device_plugin_serves_a_pod(node: EmbeddedCluster) -> None:
    def is_published() -> bool:
        found = node.request("GET", f"/api/v1/nodes/{node.node_name}")
        return bool(found["status"]["allocatable"].get(PLUGIN_RESOURCE) == "2")

    with sample_files():
        plugin = node.spawn("sample-device-plugin", node.tools.path("sample-device-plugin"))
        wait_until(is_published, "two devices in the node's status", TIMEOUT_S, (plugin,))
        resources = {"resources": {"limits": {PLUGIN_RESOURCE: "1"}}}
        spec = pod_spec("ls /tmp", container=resources, restartPolicy="Never")
        apply(node, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plugged"}, "spec": spec})
        node.wait_pod("plugged", "Succeeded")
        assert node.pod_log("plugged") in ("Dev-1\n", "Dev-2\n")
        node.kubectl("delete", "pod", "plugged")
        plugin.stop()


def test_nobody_complained(node: EmbeddedCluster, driver: Part) -> None:
    """The server has met no bug, and no program asked for what it does not serve or may not be had."""
    wrong = re.compile(r"level=(warning|error|critical)|Traceback|Task exception|panic")
    assert [line for line in lines(node.apiserver) if wrong.search(line)] == []
    refused = re.compile(
        r"forbidden|could not find the requested resource|Unauthorized|unrecognized|is invalid|decode"
    )
    for part in (node.kubelet, node.scheduler, node.controller_manager, driver):
        part.require_running()
        loud = [line for line in lines(part) if line.startswith(("E", "W")) or "Warning:" in line]
        said = [line for line in loud if refused.search(line) and _EXPECTED not in line]
        assert said == [], part.name


_EXPECTED = "no relationship found between this node and the object"
"""A kubelet, and a driver beside it, may look at a pod or claim that has just gone; then it is none of the node's, as at
kube-apiserver. Had one been refused that is there, its pod would not have run."""


def lines(part: Part) -> list[str]:
    return part.log.read_text().splitlines()
