from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from dray.api.codec import view
from dray.api.core import Event, Node, Pod
from dray.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.cli.top_view import as_document, picture, screen
from dray.cli.views.objects import Objects
from tests.mig_pool import mig_claim, mig_slices

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def meta(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": "default",
        "uid": name,
        "creationTimestamp": "2030-01-01T11:59:00Z",
        **more,
    }


def node(name: str, **labels: str) -> Node:
    ready = {"type": "Ready", "status": "True"}
    return view({"metadata": {"name": name, "labels": labels}, "status": {"conditions": [ready]}}, Node)


def pool(name: str, *taints: int, count: int = 4) -> ResourceSlice:
    taint = {"key": "gpu.example.com/unhealthy", "effect": "NoSchedule"}
    devices = [
        {
            "name": f"gpu-{one}",
            "attributes": {"model": {"string": "H200"}},
            "taints": [taint] if one in taints else [],
        }
        for one in range(count)
    ]
    spec = {
        "driver": "gpu.example.com",
        "nodeName": name,
        "pool": {"name": name, "generation": 1},
        "devices": devices,
    }
    return view({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def claim(name: str, *devices: str) -> ResourceClaim:
    results = [{"request": "r", "driver": "gpu.example.com", "pool": "n2", "device": one} for one in devices]
    status = {"allocation": {"devices": {"results": results}}} if devices else {}
    return view({"metadata": meta(name), "spec": {}, "status": status}, ResourceClaim)


def pod(name: str, phase: str, message: str = "") -> Pod:
    told = {"type": "PodScheduled", "status": "False", "message": message}
    spec = {"containers": [{"name": "m"}], "resourceClaims": [{"name": "c", "resourceClaimName": "big"}]}
    return view(
        {
            "metadata": meta(name),
            "spec": spec if message else {**spec, "nodeName": "n2", "resourceClaims": []},
            "status": {"phase": phase, "conditions": [told] if message else []},
        },
        Pod,
    )


def event(number: int) -> Event:
    about = {"kind": "Pod", "name": "waits", "namespace": "default"}
    document = {
        "metadata": meta(f"e{number}"),
        "involvedObject": about,
        "reason": f"R{number}",
        "type": "Normal",
    }
    return view({**document, "lastTimestamp": f"2030-01-01T11:{number:02}:00Z", "message": "so"}, Event)


WHY = "0/2 nodes are available: 2 cannot allocate all claims. claim default/big, request r wants 9 of 8: 3 in use, 5 left"
OBJECTS = Objects(
    NOW,
    nodes=(node("n1"), node("n10"), node("n2", **{"dray.internal/hollow": "true"})),
    pods=(pod("runs", "Running"), pod("waits", "Pending", WHY)),
    slices=(pool("n1", 3), pool("n2", 0)),
    claims=(claim("has", "gpu-0", "gpu-1"), claim("big"), claim("lonely")),
    events=tuple(event(number) for number in range(12)),
)


def shown(height: int | None = None, sort: str = "h") -> list[str]:
    lines = screen(picture(OBJECTS), "https://here", sort, width=None, height=height, colour=False)
    return [" ".join(line.split()) for line in lines]


def test_sums_for_programs() -> None:
    told = as_document(picture(OBJECTS), "https://here")
    assert told["summary"] == {
        "nodes": 3,
        "devices": 8,
        "free": 5,
        "held": 2,
        "blocked": 0,
        "tainted": 0,
        "unhealthy": 2,
        "pendingPods": 1,
        "pendingClaims": 2,
    }
    assert told["products"] == [
        {"driver": "gpu.example.com", "product": "H200", "devices": 8, "free": 5, "held": 2, "blocked": 0, "tainted": 0, "unhealthy": 2}
    ]  # fmt: skip
    assert [(one["name"], one["hollow"], one["pods"]) for one in told["nodes"]] == [
        ("n1", False, 0),
        ("n2", True, 1),
        ("n10", False, 0),
    ]
    assert told["pendingClaims"] == [
        {"claim": "default/big", "age": "60s", "why": "request r wants 9 of 8: 3 in use, 5 left"},
        {"claim": "default/lonely", "age": "60s", "why": "no pod uses it"},
    ]
    assert [one["reason"] for one in told["events"]] == [f"R{number}" for number in range(4, 12)]


def test_a_screen_for_people() -> None:
    lines = shown()
    assert lines[:5] == [
        "dray top https://here 12:00:00 UTC",
        "nodes 3, 3 ready",
        "devices 8: 5 free, 2 held, 2 unhealthy or tainted",
        "pods 1 running, 1 pending, 0 failed",
        "claims 1 with devices, 2 waiting",
    ]
    nodes = lines.index("NODE STATE DEVICES FREE HELD UNHEALTHY PODS SIMULATED")
    assert lines[nodes + 1] == "n2 Ready 4 2 2 1 1 yes"
    assert "default/big 60s request r wants 9 of 8: 3 in use, 5 left" in lines
    head = lines.index("NAMESPACE LAST SEEN TYPE REASON OBJECT MESSAGE")
    assert lines[head + 1] == "default 49m Normal R11 pod/waits so"


def test_the_tainted_are_told_from_the_unhealthy() -> None:
    rule = {
        "metadata": {"name": "fan"},
        "spec": {
            "deviceSelector": {"pool": "n1", "device": "gpu-0"},
            "taint": {"key": "fan", "effect": "NoSchedule"},
        },
    }
    found = picture(replace(OBJECTS, rules=(view(rule, DeviceTaintRule),)))
    summary = as_document(found, "here")["summary"]
    assert (summary["free"], summary["tainted"], summary["unhealthy"]) == (4, 1, 2)
    lines = [" ".join(line.split()) for line in screen(found, "here", "u", width=None, height=None, colour=False)]  # fmt: skip
    assert lines[2] == "devices 8: 4 free, 2 held, 3 unhealthy or tainted"
    nodes = lines.index("NODE STATE DEVICES FREE HELD TAINTED UNHEALTHY PODS SIMULATED")
    assert lines[nodes + 1] == "n1 Ready 4 2 0 1 1 0 -"


def test_what_lacks_counters_is_not_free() -> None:
    fleet = Objects(
        NOW,
        nodes=(node("h200-0"),),
        slices=tuple(mig_slices()),
        claims=(mig_claim("has", "gpu-0", "gpu-1-mig-1g18gb-19-2"),),
    )
    use = picture(fleet).whole
    assert use.held == 2 and use.blocked > 25 and use.free == use.devices - use.held - use.blocked
    lines = [" ".join(line.split()) for line in screen(picture(fleet), "here", "h", width=None, height=None, colour=False)]  # fmt: skip
    assert lines[2] == f"devices 208: {use.free} free, 2 held, {use.blocked} blocked, 0 unhealthy or tainted"
    assert "NODE STATE DEVICES FREE HELD BLOCKED UNHEALTHY PODS" in lines
    (cards,) = [
        one for driver, product, one in picture(fleet).products if product == "NVIDIA H200 (simulated)"
    ]
    assert (cards.devices, cards.free, cards.held, cards.blocked) == (8, 6, 1, 1)


def test_nodes_in_the_order_that_was_asked_for() -> None:
    def order(sort: str) -> list[str]:
        return [line.split()[0] for line in shown(sort=sort) if " Ready " in line]

    assert order("h") == ["n2", "n1", "n10"]
    assert order("n") == ["n1", "n2", "n10"]
    assert order("f") == ["n1", "n2", "n10"]


def test_a_small_screen_is_never_overfull() -> None:
    for height in (3, 10, 20, 24, 60):
        assert len(shown(height)) <= height
    many = Objects(NOW, nodes=tuple(node(f"n{number}") for number in range(1000)))
    lines = screen(picture(many), "https://here", "h", width=80, height=20, colour=False)
    assert len(lines) <= 20
    assert lines[-1].startswith("… 9") and lines[-1].endswith(" more")
    printed = screen(picture(many), "https://here", "h", width=None, height=None, colour=False)
    assert printed[-1] == "… 981 more"
