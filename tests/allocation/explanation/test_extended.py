"""Resources that pods ask for by name: counts on each node, classes that serve them, and what would help."""

from __future__ import annotations

from typing import Any

from dray.allocation.cluster.situation import Situation
from dray.allocation.cluster.workloads import workloads_of
from dray.allocation.explanation.extended import (
    Explained,
    classes_by_resource,
    explain_pod,
    use_of,
    variants,
)
from dray.api.codec import Manifest
from tests.allocation.dumps import as_object, claims, cluster, holding, pod, situation, slices
from tests.allocation.world import claim, devices, piece, request

X = "example.com/x"


def node(name: str, allocatable: dict[str, Any] | None = None, **capacity: Any) -> Manifest:
    status = {"allocatable": allocatable or {}, "capacity": capacity or allocatable or {}}
    return as_object("Node", {"metadata": {"name": name}, "status": status}, "v1")


def asks(name: str, *claims: Any, on: str = "", phase: str = "", **amounts: Any) -> Manifest:
    """A pod that asks for resources; `x` stands for a device plugin's."""
    names = {X if key == "x" else key: str(value) for key, value in amounts.items()}
    used = [{"name": one["name"]} for one in claims]
    container = {"name": "c", "image": "i", "resources": {"limits": names, "claims": used}}
    made = pod(name, *claims, containers=[container], **({"nodeName": on} if on else {}))
    made.raw["status"] = {"phase": phase}
    return made


def served(name: str, resource: str = X, made: str = "2026-01-01T00:00:00Z") -> Manifest:
    """A class of driver-a's devices."""
    selectors = [{"cel": {"expression": 'device.driver == "driver-a"'}}]
    spec = {"selectors": selectors, "extendedResourceName": resource}
    return as_object("DeviceClass", {"metadata": {"name": name, "creationTimestamp": made}, "spec": spec})


def explained(*manifests: Any, other: Situation | None = None) -> Explained:
    """Of the first pod that waits."""
    here = situation(*manifests)
    one = next(one for one in workloads_of(here.cluster) if one.waits)
    return explain_pod(here, one, here.cluster.nodes, use_of(here.cluster.pods), other)


def shown(found: Explained) -> list[tuple[str, str, str, str]]:
    return [(one.node, str(one.used), str(one.free), str(one.short)) for one in found.resources]


def test_what_is_free_on_each_node() -> None:
    found = explained(
        asks("p", x=2),
        node("a", {X: 4}),
        node("b", {X: 4}),
        node("c"),
        node("d", {X: 1}),
        asks("u", on="a", x=3),
        asks("v", on="a", x=1, phase="Succeeded"),
        asks("w", on="b", x=1, phase="Running"),
        asks("o", on="b", cpu=1),
    )
    assert shown(found) == [
        ("a", "3", "1", "1"),
        ("b", "1", "3", "0"),
        ("c", "0", "0", "2"),
        ("d", "0", "1", "1"),
    ]
    assert found.explanation.verdict.fits_on == ("b",)
    reasons = {group.nodes: group.refusal.reason for group in found.explanation.reasons.groups}
    assert reasons == {
        ("a",): f"short of 1 {X}: 4 allocatable, 3 in use",
        ("c",): f"has no {X}",
        ("d",): f"short of 1 {X}: 1 allocatable, 0 in use",
    }
    assert found.ways == ()


def test_ways_out_where_nothing_else_is_against_it() -> None:
    found = explained(
        asks("p", x=3),
        node("a", {X: 4}),
        node("b", {X: 2}, **{X: 4}),
        node("c", {X: 2, "cpu": 1}),
        asks("big", on="a", x=2),
        asks("small", on="a", x=1),
        asks("own", on="c", x=1, cpu=1),
    )
    assert found.ways == (
        ("b", f"repair devices: of 4 {X} 2 cannot be given"),
        ("b", f"ask for 2 {X} instead of 3"),
        ("a", f"free 2 {X}: end pod default/big"),
        ("a", f"ask for 1 {X} instead of 3"),
        ("c", f"ask for 1 {X} instead of 3"),
    )


def test_ordinary_resources_count_where_a_node_tells_them() -> None:
    found = explained(
        asks("p", x=1, cpu=2, memory="1Gi"),
        node("a", {X: 1, "cpu": "2500m"}),
        node("b", {X: 1}),
        node("c", {X: 1, "pods": 1, "cpu": 8}),
        asks("u", on="a", cpu="600m"),
        asks("v", on="c"),
    )
    assert found.explanation.verdict.fits_on == ("b",)
    reasons = [group.refusal.reason for group in found.explanation.reasons.groups]
    assert reasons == ["short of 100m cpu: 2500m allocatable, 600m in use", "takes no more than 1 pods"]
    assert found.ways == ()


def test_a_class_serves_what_no_plugin_has() -> None:
    """Node a has a plugin, b one whose devices are gone, c and d none; only b and c have devices of the class."""
    on = {"b": "pool-1", "c": "pool-2"}
    found = explained(
        served("cards"),
        asks("p", x=2),
        node("a", {X: 1}),
        node("b", {X: 0}),
        node("c"),
        node("d"),
        slices(
            *(
                piece(*devices("x", "y" if name == "b" else "x2"), name=name, nodeName=name, pool=pool)
                for name, pool in on.items()
            )
        ),
    )
    one = found.explanation
    assert one.verdict.fits_on == ("b", "c") and one.tried == 4
    assert [entry.device_class for entry in found.resources] == ["", "cards", "cards", "cards"]
    assert found.classes == {X: "cards"}
    (made,) = one.workload.pending
    assert made.metadata.name == "p-extended-resources"
    assert [entry.name for entry in made.spec.devices.requests] == ["container-0-request-0"]
    reasons = {group.nodes: group.refusal for group in one.reasons.groups}
    assert reasons["a",].reason == f"short of 1 {X}: 1 allocatable, 0 in use"
    assert [(entry.wanted, entry.left) for entry in reasons["d",].requests] == [(2, 0)]


def test_what_would_help_where_a_class_serves_some_nodes_and_none_fits() -> None:
    """Node a has too few of its plugin's; b serves the name by a class, and its one device is held."""
    found = explained(
        served("cards"),
        asks("p", x=1),
        node("a", {X: 1}),
        node("b"),
        asks("u", on="a", x=1),
        slices(piece(*devices("d"), nodeName="b")),
        claims(holding("h", "d")),
    )
    one = found.explanation
    assert (one.verdict.fits_on, one.verdict.error, one.tried) == ((), "", 2)
    assert {group.nodes for group in one.reasons.groups} == {("a",), ("b",)}
    assert [(miss.node, miss.candidate.id.device) for miss in one.reasons.misses] == [("b", "d")]
    assert [(change.node, change.edits[0].frees) for change in one.reasons.changes] == [
        ("b", frozenset({"default/h"}))
    ]


def test_the_claim_for_containers_that_stay_and_pass() -> None:
    wants = {"resources": {"limits": {"cpu": "1", X: "3"}}}
    first = {"name": "i", "image": "i", **wants}
    side = {"name": "s", "image": "i", "restartPolicy": "Always", **wants}
    last = {"name": "c", "image": "i", "resources": {"limits": {X: "1"}}}
    here = cluster(
        served("cards"),
        node("a"),
        pod("p", initContainers=[side, first], containers=[{"name": "n", "image": "i"}, last]),
        asks("q", on="a"),
    )
    (one,) = workloads_of(here)
    ((got, nodes),) = variants(one, here, here.nodes, {})
    requests = got.pending[0].spec.devices.requests
    counts = {entry.name: entry.exactly.count for entry in requests if entry.exactly}
    assert counts == {"container-0-request-1": 3, "container-1-request-1": 2, "container-3-request-0": 1}
    assert [entry.metadata.name for entry in nodes] == ["a"]


def test_which_class_serves_a_name() -> None:
    here = cluster(
        served("b"), served("a"), served("old", made="2020-01-01T00:00:00Z"), served("z", "example.com/z")
    )
    got = classes_by_resource(here.classes)
    assert (got[X], got["example.com/z"]) == ("a", "z")
    assert got["deviceclass.resource.kubernetes.io/old"] == "old"
    by_class = "deviceclass.resource.kubernetes.io/class-a"
    found = explained(
        pod("p", containers=[{"name": "c", "image": "i", "resources": {"limits": {by_class: 1}}}]),
        node("node-1"),
        slices(piece(*devices("d"))),
    )
    assert found.explanation.verdict.fits_on == ("node-1",)


def test_claims_and_resources_together() -> None:
    mine = {"name": "c", "resourceClaimName": "c"}
    base = [
        claims(claim(request(), name="c")),
        slices(piece(*devices("d"))),
        node("node-1", {X: 1}),
        node("node-2", {X: 1}),
    ]
    found = explained(*base, asks("p", mine, x=1))
    assert found.explanation.verdict.fits_on == ("node-1",)
    found = explained(*base, asks("p", mine, x=2))
    assert found.explanation.verdict.fits_on == () and found.ways == ()
    reasons = {group.refusal.reason for group in found.explanation.reasons.groups}
    assert reasons == {f"short of 1 {X}: 1 allocatable, 0 in use"}


def test_an_error_ends_it_on_every_node_and_profiles_may_differ() -> None:
    """A class without devices of its own kind of node: one group of nodes fails, so the attempt does."""
    mine = {"name": "c", "resourceClaimName": "c"}
    nodes = [served("cards"), node("node-1", {X: 1}), node("node-2")]
    base: list[list[Manifest]] = [nodes, slices(piece(*devices("d")))]
    gone = claim(request(), name="c")
    gone["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "none"
    found = explained(*base, claims(gone), asks("p", mine, x=1))
    assert "device class none" in found.explanation.verdict.error
    assert found.explanation.reasons.groups == () and found.explanation.tried == 2
    other = situation(*base, claims(claim(request(), name="c")), slices(piece(name="s2", pool="p2")))
    found = explained(*base, claims(claim(request(), name="c")), asks("p", mine, x=1), other=other)
    assert found.explanation.verdict.fits_on == ("node-1",) and found.explanation.difference is None
    empty = situation(nodes, claims(claim(request(), name="c")))
    found = explained(*base, claims(claim(request(), name="c")), asks("p", mine, x=1), other=empty)
    assert found.explanation.difference is not None and found.explanation.difference.verdict.fits_on == ()


def test_a_pod_that_was_not_admitted() -> None:
    sent = asks("p", on="a", x=1)
    sent.raw["status"] = {"phase": "Failed", "reason": f"OutOf{X}", "message": "Node didn't have\n enough"}
    here = situation(sent, node("a", {X: 1}), node("b", {X: 1}), asks("u", on="a", x=1))
    one = workloads_of(here.cluster)[0]
    assert (one.not_admitted, one.waits) == (f"OutOf{X}: Node didn't have enough", False)
    found = explain_pod(here, one, here.cluster.nodes, use_of(here.cluster.pods))
    assert shown(found) == [("a", "1", "0", "1")] and found.explanation.tried == 0
    sent.raw["status"]["reason"] = "Evicted"
    assert [str(one) for one in workloads_of(cluster(sent))] == []


def test_a_claim_alone_is_as_ever() -> None:
    here = situation(claims(claim(request(), name="c")), node("a", {X: 1}))
    (one,) = workloads_of(here.cluster)
    assert variants(one, here.cluster, here.cluster.nodes, {}) == [(one, here.cluster.nodes)]
