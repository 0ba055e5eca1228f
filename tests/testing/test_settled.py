"""The judge of a cluster at rest: it accepts one in order, and sees every kind of disorder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dray.api.codec import view
from dray.api.core.node import Node
from dray.api.core.pod import Pod
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.slice import ResourceSlice
from dray.testing.settled import Picture, disorder

Json = dict[str, Any]


def result(device: str, **fields: Any) -> Json:
    return {"request": "r", "driver": "d", "pool": "p", "device": device, **fields}


def claim(name: str, *results: Json, pod: str = "", owner: str = "", node: str = "n1", **meta: Any) -> Json:
    reference = {"resource": "pods", "name": pod, "uid": f"uid-{pod}"}
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    selector = {"nodeSelectorTerms": [fields]}
    allocation = {"allocation": {"devices": {"results": list(results)}, "nodeSelector": selector}}
    owned_by = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}
    return {
        "metadata": {"name": name, "namespace": "ns", "ownerReferences": [owned_by] if owner else [], **meta},
        "status": {**(allocation if results else {}), "reservedFor": [reference] if pod else []},
    }


def pod(name: str, *claims: str, node: str = "n1", **status: Any) -> Json:
    entries = [{"name": one, "resourceClaimName": one} for one in claims]
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    return {"metadata": meta, "spec": {"nodeName": node, "resourceClaims": entries}, "status": status}


def device(name: str, **fields: Any) -> Json:
    return {"name": name, **fields}


HALF = [{"counterSet": "card", "counters": {"memory": {"value": "1"}}}]
SLICES: list[Json] = [
    {
        "spec": {
            "driver": "d",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 2},
            "sharedCounters": [{"name": "card", "counters": {"memory": {"value": "2"}}}],
        }
    },
    {
        "spec": {
            "driver": "d",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 2},
            "nodeName": "n1",
            "devices": [
                device("whole"),
                *(device(f"half-{number}", consumesCounters=HALF) for number in range(3)),
                device("shared", allowMultipleAllocations=True, capacity={"memory": {"value": "10"}}),
            ],
        }
    },
]


def picture(claims: list[Json], pods: list[Json]) -> Picture:
    return Picture(
        tuple(view(one, Pod) for one in pods),
        tuple(view(one, ResourceClaim) for one in claims),
        tuple(view(one, ResourceSlice) for one in SLICES),
        tuple(view({"metadata": {"name": name}}, Node) for name in ("n1", "n2")),
    )


def share(identity: str, amount: str) -> Json:
    return result("shared", shareID=identity, consumedCapacity={"memory": amount})


EXPLAINED = {
    "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}]
}


def test_a_cluster_in_order() -> None:
    claims = [
        claim("a", result("whole"), pod="one"),
        claim("b", result("half-0"), result("half-1"), pod="one"),
        claim("c", share("s1", "4"), share("s2", "6"), pod="two"),
        claim("admin", result("whole", adminAccess=True), pod="two"),
        claim("mine", result("half-2", adminAccess=True), pod="one", owner="one"),
        claim("free"),
    ]
    pods = [
        pod("one", "a", "b", "mine"),
        pod("two", "c", "admin"),
        pod("waits", "free", node="", **EXPLAINED),
        pod("over", "free", phase="Succeeded"),
    ]
    assert disorder(picture(claims, pods)) == []


ONE = pod("one", "a")


@pytest.mark.parametrize(
    ("claims", "pods", "line"),
    [
        (
            [claim("a", result("whole"), pod="one"), claim("b", result("whole"), pod="one")],
            [ONE],
            "d/p/whole is held by ns/a, ns/b",
        ),
        (
            [claim("a", result("whole"), result("whole"), pod="one")],
            [ONE],
            "d/p/whole is held by ns/a, ns/a",
        ),
        (
            [claim("a", result("gone"), pod="one")],
            [ONE],
            "claim ns/a holds d/p/gone, which no slice has",
        ),
        (
            [claim("a", share("s", "1"), share("s", "1"), pod="one")],
            [ONE],
            "d/p/shared: share s is given twice",
        ),
        (
            [claim("a", share("s", "5"), share("t", "6"), pod="one")],
            [ONE],
            "d/p/shared: 11 of capacity memory is given, more than there is",
        ),
        (
            [claim("a", *(result(f"half-{number}") for number in range(3)), pod="one")],
            [ONE],
            "counter d/p/card/memory is overdrawn: -1 are left",
        ),
        ([claim("a", owner="other")], [], "claim ns/a is an orphan of pod other"),
        (
            [claim("a", deletionTimestamp="2026-01-01T00:00:00Z")],
            [],
            "claim ns/a is still being deleted",
        ),
        (
            [claim("a", result("whole"), pod="other")],
            [],
            "claim ns/a is reserved for pod other, which is gone",
        ),
        (
            [claim("a", result("whole"), pod="over")],
            [pod("over", phase="Failed")],
            "claim ns/a is reserved for pod over, which has ended",
        ),
        ([claim("a", pod="one")], [pod("one")], "claim ns/a is reserved and not allocated"),
        ([claim("a", result("whole"))], [], "claim ns/a is allocated and nobody uses it"),
        (
            [
                claim(name, owner="one", annotations={"resource.kubernetes.io/pod-claim-name": "gpu"})
                for name in "ab"
            ],
            [pod("one")],
            "pod ns/one has 2 claims for gpu",
        ),
        ([], [pod("one", node="")], "pod ns/one is neither bound nor explained"),
        ([], [pod("one", node="n9")], "pod ns/one is on node n9, which does not exist"),
        ([], [ONE], "pod ns/one is bound, but its claim ns/a is missing"),
        ([claim("a")], [ONE], "pod ns/one is bound, but its claim ns/a is not allocated"),
        (
            [claim("a", result("whole"), pod="two")],
            [ONE, pod("two", "a")],
            "pod ns/one is bound, but its claim ns/a is not reserved for it",
        ),
        (
            [claim("a", result("whole"), pod="one", node="n2")],
            [ONE],
            "pod ns/one is on n1, where the devices of its claim ns/a cannot be used",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_disorder_is_named(claims: list[Json], pods: list[Json], line: str) -> None:
    assert disorder(picture(claims, pods)) == [line]


def test_an_older_generation_of_a_pool_counts_for_nothing() -> None:
    old = {**SLICES[0]["spec"], "pool": {"name": "p", "generation": 0, "resourceSliceCount": 1}}
    old["sharedCounters"] = [{"name": "card", "counters": {"memory": {"value": "9"}}}]
    found = picture([claim("a", *(result(f"half-{number}") for number in range(3)), pod="one")], [ONE])
    with_old = replace(found, slices=(*found.slices, view({"spec": old}, ResourceSlice)))
    assert disorder(with_old) == ["counter d/p/card/memory is overdrawn: -1 are left"]
