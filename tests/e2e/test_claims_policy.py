"""The manifests' policy for claims' status, on a real API server that does not check what an agent writes: as before 1.36."""

from __future__ import annotations

import copy
import json
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.codec import load_documents
from dray.testing.kubernetes.access import AdminAccess
from dray.testing.kubernetes.control_plane import ControlPlane
from dray.testing.kubernetes.tools import Tools

Json = dict[str, Any]
NAMESPACE, DRIVER = "dray-system", "pci.dray.internal"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
RBAC, ADMISSION = "/apis/rbac.authorization.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
PATHS = {
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
}


@pytest.fixture(scope="module")
def plane(tools: Tools) -> Iterator[ControlPlane]:
    with ControlPlane(tools, feature_gates={"DRAResourceClaimGranularStatusAuthorization": False}) as found:
        found.request(
            "POST",
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        )
        for one in load_documents(Path("deploy/manifests/agent.yaml").read_text(), "agent.yaml"):
            if one.raw["kind"] in PATHS:
                found.request("POST", PATHS[one.raw["kind"]], dict(one.raw))
        yield found


@pytest.fixture(scope="module")
def agent(plane: ControlPlane) -> AdminAccess:
    """With a token as the kubelet of node-1 mounts it into the agent's pod."""
    spec = {
        "nodeName": "node-1",
        "serviceAccountName": "dray-agent",
        "containers": [{"name": "agent", "image": "none"}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent"}, "spec": spec}
    made = plane.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "agent", "uid": made["metadata"]["uid"]}
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"boundObjectRef": bound},
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/dray-agent/token"
    token = plane.request("POST", path, asked)["status"]["token"]
    return AdminAccess(plane.server, token, plane.authority.certificate)


def device(pool: str, driver: str = DRIVER) -> Json:
    return {"driver": driver, "pool": pool, "device": "d", "data": {"ready": True}}


def allocation(*pools: str) -> Json:
    results = [{"request": "r", "driver": DRIVER, "pool": pool, "device": "d"} for pool in pools]
    results.append({"request": "r", "driver": "other.example", "pool": "node-1", "device": "d"})
    return {"devices": {"results": results}}


@pytest.fixture
def claim(plane: ControlPlane) -> Iterator[Json]:
    """Allocated on both nodes, reserved for a pod; with what the agent of node-2 told of its device."""
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    document = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [request]}},
    }
    made = plane.request("POST", CLAIMS, document)
    made["status"] = {
        "allocation": allocation("node-1", "node-2"),
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
        "devices": [device("node-2")],
    }
    yield plane.request("PUT", f"{CLAIMS}/c/status", made)
    plane.request("DELETE", f"{CLAIMS}/c")


def patched(access: Any, claim: Json, change: Json) -> str:
    """What the server says against it; nothing where it stores it. The patch leads to the whole status."""
    status = copy.deepcopy(claim["status"]) | change
    body = {"metadata": {"uid": claim["metadata"]["uid"]}, "status": status}
    try:
        access.request("PATCH", f"{CLAIMS}/c/status", body)
    except urllib.error.HTTPError as caught:
        with caught as error:
            return str(json.load(error)["message"])
    return ""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"allocation": None, "reservedFor": None, "devices": None}, "own drivers and node only"),
        ({"reservedFor": [{"resource": "pods", "name": "q", "uid": "v"}]}, "status.allocation and"),
        ({"reservedFor": None}, "status.allocation and"),
        ({"devices": None}, "own drivers and node only"),
        ({"devices": [device("node-2") | {"data": {"ready": False}}]}, "own drivers and node only"),
        ({"devices": [device("node-2"), device("node-1", "other.example")]}, "own drivers and node only"),
    ],
)
def test_a_real_server_refuses_what_an_agent_may_not(
    plane: ControlPlane, agent: AdminAccess, claim: Json, change: Json, why: str
) -> None:
    deadline = time.monotonic() + 30
    while not (told := patched(agent, claim, change)):
        # A policy takes a moment to be in force.
        assert time.monotonic() < deadline
        found = plane.request("GET", f"{CLAIMS}/c")
        found["status"] = claim["status"]
        plane.request("PUT", f"{CLAIMS}/c/status", found)
        time.sleep(0.2)
    assert why in told
    assert plane.request("GET", f"{CLAIMS}/c")["status"] == claim["status"]


def test_a_real_server_lets_no_agent_allocate(plane: ControlPlane, agent: AdminAccess, claim: Json) -> None:
    claim["status"] = {}
    freed = plane.request("PUT", f"{CLAIMS}/c/status", claim)
    assert "status" not in freed or not freed["status"].get("allocation")
    told = patched(agent, freed | {"status": {}}, {"allocation": allocation("node-1")})
    assert "an agent may not change status.allocation and status.reservedFor of a claim" in told


def test_a_real_server_takes_what_an_agent_reports(
    plane: ControlPlane, agent: AdminAccess, claim: Json
) -> None:
    assert patched(agent, claim, {"devices": [device("node-2"), device("node-1")]}) == ""
    assert patched(agent, claim, {"devices": [device("node-2")]}) == ""
    assert plane.request("GET", f"{CLAIMS}/c")["status"] == claim["status"]
