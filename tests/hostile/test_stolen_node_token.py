"""Somebody with the token of one node, at our own API server: what a node may not do, as Kubernetes' NodeRestriction has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dray.apiserver.access.identity import admin, node
from tests.apiserver.http.asking import APPLY, MERGE, PODS, Asking, asking

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
NODES = "/api/v1/nodes"
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
GPU = {"example.com/gpu": "1"}
MARKS = (
    {"labels": {"a": "b"}},
    {"annotations": {"a": "b"}},
    {"finalizers": ["example.com/stay"]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u"}]},
)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Asking]:
    """Nodes n1 and n2, a pod on each, a claim of each pod and one of nobody; asked as node n1."""
    async with asking(tmp_path) as found:
        for name in ("n1", "n2"):
            await found.done("POST", NODES, {"metadata": {"name": name}, "spec": {"taints": []}})
            await found.done("POST", CLAIMS, {"metadata": {"name": f"of-{name}"}, "spec": SPEC})
            await found.done("POST", PODS, _pod(f"on-{name}", name))
        await found.done("POST", CLAIMS, {"metadata": {"name": "of-nobody"}, "spec": SPEC})
        found.become(node("n1"))
        yield found


def _pod(name: str, where: str) -> dict[str, Any]:
    claims = [
        {"name": "a", "resourceClaimName": f"of-{where}"},
        {"name": "b", "resourceClaimTemplateName": "t"},
    ]
    spec = {
        "nodeName": where,
        "containers": [
            {"name": "c", "image": "x", "resources": {"requests": GPU, "limits": GPU}},
        ],
        "resourceClaims": claims,
    }
    return {"metadata": {"name": name}, "spec": spec}


async def refused(server: Asking, method: str, path: str, body: object, why: str, kind: str = MERGE) -> None:
    code, found = await server.ask(method, path, body, kind)
    assert code == 403 and why in found["message"], found["message"]


async def test_a_node_cannot_grant_itself_a_claim(server: Asking) -> None:
    made = [{"name": "b", "resourceClaimName": "of-nobody"}]
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
    for status, field in (
        ({"resourceClaimStatuses": made}, "status.resourceClaimStatuses"),
        (
            {"extendedResourceClaimStatus": {"resourceClaimName": "of-nobody", "requestMappings": [mapping]}},
            "status.extendedResourceClaimStatus",
        ),
    ):
        why = f"a node may not change {field}"
        await refused(server, "PATCH", f"{PODS}/on-n1/status", {"status": status}, why)
    for claim in ("of-nobody", "of-n2"):
        await refused(server, "GET", f"{CLAIMS}/{claim}", None, "no relationship found")
    assert (await server.ask("GET", f"{CLAIMS}/of-n1"))[0] == 200


async def test_what_was_granted_counts_for_entries_of_the_spec_alone(server: Asking) -> None:
    """Also where somebody else wrote it: a name for an entry that the pod has not means nothing."""
    server.become(admin())
    made = [{"name": "b", "resourceClaimName": "of-nobody"}]
    await server.done("PATCH", f"{PODS}/on-n1/status", {"status": {"resourceClaimStatuses": made}}, MERGE)
    server.become(node("n1"))
    assert (await server.ask("GET", f"{CLAIMS}/of-nobody"))[0] == 200
    # The node reports of its pod without touching them.
    code, _ = await server.ask("PATCH", f"{PODS}/on-n1/status", {"status": {"phase": "Running"}}, MERGE)
    assert code == 200


@pytest.mark.parametrize("marks", MARKS, ids=lambda marks: next(iter(marks)))
async def test_a_status_is_no_way_to_metadata(server: Asking, marks: dict[str, Any]) -> None:
    (field,) = marks
    for path in (f"{PODS}/on-n1/status", f"{CLAIMS}/of-n1/status"):
        server.become(admin())
        before = await server.done("GET", path.removesuffix("/status"))
        server.become(node("n1"))
        await server.ask("PATCH", path, {"metadata": marks}, MERGE)
        server.become(admin())
        after = await server.done("GET", path.removesuffix("/status"))
        assert after["metadata"].get(field) == before["metadata"].get(field), path
        server.become(node("n1"))


@pytest.mark.parametrize(
    "label",
    [
        "node-restriction.kubernetes.io/team",
        "blue.node-restriction.kubernetes.io/team",
        "node-role.kubernetes.io/control-plane",
        "kubernetes.io/other",
        "x.k8s.io/y",
        "k8s.io/y",
    ],
)
async def test_a_node_cannot_label_itself_to_draw_pods(server: Asking, label: str) -> None:
    why = f"a node may not set or change these labels of itself: {label}"
    for door in (f"{NODES}/n1", f"{NODES}/n1/status"):
        await refused(server, "PATCH", door, {"metadata": {"labels": {label: "x"}}}, why)
    server.become(node("n9"))
    await refused(
        server, "POST", NODES, {"metadata": {"name": "n9", "labels": {label: ""}}}, why, "application/json"
    )
    # Nor remove one that an administrator gave it.
    server.become(admin())
    await server.done("PATCH", f"{NODES}/n1", {"metadata": {"labels": {label: "x"}}}, MERGE)
    server.become(node("n1"))
    await refused(server, "PATCH", f"{NODES}/n1", {"metadata": {"labels": {label: None}}}, why)


async def test_a_node_may_label_itself_with_what_kubelets_know(server: Asking) -> None:
    labels = {
        "kubernetes.io/hostname": "n1",
        "topology.kubernetes.io/zone": "z",
        "node.kubernetes.io/instance-type": "big",
        "kubelet.kubernetes.io/x": "y",
        "example.com/anything": "y",
        "plain": "y",
    }
    assert (await server.ask("PATCH", f"{NODES}/n1", {"metadata": {"labels": labels}}, MERGE))[0] == 200


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, "may not change spec.taints"),
        ({"metadata": {"finalizers": ["example.com/stay"]}}, "may not change metadata.finalizers"),
        ({"metadata": MARKS[3]}, "may not change metadata.ownerReferences"),
        ({"spec": {"configSource": {"configMap": {"name": "c"}}}}, "may not set spec.configSource"),
    ],
)
async def test_a_node_cannot_change_what_others_decide_of_it(
    server: Asking, change: dict[str, Any], why: str
) -> None:
    await refused(server, "PATCH", f"{NODES}/n1", change, why)


async def test_nothing_of_another_node(server: Asking) -> None:
    own = "a node may only do this to its own"
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    lease = {"metadata": {"name": "n2"}, "spec": {"holderIdentity": "n1"}}
    pool = {"name": "n2", "generation": 1, "resourceSliceCount": 1}
    devices = {"metadata": {"name": "s"}, "spec": {"driver": "d.e", "nodeName": "n2", "pool": pool}}
    for method, path, body, why in (
        ("PATCH", f"{NODES}/n2", {"metadata": {"labels": {"a": "b"}}}, own),
        ("PATCH", f"{PODS}/on-n2/status", {"status": {"phase": "Failed"}}, own),
        ("DELETE", f"{PODS}/on-n2", None, own),
        ("PATCH", f"{CLAIMS}/of-n2/status", {"status": {"devices": []}}, own),
    ):
        await refused(server, method, path, body, why)
    plain = "application/json"
    await refused(server, "POST", leases, lease, own, plain)
    await refused(server, "POST", SLICES, devices, "must be 'n1'", plain)
    await refused(
        server, "POST", "/apis/storage.k8s.io/v1/csinodes", {"metadata": {"name": "n2"}}, own, plain
    )
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "on-n2"}}
    await refused(server, "POST", f"{PODS}/on-n2/eviction", eviction, own, plain)
    await refused(server, "POST", PODS, _pod("mine", "n1"), own, plain)


def _slice(name: str, pool: str, generation: int = 1) -> dict[str, Any]:
    counts = {"name": pool, "generation": generation, "resourceSliceCount": 1}
    devices = [{"name": "gpu-0"}]
    spec = {"driver": "d.e", "nodeName": name, "pool": counts, "devices": devices}
    return {"metadata": {"generateName": f"{name}-"}, "spec": spec}


async def test_a_node_cannot_take_away_devices_of_another_by_a_newer_generation(server: Asking) -> None:
    """Of a pool the newest generation counts. A driver may have several pools on a node: those stay its own."""
    plain = "application/json"
    for who, pool in (("n2", "n2"), ("n2", "n2-gpus"), ("n1", "n1"), ("n1", "n1-gpus")):
        server.become(node(who))
        await server.done("POST", SLICES, _slice(who, pool))
    server.become(node("n1"))
    for pool in ("n2", "n2-gpus"):
        why = f"spec.pool.name: pool '{pool}' of driver d.e does not belong to node 'n1'"
        await refused(server, "POST", SLICES, _slice("n1", pool, 2**40), why, plain)
    await server.done("POST", SLICES, _slice("n1", "n1-gpus", 2))
    # The pool of a node that is not there yet: when it comes, its name is its own.
    await server.done("POST", SLICES, _slice("n1", "n3", 2**40))
    server.become(admin())
    await server.done("POST", NODES, {"metadata": {"name": "n3"}})
    server.become(node("n3"))
    await server.done("POST", SLICES, _slice("n3", "n3"))


async def test_a_node_cannot_report_on_devices_of_another_with_the_same_driver(server: Asking) -> None:
    server.become(admin())
    await server.done("POST", PODS, _sharing("n1"))
    await server.done("POST", PODS, _sharing("n2"))
    await server.done("POST", CLAIMS, {"metadata": {"name": "shared"}, "spec": SPEC})
    devices = [{"request": "r", "driver": "d.e", "pool": one, "device": "gpu-0"} for one in ("n1", "n2")]
    allocation = {"allocation": {"devices": {"results": devices}}}
    await server.done("PATCH", f"{CLAIMS}/shared/status", {"status": allocation}, MERGE)
    entries = [{"driver": "d.e", "pool": one, "device": "gpu-0"} for one in ("n1", "n2")]
    for who in ("n1", "n2"):
        server.become(node(who))
        await server.done("POST", SLICES, _slice(who, who))
    path, own = f"{CLAIMS}/shared/status", "of its own pools only"
    await server.done("PATCH", path, {"status": {"devices": entries[1:]}}, MERGE)
    server.become(node("n1"))
    await refused(server, "PATCH", path, {"status": {"devices": []}}, own)
    await refused(server, "PATCH", path, {"status": {"devices": [{**entries[1], "data": {}}]}}, own)
    await server.done("PATCH", path, {"status": {"devices": entries}}, MERGE)


def _sharing(where: str) -> dict[str, Any]:
    pod = _pod(f"sharing-{where}", where)
    pod["spec"]["resourceClaims"] = [{"name": "a", "resourceClaimName": "shared"}]
    return pod


async def test_a_write_about_a_pod_that_is_gone_finds_and_makes_nothing(server: Asking) -> None:
    """As with Kubernetes: a kubelet whose pod was just deleted is told so."""
    gone = f"{PODS}/gone"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "gone"}}
    whole = {"apiVersion": "v1", "kind": "Pod", **_pod("gone", "n1"), "status": {"phase": "Running"}}
    for method, path, body, kind in (
        ("PATCH", f"{gone}/status", {"status": {"phase": "Failed"}}, MERGE),
        ("PATCH", f"{gone}/status?fieldManager=x", whole, APPLY),
        ("PUT", f"{gone}/status", whole, "application/json"),
        ("POST", f"{gone}/eviction", eviction, "application/json"),
        ("DELETE", gone, None, "application/json"),
    ):
        code, found = await server.ask(method, path, body, kind)
        assert code == 404 and found["reason"] == "NotFound", (method, path, found)
    server.become(admin())
    assert (await server.ask("GET", gone, None, MERGE))[0] == 404
