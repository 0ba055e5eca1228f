"""The rules of Kubernetes' NodeRestriction for a single object, without a server: `tests/hostile/` asks a real one."""

from __future__ import annotations

from typing import Any

import pytest

from dray.apiserver.access.node_changes import node_fault, pod_fault, slice_fault

BLUE: dict[str, Any] = {"key": "blue", "effect": "NoSchedule"}
RED: dict[str, Any] = {"key": "red", "effect": "NoExecute"}


def node(labels: dict[str, str] | None = None, name: str = "n1", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **({"labels": labels} if labels else {})}, "spec": spec}


def pod(where: str = "n1", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"nodeName": where}, "status": status}


def device_slice(where: str = "n1", driver: str = "gpu.example.com", pool: str = "n1") -> dict[str, Any]:
    return {"spec": {"nodeName": where, "driver": driver, "pool": {"name": pool}}}


@pytest.mark.parametrize(
    ("before", "after", "is_refused"),
    [
        (None, None, False),
        (None, [], False),
        ([], None, False),
        ([BLUE], [BLUE], False),
        ([], [BLUE], True),
        ([BLUE], [], True),
        ([BLUE], None, True),
        ([BLUE], [RED], True),
        ([BLUE, RED], [RED, BLUE], True),
    ],
)
def test_a_node_that_exists_keeps_its_taints(before: Any, after: Any, is_refused: bool) -> None:
    why = node_fault("n1", node(taints=before), node(taints=after))
    assert why == ("a node may not change spec.taints of itself" if is_refused else "")


def test_a_node_that_registers_may_come_with_taints() -> None:
    assert node_fault("n1", None, node(taints=[BLUE])) == ""


@pytest.mark.parametrize(
    "renamed", [(node(), node(name="n2")), (node(name="n2"), node()), (None, node(name="n0"))]
)
def test_a_node_object_of_another_name_is_not_its_own(renamed: tuple[Any, Any]) -> None:
    assert node_fault("n1", *renamed) == "a node may only do this to its own"


@pytest.mark.parametrize(
    ("label", "is_free"),
    [
        ("team", True),
        ("example.com/team", True),
        ("notkubernetes.io/team", True),
        ("kubernetes.io.example.com/team", True),
        ("kubernetes.io/hostname", True),
        ("topology.kubernetes.io/zone", True),
        ("node.kubernetes.io/instance-type", True),
        ("blue.kubelet.kubernetes.io/x", True),
        ("kubernetes.io/team", False),
        ("topology.kubernetes.io/team", False),
        ("k8s.io/team", False),
        ("blue.k8s.io/team", False),
        ("node-role.kubernetes.io/control-plane", False),
        ("node-restriction.kubernetes.io/team", False),
        ("blue.node-restriction.kubernetes.io/team", False),
    ],
)
def test_a_node_gives_itself_no_label_of_kubernetes_but_those_that_a_kubelet_knows(
    label: str, is_free: bool
) -> None:
    with_label = node({label: "x", "example.com/other": "y"})
    without, changed = (node({**labels, "example.com/other": "z"}) for labels in ({}, {label: "y"}))
    why = "" if is_free else f"a node may not set or change these labels of itself: {label}"
    assert node_fault("n1", None, with_label) == why
    assert node_fault("n1", without, with_label) == why
    assert node_fault("n1", with_label, without) == why
    assert node_fault("n1", with_label, changed) == why
    # What an administrator gave it may stay.
    assert node_fault("n1", with_label, {**with_label, "status": {}}) == ""


def test_all_labels_that_it_may_not_set_are_named_in_order() -> None:
    labels = {f"{name}.k8s.io/x": "" for name in ("b", "a", "c")}
    assert node_fault("n1", None, node(labels)).endswith(": a.k8s.io/x, b.k8s.io/x, c.k8s.io/x")


@pytest.mark.parametrize(
    ("field", "granted"),
    [
        ("resourceClaimStatuses", [{"name": "a", "resourceClaimName": "of-nobody"}]),
        ("extendedResourceClaimStatus", {"resourceClaimName": "of-nobody"}),
    ],
)
def test_the_status_of_a_pod_grants_it_no_claim(field: str, granted: Any) -> None:
    why = f"a node may not change status.{field}: it would grant itself a claim"
    empty = {**pod(), "status": {"phase": "Running", field: None}}
    plain, with_claim = pod(phase="Pending"), pod(phase="Running", **{field: granted})
    assert pod_fault("n1", "status", plain, with_claim) == why
    assert pod_fault("n1", "status", with_claim, plain) == why
    assert pod_fault("n1", "status", with_claim, pod(phase="Failed", **{field: granted})) == ""
    assert pod_fault("n1", "status", plain, empty) == ""
    assert pod_fault("n1", "status", pod("n2"), pod("n2")) == "a node may only do this to its own"


@pytest.mark.parametrize("field", ["labels", "annotations", "finalizers", "ownerReferences"])
def test_the_status_of_a_pod_is_no_way_to_its_metadata(field: str) -> None:
    marked = pod() | {"metadata": {"name": "p", field: ["x"]}}
    assert pod_fault("n1", "status", pod(), marked) == f"a node may not change metadata.{field}"
    assert pod_fault("n1", "status", marked, marked) == ""


def test_a_slice_is_on_this_node_and_in_a_pool_of_its_own() -> None:
    def owns(driver: str, pool: str) -> bool:
        return (driver, pool) in {("gpu.example.com", "n1"), ("gpu.example.com", "n1/gpus")}

    assert slice_fault("n1", None, device_slice(), owns) == ""
    assert slice_fault("n1", None, device_slice(pool="n1/gpus"), owns) == ""
    for found in (
        device_slice(pool="n2"),
        device_slice(pool="n2/gpus"),
        device_slice(pool="n1/"),
        device_slice(driver="nic.example.com"),
        device_slice(driver="gpu.example.com/n1", pool=""),
    ):
        spec = found["spec"]
        why = f"spec.pool.name: pool {spec['pool']['name']!r} of driver {spec['driver']} does not belong to"
        assert slice_fault("n1", device_slice(), found, owns) == f"{why} node 'n1'"
        assert slice_fault("n1", found, None, owns) == ""
    moved = "its spec.nodeName must be 'n1', before and after"
    other = device_slice("n2")
    for old, new in ((other, None), (other, device_slice()), (None, other)):
        assert slice_fault("n1", old, new, owns) == moved
    assert slice_fault("n1", None, {"spec": {"nodeName": "n1"}}, owns).startswith("spec.pool.name: pool None")


def test_what_becomes_of_its_own_objects_that_end_is_not_looked_at() -> None:
    """Whether it may remove them at all was decided by their names."""
    assert node_fault("n1", node(taints=[BLUE]), None) == ""
    assert pod_fault("n1", "", pod(phase="Failed", resourceClaimStatuses=[{"name": "a"}]), None) == ""
    assert pod_fault("n1", "eviction", pod(), None) == ""
    other = "a node may only do this to its own"
    assert node_fault("n1", node(name="n2"), None) == pod_fault("n1", "", pod("n2"), None) == other


@pytest.mark.parametrize("before", [None, {"configMap": {"name": "old"}}])
def test_where_its_settings_come_from_is_not_the_nodes_to_say(before: Any) -> None:
    source = {"configMap": {"name": "new"}}
    old = node(**({"configSource": before} if before else {}))
    for one in (old, None):
        assert node_fault("n1", one, node(configSource=source)) == "a node may not set spec.configSource"
    assert node_fault("n1", node(configSource=source), node(configSource=source, unschedulable=True)) == ""
    assert node_fault("n1", node(configSource=source), node()) == ""
