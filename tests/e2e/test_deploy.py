"""Dray as pods on a real node: the manifests as they are shipped, with the rights they give and no others; then helm.

The tests run in their order: installed by kubectl, used, taken over and updated by helm, and removed again.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.errors import Error
from dray.testing.kubernetes.access import AdminAccess
from dray.testing.kubernetes.part import wait_until
from dray.testing.kubernetes.tools import Tools
from tests.e2e.deploy_cluster import CHART, NAMESPACE, DeployCluster
from tests.e2e.deploy_manifests import EVERYTHING, MANIFESTS, PARTS, render_all, render_values
from tests.e2e.dra_agent import GPU, SHOWS, SIM, STAYS, Json, container, pod, requests, template
from tests.waiting import PATIENCE

LOGS = Path("build/e2e-logs")
TOKEN = "a-token-of-this-test-alone"
STATE = "/run/dray-state"  # on the node's own file system, which goes with it
GPUS = 6
CONFIG = {
    "dray": {"doors": {"*": "dra"}, "sim": {"devices": [{"name": "gpu", "count": GPUS, "resourceName": GPU}]}}
}
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


@pytest.fixture(scope="module")
def node(tools: Tools, request: pytest.FixtureRequest) -> Iterator[DeployCluster]:
    """A real node with everything of Dray on it, from deploy/manifests."""
    failed_before = request.session.testsfailed
    with DeployCluster(tools, save_logs=LOGS / time.strftime("deploy-%H%M%S")) as cluster:
        for name in ("namespace", *PARTS):
            cluster.kubectl("apply", "-f", "-", input=manifest(name))
        secret = ("create", "secret", "generic", "dray-dashboard", f"--from-literal=token={TOKEN}")
        cluster.kubectl("-n", NAMESPACE, *secret)
        spec = {"spec": requests(gpu={"deviceClassName": SIM})}
        cluster.kubectl("apply", "-f", "-", input=json.dumps(template("one-gpu", spec["spec"])))
        yield cluster
        cluster.failed = request.session.testsfailed > failed_before


def manifest(name: str) -> str:
    """As shipped, but with simulated devices, and with the state where it does not outlive this node."""
    text = (MANIFESTS / f"{name}.yaml").read_text().replace("path: /var/lib/dray,", f"path: {STATE},")
    documents = [one for one in yaml.safe_load_all(text) if one]
    for one in documents:
        if one["kind"] == "ConfigMap":
            settings = yaml.safe_load(one["data"]["agent.yaml"])
            settings["dray"] |= CONFIG["dray"]
            one["data"]["agent.yaml"] = json.dumps(settings)
    return yaml.safe_dump_all(documents)


def user(name: str, scheduler: str = "dray", script: str = f"{SHOWS}; echo ready; {STAYS}") -> Json:
    """A pod with a device of its own."""
    made = pod(name, container(script, "gpu"), gpu="template:one-gpu")
    made["spec"]["schedulerName"] = scheduler
    return made


def printed(node: DeployCluster, name: str) -> list[str]:
    wait_until(lambda: "ready" in _log(node, name), f"what {name} prints", 30.0, poll=0.1)
    return _log(node, name)


def _log(node: DeployCluster, name: str) -> list[str]:
    files = (node.dirs.log / "pods").glob(f"default_{name}_*/*/*.log")
    return [line.split(" ", 3)[3] for file in files for line in file.read_text().splitlines()]


def test_the_manifests_are_the_chart_with_its_defaults(node: DeployCluster) -> None:
    assert {path.name: path.read_text() for path in MANIFESTS.glob("*.yaml")} == render_all(node.helm_program)


def test_the_api_server_takes_everything_that_can_be_switched_on(node: DeployCluster) -> None:
    """But what needs kinds that only others install."""
    without = ("--set", "serviceMonitor.enabled=false,agent.kubevirt.enabled=false")
    text = render_values(node.helm_program, *EVERYTHING, *without)
    node.kubectl("apply", "--dry-run=server", "-f", "-", input=text)


def test_every_part_gets_ready(node: DeployCluster) -> None:
    for part in PARTS:
        node.wait_ready(part, timeout=90.0)
    wait_until(lambda: len(devices(node)) == GPUS, "the devices", 30.0)


def devices(node: DeployCluster) -> list[str]:
    found = [one for one in node.request("GET", SLICES)["items"] if one["spec"]["driver"] == SIM]
    return [device["name"] for one in found for device in one["spec"].get("devices", ())]


@pytest.mark.parametrize("scheduler", ["dray", "default-scheduler"])
def test_a_pod_gets_a_device(node: DeployCluster, scheduler: str) -> None:
    """From a pod of the agent: allocated by this scheduler, with the guard's consent, prepared, and in the container."""
    name = f"user-of-{scheduler}"
    node.request("POST", PODS, user(name, scheduler))
    node.wait_pod(name)
    lines = printed(node, name)
    (claim,) = [
        one for one in node.request("GET", CLAIMS)["items"] if one["metadata"]["name"].startswith(name)
    ]
    given = claim["status"]["allocation"]["devices"]["results"][0]["device"]
    assert lines[0] == given  # the node below /dev/dray-sim
    assert f"SIM_RESOURCE_GPU_GPU={given}" in lines
    wait_until(lambda: _is_told(node, claim), "the agent's word on the device", 30.0)


def _is_told(node: DeployCluster, claim: Any) -> bool:
    """Kubernetes 1.36 lets a driver write that only with rights on `resourceclaims/driver`."""
    return bool(node.request("GET", f"{CLAIMS}/{claim['metadata']['name']}")["status"].get("devices"))


def agent_access(node: DeployCluster, bound: Any) -> AdminAccess:
    """What the agent in this pod can do: with a token as the kubelet mounts it."""
    named = {
        "kind": "Pod",
        "apiVersion": "v1",
        "name": bound["metadata"]["name"],
        "uid": bound["metadata"]["uid"],
    }
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"boundObjectRef": named},
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/dray-agent/token"
    token = node.request("POST", path, asked)["status"]["token"]
    return AdminAccess(node.server, token, node.authority.certificate)


def refusal(access: AdminAccess, method: str, path: str, body: Any = None) -> str:
    with pytest.raises(urllib.error.HTTPError) as caught:
        access.request(method, path, body)
    with caught.value as error:
        assert error.code in (403, 422), error
        return str(json.load(error)["message"])


def slice_of(node_name: str) -> Json:
    spec = {"driver": "pci.dray.internal", "nodeName": node_name, "devices": []}
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    meta = {"name": f"forged-{node_name}"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": meta,
        "spec": {**spec, "pool": pool},
    }


def test_an_agent_writes_slices_of_its_own_node_alone(node: DeployCluster) -> None:
    own = agent_access(node, node.wait_ready("agent"))
    told = refusal(own, "POST", SLICES, slice_of("node-2"))
    assert "the agent of node node-1 may not write slices of node-2" in told
    own.request("POST", SLICES, slice_of("node-1"))
    elsewhere = {
        "metadata": {"name": "agent-elsewhere"},
        "spec": {
            "nodeName": "node-2",
            "serviceAccountName": "dray-agent",
            "containers": [{"name": "agent", "image": "none"}],
        },
    }
    made = node.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", elsewhere)
    try:
        stranger = agent_access(node, made)
        assert "may not write slices" in refusal(stranger, "DELETE", f"{SLICES}/forged-node-1")
        assert "may not write slices" in refusal(stranger, "POST", SLICES, slice_of("node-1"))
    finally:
        node.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/agent-elsewhere?gracePeriodSeconds=0")
    own.request("DELETE", f"{SLICES}/forged-node-1")


@pytest.mark.parametrize(
    ("part", "verb", "what"),
    [
        ("agent", "list", "secrets"),
        ("agent", "list", "pods"),
        ("agent", "patch", "nodes"),
        ("agent", "patch", "resourceclaims"),
        ("agent", "update", "configmaps"),
        ("scheduler", "delete", "pods"),
        ("scheduler", "list", "secrets"),
        ("guard", "create", "validatingwebhookconfigurations"),
        ("guard", "patch", "resourceclaims/status"),
        ("dashboard", "create", "pods"),
        ("dashboard", "patch", "resourceclaims"),
        ("dashboard", "list", "secrets"),
        ("controllers", "create", "pods"),
        ("controllers", "list", "secrets"),
    ],
)
def test_rights_that_no_part_has(node: DeployCluster, part: str, verb: str, what: str) -> None:
    group = "resource.k8s.io" if what.startswith("resourceclaims") else ""
    group = "admissionregistration.k8s.io" if what.startswith("validating") else group
    resource, _, below = what.partition("/")
    asked = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{NAMESPACE}:dray-{part}",
            "resourceAttributes": {
                "namespace": NAMESPACE,
                "verb": verb,
                "group": group,
                "resource": resource,
                "subresource": below,
            },
        },
    }
    answer = node.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", asked)
    assert answer["status"]["allowed"] is False


def test_no_process_has_more_than_its_manifest_says(node: DeployCluster) -> None:
    """As the kernel sees the containers: no capability, no new privileges, a seccomp filter, and users as written."""
    seen = {part: status_of_process(node, node.wait_ready(part)) for part in PARTS}
    users = {part: status["Uid"].split()[0] for part, status in seen.items()}
    assert users == {part: "0" if part == "agent" else "65532" for part in PARTS}
    for part, status in seen.items():
        assert int(status["CapBnd"], 16) == 0 and int(status["CapEff"], 16) == 0, part
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), part


def status_of_process(node: DeployCluster, found: Any) -> dict[str, str]:
    """/proc/PID/status of the container's first process, by the container's cgroup."""
    container_id = found["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            if container_id in path.read_text():
                lines = (path.parent / "status").read_text().splitlines()
                return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
        except OSError:
            continue  # it has ended
    raise AssertionError(f"no process of {found['metadata']['name']}")


def ask_dashboard(node: DeployCluster, path: str, **headers: str) -> tuple[int, Any]:
    """The status, and the answer."""
    address = node.wait_ready("dashboard")["status"]["podIP"]
    connection = http.client.HTTPConnection(address, 9620, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers={"Host": "localhost:9620", **headers})
        answer = connection.getresponse()
        return answer.status, json.load(answer)
    finally:
        connection.close()


def test_the_dashboard_asks_for_its_token(node: DeployCluster) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert ask_dashboard(node, "/api/fleet")[0] == 401
    assert ask_dashboard(node, "/api/fleet", Authorization="Bearer another-token-altogether")[0] == 401
    assert ask_dashboard(node, "/api/fleet", **bearer, Host="evil.example.com")[0] == 403
    service = f"dray-dashboard.{NAMESPACE}.svc"
    assert ask_dashboard(node, "/api/fleet", **bearer, Host=service)[0] == 200


def test_the_dashboard_may_read_all_it_shows(node: DeployCluster) -> None:
    status, fleet = ask_dashboard(node, "/api/fleet", Authorization=f"Bearer {TOKEN}")
    assert (status, fleet["notes"]) == (200, [])
    shown = [device["name"] for one in fleet["nodes"] for device in one["devices"] if device["driver"] == SIM]
    assert sorted(shown) == sorted(devices(node))


def test_an_update_by_helm_fails_no_pod(node: DeployCluster, tmp_path: Path) -> None:
    """helm takes over what kubectl applied. Old and new agent serve side by side, and pods start all the while."""
    old = node.wait_ready("agent")["metadata"]["uid"]
    names: list[str] = []
    updated, done = threading.Event(), threading.Event()
    failed: list[str] = []

    def wait(name: str) -> None:
        try:
            node.wait_pod(name, "Succeeded", timeout=PATIENCE)
        except Error as error:
            failed.append(str(error))

    def come_and_go() -> None:
        """Two at a time, until the update is over."""
        while not updated.is_set() or len(names) < 7:
            names.append(f"during-{len(names)}")
            node.request("POST", PODS, user(names[-1], script=f"{SHOWS}; echo ready"))
            for name in names[-2:-1]:
                wait(name)
        wait(names[-1])
        done.set()

    pods = threading.Thread(target=come_and_go)
    pods.start()
    try:
        upgrade(node, tmp_path, {"podAnnotations": {"updated": "yes"}})
        wait_until(
            lambda: [one["metadata"]["uid"] for one in node.pods_of("agent")] != [old], "a new agent", 30.0
        )
        wait_until(lambda: len(node.pods_of("agent")) == 1, "the old agent to go", 60.0)
        node.wait_ready("agent", timeout=60.0)
    finally:
        updated.set()
        pods.join(timeout=180.0)
    assert done.is_set() and failed == []
    assert {name: _log(node, name)[-1:] for name in names} == {name: ["ready"] for name in names}
    assert [one["message"] for one in events(node, "FailedPrepareDynamicResources")] == []


def events(node: DeployCluster, reason: str) -> list[Json]:
    found = node.request("GET", "/api/v1/namespaces/default/events")["items"]
    return [one for one in found if one["reason"] == reason]


def upgrade(node: DeployCluster, tmp_path: Path, agent: Json) -> None:
    values = {
        "agent": {"stateDir": STATE, "config": CONFIG, **agent},
        "controllers": {"enabled": True},
        "guard": {"apiServerCIDRs": "none"},
        "dashboard": {"token": TOKEN},
    }
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))
    node.helm("upgrade", "--install", "--take-ownership", "dray", str(CHART), "-f", str(file))


def test_both_doors_and_the_rights_to_change_the_host(node: DeployCluster, tmp_path: Path) -> None:
    """Device plugins too, and the capabilities of the list. The old agent ends before the new one starts.

    Not by /proc/1/root, at which some machines let nobody look, not even root.
    """
    both = {"dray": {**CONFIG["dray"], "doors": {"*": "both"}}}
    changes = {"hostChanges": ["usb"], "args": ["--host-root=/"]}
    upgrade(node, tmp_path, {"doors": ["dra", "plugin"], "config": both, **changes})
    # The pods of before have one each, through DRA.
    wait_until(lambda: allocatable(node) == str(GPUS - 2), "the resource", 60.0)
    assert len(node.request("GET", CLAIMS)["items"]) == 2
    status = status_of_process(node, node.wait_ready("agent"))
    chown, fowner, chroot, ptrace, admin = 0, 3, 18, 19, 21
    assert int(status["CapEff"], 16) == sum(1 << bit for bit in (chown, fowner, chroot, ptrace, admin))
    node.request("POST", PODS, pod("by-plugin", container("env; echo ready", limits={GPU: "1"})))
    node.wait_pod("by-plugin", "Succeeded")
    assert any(line.startswith("SIM_RESOURCE_EXAMPLE_COM_GPU=gpu-") for line in printed(node, "by-plugin"))


def allocatable(node: DeployCluster) -> str | None:
    found: Json = node.request("GET", f"/api/v1/nodes/{node.node_name}")["status"]["allocatable"]
    return found.get(GPU)


def logged(node: DeployCluster) -> list[str]:
    """What all pods of Dray have said, the old agent's too."""
    logs = sorted((node.dirs.log / "pods").glob(f"{NAMESPACE}_*/*/*.log"))
    assert len(logs) >= len(PARTS)
    return [line for log in logs for line in log.read_text().splitlines()]


def test_no_log_tells_of_a_missing_right(node: DeployCluster) -> None:
    known = "this user may not open /dev/"  # only told: a container gets the device whatever the agent may do
    bad = ("forbidden", "Forbidden", "may not", "Traceback")
    lines = [line for line in logged(node) if known not in line]
    assert [line for line in lines if any(word in line for word in bad)] == []


def test_no_log_tells_the_token(node: DeployCluster) -> None:
    assert [line for line in logged(node) if TOKEN in line] == []


def test_nothing_is_left_after_the_removal(node: DeployCluster) -> None:
    node.kubectl("delete", "pods", "--all", "--wait=true", "--timeout=60s", timeout=70.0)
    wait_until(lambda: node.request("GET", CLAIMS)["items"] == [], "the claims to go", 60.0)
    node.helm("uninstall", "dray", "--wait")
    wait_until(lambda: not any(node.pods_of(part) for part in PARTS), "the pods to go", 60.0)
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    assert node.request("GET", hooks)["items"] == []
    node.kubectl("delete", "namespace", NAMESPACE, "--wait=true", "--timeout=60s", timeout=70.0)
    wait_until(lambda: node.request("GET", SLICES)["items"] == [], "the kubelet to remove the slices", 60.0)
    registry, plugins = node.dirs.kubelet / "plugins_registry", node.dirs.kubelet / "plugins"
    wait_until(lambda: list(registry.iterdir()) == [], "the sockets to go", 30.0)
    assert [path for path in plugins.rglob("*") if path.is_socket()] == []
    assert [path for path in (node.dirs.run / "cdi").rglob("*") if path.is_file()] == []
