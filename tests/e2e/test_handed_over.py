"""A real node whose scheduler and claim controller are Dray's: kube-scheduler and the real claim controller are off."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.codec import view
from dray.api.kinds import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.images import BUSYBOX
from dray.testing.kubernetes.part import Part, wait_until
from dray.testing.settled import Picture, disorder

Json = dict[str, Any]
DRIVER, NS, DEVICES = "test-driver.cdi.k8s.io", "handed-over", 4
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NS}/resourceclaims"
PODS_PATH = f"/api/v1/namespaces/{NS}/pods"
REQUEST = {"name": "one", "exactly": {"deviceClassName": "handed-over"}}
SET_UP: list[Json] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}},
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "handed-over"},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "device", "namespace": NS},
        "spec": {"spec": {"devices": {"requests": [REQUEST]}}},
    },
]


def deployment(replicas: int) -> Json:
    labels = {"app": "handed-over"}
    container = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "env; exec sleep 1000000"],
        "resources": {"claims": [{"name": "device"}]},
    }
    pod = {
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "resourceClaims": [{"name": "device", "resourceClaimTemplateName": "device"}],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "handed-over", "namespace": NS},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def apply(cluster: Cluster, *documents: Json) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)})
    cluster.kubectl("apply", "-f", "-", input=text)


@pytest.fixture
def dray(cluster: Cluster) -> Iterator[tuple[Part, Part]]:
    """Dray's scheduler, for all pods, and its controllers, in place of the real ones."""
    words = [sys.executable, "-m", "dray"]
    access = [f"--kubeconfig={cluster.kubeconfig}", "--metrics-address=127.0.0.1:0"]
    with cluster.without("resourceclaim-controller"):
        parts = (
            cluster.spawn(
                "dray-scheduler", *words, "scheduler", "--scheduler-name=default-scheduler", *access
            ),
            cluster.spawn(
                "dray-controllers", *words, "controllers", "--controllers=resourceclaim-controller", *access
            ),
        )
        yield parts
        for part in parts:
            part.stop()


@pytest.fixture
def driver(cluster: Cluster) -> Iterator[Part]:
    (cluster.dirs.kubelet / "plugins" / DRIVER).mkdir(exist_ok=True)
    access = f"--kubeconfig={cluster.kubeconfig}"
    node = f"--node-name={cluster.node_name}"
    program = cluster.tools.path("test-driver")
    devices = f"--num-devices={DEVICES}"
    part = cluster.spawn("test-driver", program, access, "kubelet-plugin", node, devices)
    apply(cluster, *SET_UP)
    wait_until(lambda: bool(devices_there(cluster)), "the driver's slice", 30.0, (part,))
    yield part
    cluster.kubectl("delete", "namespace", NS, "--wait=true", timeout=90.0)
    part.stop()
    cluster.kubectl("delete", "deviceclass", "handed-over")
    cluster.kubectl("delete", "resourceslices", f"--field-selector=spec.driver={DRIVER}")


def devices_there(cluster: Cluster) -> list[str]:
    slices = cluster.request("GET", "/apis/resource.k8s.io/v1/resourceslices")["items"]
    mine = [one for one in slices if one["spec"]["driver"] == DRIVER]
    return [device["name"] for one in mine for device in one["spec"].get("devices", [])]


def held(cluster: Cluster) -> list[str]:
    """The devices of all claims, sorted."""
    claims = cluster.request("GET", CLAIMS)["items"]
    results = [
        one["status"]["allocation"]["devices"]["results"]
        for one in claims
        if one.get("status", {}).get("allocation")
    ]
    return sorted(result["device"] for each in results for result in each)


def phases(cluster: Cluster) -> list[str]:
    return sorted(one["status"]["phase"] for one in cluster.request("GET", PODS_PATH)["items"])


def picture(cluster: Cluster) -> Picture:
    def items(path: str) -> list[Json]:
        found: list[Json] = cluster.request("GET", path)["items"]
        return found

    return Picture(
        tuple(view(one, PODS.type) for one in items(PODS_PATH)),
        tuple(view(one, RESOURCE_CLAIMS.type) for one in items(CLAIMS)),
        tuple(view(one, RESOURCE_SLICES.type) for one in items("/apis/resource.k8s.io/v1/resourceslices")),
        tuple(view(one, NODES.type) for one in items("/api/v1/nodes")),
    )


def errors(part: Part) -> list[str]:
    return [line for line in Path(part.log).read_text().splitlines() if " level=error " in line]


def test_a_deployment_with_templates_lives_and_goes(
    cluster: Cluster, driver: Part, dray: tuple[Part, Part]
) -> None:
    """Allocate, reserve, bind, prepare, run; fewer replicas release their devices; one too many is explained."""
    apply(cluster, deployment(3))
    wait_until(lambda: phases(cluster) == ["Running"] * 3, "three pods to run", 90.0, (driver, *dray))
    assert len(set(held(cluster))) == len(held(cluster)) == 3
    assert disorder(picture(cluster)) == []

    apply(cluster, deployment(DEVICES + 1))
    running = ["Pending", *["Running"] * DEVICES]
    wait_until(
        lambda: phases(cluster) == running and not disorder(picture(cluster)), "one to wait", 60.0, dray
    )
    (pending,) = [
        one for one in cluster.request("GET", PODS_PATH)["items"] if not one["spec"].get("nodeName")
    ]
    (told,) = [one for one in pending["status"]["conditions"] if one["type"] == "PodScheduled"]
    assert (told["reason"], told["message"].partition(":")[0]) == ("Unschedulable", "0/1 nodes are available")
    events = cluster.kubectl("get", "events", "-n", NS, "--field-selector=reason=FailedScheduling", "-o=json")
    assert any(one["message"] == told["message"] for one in json.loads(events)["items"])

    apply(cluster, deployment(1))
    wait_until(lambda: phases(cluster) == ["Running"] and len(held(cluster)) == 1, "two to go", 60.0, dray)
    wait_until(lambda: not disorder(picture(cluster)), "their claims to go", 60.0, dray)
    cluster.kubectl("delete", "deployment", "-n", NS, "handed-over")
    wait_until(lambda: not cluster.request("GET", CLAIMS)["items"], "the last claim to go", 60.0, dray)
    assert phases(cluster) == []
    assert [errors(part) for part in dray] == [[], []]


def test_both_may_be_killed_at_any_time(cluster: Cluster, driver: Part, dray: tuple[Part, Part]) -> None:
    """Pods come and go while scheduler and controllers are killed and started again."""
    for replicas in (2, DEVICES, 1, 3):
        apply(cluster, deployment(replicas))
        for part in dray:
            part.kill()
            part.start()
        expected = ["Running"] * replicas
        wait_until(lambda expected=expected: phases(cluster) == expected, f"{replicas} pods", 90.0, dray)  # type: ignore[misc]
        wait_until(lambda: not disorder(picture(cluster)), "order", 60.0, dray)
