"""`dray explain`, `allocate` and `simulate` on a real API server, beside the real scheduler: what it leaves, we refuse."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dray.cli.main import main
from dray.testing.kubernetes.control_plane import ControlPlane
from dray.testing.kubernetes.part import wait_until
from dray.testing.kubernetes.tools import KUBERNETES_VERSION
from tests.campaign import campaign, seeded
from tests.e2e.scheduler_part import delete_claims, kube_scheduler

Json = dict[str, Any]
DRIVER = "gpu.example.com"
MODEL = f'device.attributes["{DRIVER}"].model'
WIDGET = "example.com/widget"
CARD = "example.com/card"
RESOURCE = "resource.k8s.io/v1"
PATHS = {
    "Pod": "/api/v1/namespaces/default/pods",
    "ResourceClaim": f"/apis/{RESOURCE}/namespaces/default/resourceclaims",
}


def obj(kind: str, name: str, spec: Json, api_version: str = RESOURCE, **more: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec, **more}


def device(name: str, model: str, **more: Any) -> Json:
    return {"name": name, "attributes": {"model": {"string": model}}, **more}


def slice_of(node: str, *devices: Json, driver: str = DRIVER, pool: str = "") -> Json:
    spec = {
        "driver": driver,
        "nodeName": node,
        "pool": {"name": pool or node, "generation": 1, "resourceSliceCount": 1},
        "devices": list(devices),
    }
    return obj("ResourceSlice", f"{node}-{driver}", spec)


def claim(name: str, model: str = "", count: int = 1, device_class: str = "gpu", **more: Any) -> Json:
    wish: Json = {"deviceClassName": device_class, "count": count, **more}
    if model:
        wish["selectors"] = [{"cel": {"expression": f'{MODEL} == "{model}"'}}]
    return obj("ResourceClaim", name, {"devices": {"requests": [{"name": "gpu", "exactly": wish}]}})


def pod(name: str, *claims: str, init: Json | None = None, limits: Json | None = None, **spec: Any) -> Json:
    wants = {"claims": [{"name": one} for one in claims], "limits": limits or {}}
    containers = [{"name": "main", "image": "i", "resources": wants}]
    names = [{"name": one, "resourceClaimName": one} for one in claims]
    more: Json = (
        {"initContainers": [{"name": "first", "image": "i", "resources": {"limits": init}}]} if init else {}
    )
    return obj("Pod", name, {"containers": containers, "resourceClaims": names, **more, **spec}, "v1")


OBJECTS = [
    obj("DeviceClass", "gpu", {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}),
    obj(
        "DeviceClass",
        "card",
        {
            "selectors": [{"cel": {"expression": 'device.driver == "card.example.com"'}}],
            "extendedResourceName": CARD,
        },
    ),
    slice_of(
        "node-1",
        device("gpu-0", "A100"),
        device("gpu-1", "H100"),
        device("gpu-2", "H100", taints=[{"key": "hot", "effect": "NoSchedule"}]),
    ),
    slice_of("node-2", device("gpu-0", "A100"), device("gpu-1", "B200")),
    slice_of("node-3", device("gpu-0", "H200")),
    slice_of("node-1", device("card-0", "C"), driver="card.example.com"),
    obj(
        "DeviceTaintRule",
        "b200",
        {
            "deviceSelector": {"driver": DRIVER, "pool": "node-2", "device": "gpu-1"},
            "taint": {"key": "service", "effect": "NoSchedule"},
        },
        "resource.k8s.io/v1beta2",
    ),
]
ROOM = {"cpu": "4", "memory": "4Gi", "pods": "20"}
NODES: dict[str, tuple[Json, Json]] = {
    "node-1": (ROOM | {WIDGET: "4"}, {}),
    "node-2": (ROOM | {WIDGET: "1", CARD: "1"}, {}),
    "node-3": (ROOM | {WIDGET: "8"}, {"taints": [{"key": "own", "value": "x", "effect": "NoSchedule"}]}),
}
TOLERATION = [{"key": "own", "operator": "Exists"}]
HOT = [{"key": "hot", "operator": "Exists"}]
SCENES: dict[str, list[Json]] = {
    "gets-a-gpu": [claim("h100", "H100"), pod("gets-a-gpu", "h100")],
    "no-second-h100": [claim("h100-too", "H100"), pod("no-second-h100", "h100-too")],
    "hot-is-fine": [claim("h100-hot", "H100", tolerations=HOT), pod("hot-is-fine", "h100-hot")],
    "taint-rule": [claim("b200", "B200"), pod("taint-rule", "b200")],
    "tainted-node": [claim("h200", "H200"), pod("tainted-node", "h200")],
    "tolerates-node": [claim("h200-own", "H200"), pod("tolerates-node", "h200-own", tolerations=TOLERATION)],
    "two-on-one-node": [claim("two", "A100", 2), pod("two-on-one-node", "two")],
    "no-such-class": [claim("gold", device_class="gold"), pod("no-such-class", "gold")],
    "widgets": [pod("widgets", limits={WIDGET: "3"})],
    "init-counts": [pod("init-counts", limits={WIDGET: "1"}, init={WIDGET: "2"})],
    "last-widget": [
        pod("last-widget", limits={WIDGET: "1"}, nodeSelector={"kubernetes.io/hostname": "node-1"})
    ],
    "no-widget-left": [pod("no-widget-left", limits={WIDGET: "2"})],
    "unknown-resource": [pod("unknown-resource", limits={"example.com/none": "1"})],
    "much-cpu": [claim("any"), pod("much-cpu", "any", limits={"cpu": "64"})],
    "card-by-plugin-or-class": [pod("card-by-plugin-or-class", limits={CARD: "1"})],
    "second-card": [pod("second-card", limits={CARD: "1"})],
    "third-card": [pod("third-card", limits={CARD: "1"})],
    "claim-and-widget": [claim("a100", "A100"), pod("claim-and-widget", "a100", limits={WIDGET: "1"})],
    "elsewhere": [claim("a100-1", "A100"), pod("elsewhere", "a100-1", nodeSelector={"zone": "moon"})],
}
WAITS = {
    "no-second-h100",
    "taint-rule",
    "tainted-node",
    "two-on-one-node",
    "no-such-class",
    "init-counts",
    "no-widget-left",
    "unknown-resource",
    "much-cpu",
    "third-card",
    "elsewhere",
}


@pytest.fixture(scope="module")
def plane(killable: ControlPlane) -> Iterator[ControlPlane]:
    """An API server with the real scheduler and three nodes on paper."""
    for name, (resources, spec) in NODES.items():
        _make_node(killable, name, resources, spec)
    killable.kubectl("apply", "-f", "-", input=_listed(OBJECTS))
    with kube_scheduler(killable):
        yield killable
    killable.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
    delete_claims(killable)
    killable.kubectl("delete", "-f", "-", input=_listed(OBJECTS))
    killable.kubectl("delete", "nodes", *NODES)


def _listed(objects: list[Json]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def _make_node(plane: ControlPlane, name: str, resources: Json, spec: Json) -> None:
    """A new node is given a taint until somebody calls it ready; nobody does here."""
    made = obj("Node", name, spec, "v1")
    made["metadata"]["labels"] = {"kubernetes.io/hostname": name}
    plane.request("POST", "/api/v1/nodes", made)
    stored = plane.request("GET", f"/api/v1/nodes/{name}")
    stored["spec"]["taints"] = spec.get("taints", [])
    stored = plane.request("PUT", f"/api/v1/nodes/{name}", stored)
    stored["status"] = {"capacity": resources, "allocatable": resources}
    plane.request("PUT", f"/api/v1/nodes/{name}/status", stored)


@dataclass(frozen=True)
class Shown:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        assert self.code == 0, self
        return json.loads(self.out)


def dray(kubeconfig: Path, *words: str) -> Shown:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*words, "--kubeconfig", str(kubeconfig)])
    return Shown(code, out.getvalue(), err.getvalue())


def decided(plane: ControlPlane, name: str) -> str:
    """The node the scheduler chose, or "" where it found none."""
    path = f"/api/v1/namespaces/default/pods/{name}"

    def is_decided() -> bool:
        conditions = plane.request("GET", path)["status"].get("conditions", [])
        return any(one["type"] == "PodScheduled" for one in conditions)

    wait_until(is_decided, f"a decision on {name}", 30.0)
    node: str = plane.request("GET", path)["spec"].get("nodeName", "")
    return node


def foretold(plane: ControlPlane, path: Path, name: str, objects: list[Json]) -> str:
    """Explain a pod before it exists, create it, and compare. Gives the scheduler's node."""
    path.write_text(_listed(objects))
    answer = dray(plane.kubeconfig, "explain", f"pod/{name}", "-f", str(path), "-o", "json").document
    assert answer["profile"] == "k8s-1.36"
    (told,) = answer["workloads"]
    for one in objects:
        plane.request("POST", PATHS[one["kind"]], one)
    node = decided(plane, name)
    assert bool(node) == bool(told["fitsOn"]), (name, node, told)
    assert not node or node in told["fitsOn"], (name, node, told)
    return node


@pytest.fixture(scope="module")
def scenes(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> ControlPlane:
    """All scenes played, one after the other: what the first pods take is missing for the later ones."""
    path = tmp_path_factory.mktemp("scenes") / "scene.json"
    nodes = {name: foretold(plane, path, name, objects) for name, objects in SCENES.items()}
    assert {name for name, node in nodes.items() if not node} == WAITS
    return plane


def test_the_scheduler_and_explain_agree(scenes: ControlPlane) -> None:
    """Those left waiting are explained again, as they are now."""
    told = dray(scenes.kubeconfig, "explain", "-o", "json").document["workloads"]
    assert {one["name"] for one in told} == {f"default/{name}" for name in WAITS}
    assert [one["name"] for one in told if one["fitsOn"]] == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("pod/no-second-h100", "Pod default/no-second-h100 does not fit on any of 3 nodes (profile k8s-1.36"),
        ("h100-too", "  gpu.example.com/node-1/gpu-1 (claim default/h100, pod gets-a-gpu)"),
        ("pod/no-widget-left", "  on node-1: free 2 example.com/widget: end pod default/widgets"),
        ("pod/gets-a-gpu", "Pod default/gets-a-gpu has its devices already (profile k8s-1.36"),
        ("pod/third-card", f"{CARD}: where no device plugin has it, devices of class card serve it"),
        ("pod/elsewhere", "node-1: the pod's nodeSelector wants zone=moon"),
    ],
)
def test_what_is_shown(scenes: ControlPlane, name: str, line: str) -> None:
    shown = dray(scenes.kubeconfig, "explain", name)
    assert (shown.code, shown.err) == (0, "")
    assert any(one.startswith(line) for one in shown.out.splitlines()), shown.out


def test_allocate_and_simulate_write_nothing(scenes: ControlPlane, tmp_path: Path) -> None:
    def versions() -> list[tuple[str, str]]:
        found = scenes.request("GET", "/apis/resource.k8s.io/v1/resourceclaims")["items"]
        return [(one["metadata"]["name"], one["metadata"]["resourceVersion"]) for one in found]

    before = versions()
    path = tmp_path / "one.json"
    path.write_text(_listed([claim("what-if", "B200", tolerations=[{"operator": "Exists"}])]))
    words = ["-f", str(path), "-o", "json"]
    assert dray(scenes.kubeconfig, "allocate", *words).document["node"] == "node-2"
    assert dray(scenes.kubeconfig, "allocate", "h100-too").code == 1
    got = dray(scenes.kubeconfig, "simulate", *words, "--claims", "3").document
    assert (got["fits"], got["profile"]) == (1, "k8s-1.36")
    assert versions() == before


def test_the_server_is_named(scenes: ControlPlane) -> None:
    answer = dray(scenes.kubeconfig, "explain", "pod/gets-a-gpu", "-o", "json").document
    assert answer["server"] == {"address": scenes.server, "version": KUBERNETES_VERSION}


def test_who_may_not_list_is_told_what(plane: ControlPlane) -> None:
    shown = dray(plane.driver_kubeconfig, "explain")
    assert (shown.code, shown.out, shown.err.count("\n")) == (1, "", 1)
    start = "dray: may not list nodes cluster-wide; ask for a role with the verb list on it: "
    assert shown.err.startswith(start)


def test_a_namespace_of_ones_own_is_enough_for_pods(scenes: ControlPlane) -> None:
    group = ".resource.k8s.io"
    kinds = ",".join(
        ["nodes", *(f"{one}{group}" for one in ("resourceslices", "deviceclasses", "resourceclaims"))]
    )
    scenes.kubectl("create", "clusterrole", "devices", "--verb=list", f"--resource={kinds}")
    scenes.kubectl("create", "clusterrolebinding", "devices", "--clusterrole=devices", "--user=tenant")
    own = f"--resource=pods,resourceclaimtemplates{group}"
    scenes.kubectl("create", "role", "own", "--verb=list", own)
    scenes.kubectl("create", "rolebinding", "own", "--role=own", "--user=tenant")
    shown = dray(scenes.kubeconfig_for("tenant"), "explain", "pod/no-second-h100")
    assert shown.code == 0
    assert shown.out.startswith("Pod default/no-second-h100 does not fit on any of 3 nodes")
    here = "cluster-wide; only those of namespace default were read"
    assert [line.partition(",")[0] for line in shown.err.splitlines()] == [
        f"dray: note: may not list resourceclaimtemplates{group} {here}",
        f"dray: note: may not list pods {here}",
        f"dray: note: may not list devicetaintrules{group}",
        "dray: note: may not list events",
    ]


def test_a_pod_that_the_kubelet_did_not_admit(scenes: ControlPlane) -> None:
    sent = pod("sent-back", limits={WIDGET: "1"}, nodeName="node-2")
    scenes.kubectl("apply", "-f", "-", input=json.dumps(sent))
    path = "/api/v1/namespaces/default/pods/sent-back"
    stored = scenes.request("GET", path)
    message = f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {WIDGET}"
    stored["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}
    scenes.request("PUT", f"{path}/status", stored)
    head, said, *_ = dray(scenes.kubeconfig, "explain", "pod/sent-back").out.splitlines()
    assert head.startswith("Pod default/sent-back was not admitted by the kubelet of node-2")
    assert said == f"  UnexpectedAdmissionError: {message}"
    last = "Not admitted by their kubelets (`dray explain pod/NAME` says why): default/sent-back"
    assert dray(scenes.kubeconfig, "explain").out.splitlines()[-1] == last


def test_random_pods_are_foretold(scenes: ControlPlane, tmp_path: Path) -> None:
    """More pods of all kinds, on what is left; some of the earlier ones end meanwhile."""
    dice = seeded(36)
    placed: list[str] = []
    refused = 0
    for number in range(campaign(30, 400)):
        name = f"random-{number}"
        if len(placed) > 4 and dice.random() < 0.6:
            _end(scenes, placed.pop(dice.randrange(len(placed))))
        if foretold(scenes, tmp_path / "pod.json", name, _random(dice, name)):
            placed.append(name)
        else:
            refused += 1
            _end(scenes, name)
    assert placed and refused


def _end(plane: ControlPlane, name: str) -> None:
    """End a pod, and its claims as a controller would."""
    plane.request("DELETE", f"{PATHS['Pod']}/{name}?gracePeriodSeconds=0")
    delete_claims(plane, name)


def _random(dice: random.Random, name: str) -> list[Json]:
    """A pod with a claim named like it, with resources, or with both."""
    limits: Json = {}
    for resource in (WIDGET, CARD, "cpu"):
        if dice.random() < 0.4:
            limits[resource] = str(dice.randint(1, 3))
    spec: Json = {}
    if dice.random() < 0.4:
        spec["tolerations"] = TOLERATION
    if dice.random() < 0.2:
        spec["nodeSelector"] = {"kubernetes.io/hostname": dice.choice(list(NODES))}
    init = {WIDGET: str(dice.randint(1, 4))} if dice.random() < 0.2 else None
    if dice.random() < 0.5:
        model = dice.choice(["", "A100", "B200", "H100", "H200"])
        wish = claim(name, model, dice.randint(1, 2), tolerations=HOT if dice.random() < 0.3 else [])
        return [wish, pod(name, name, limits=limits, init=init, **spec)]
    return [pod(name, limits={WIDGET: "1"} | limits, init=init, **spec)]


def test_a_server_that_is_gone(killable: ControlPlane) -> None:
    killable.kill_apiserver()
    try:
        shown = dray(killable.kubeconfig, "explain")
    finally:
        killable.start_apiserver()
    assert (shown.code, shown.out, shown.err.count("\n")) == (3, "", 1)
    assert "cannot connect" in shown.err and killable.server in shown.err
