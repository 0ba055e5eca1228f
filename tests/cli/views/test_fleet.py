"""The devices of a fleet: which count, how they are, who holds them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dray.api.codec import view
from dray.api.core import Node
from dray.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.cli.views.chosen import device_document
from dray.cli.views.describe_fleet import describe_device, describe_slice
from dray.cli.views.fleet import FleetDevice, fleet, taint_text
from dray.cli.views.fleet_rows import devices_table, holder_text, nodes_table
from dray.cli.views.objects import Objects
from dray.cli.views.sections import Paper
from tests.mig_pool import DRIVER, NODE, mig_claim, mig_slices

Json = dict[str, Any]
NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def pool(
    name: str, generation: int, *devices: Json, driver: str = "gpu.example.com", node: str = ""
) -> ResourceSlice:
    spec = {
        "driver": driver,
        "nodeName": node or name,
        "pool": {"name": name, "generation": generation, "resourceSliceCount": 1},
        "devices": list(devices),
    }
    return view({"metadata": {"name": f"{name}-{generation}"}, "spec": spec}, ResourceSlice)


def claim(name: str, *devices: str, pods: tuple[str, ...] = (), **more: Any) -> ResourceClaim:
    results = [
        {"request": "r", "driver": "gpu.example.com", "pool": "n", "device": one, **more} for one in devices
    ]
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": one} for one in pods],
    }
    return view({"metadata": {"name": name, "namespace": "ns"}, "status": status}, ResourceClaim)


def shown(devices: tuple[FleetDevice, ...]) -> list[tuple[str, str, list[str]]]:
    return [(one.device.name, one.status.health, [holder.claim for holder in one.holders]) for one in devices]


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    found = fleet([pool("n", 2, {"name": "gpu-10"}, {"name": "gpu-9"}), pool("n", 1, {"name": "gpu-1"})])
    assert [one.id for one in found] == ["gpu.example.com/n/gpu-9", "gpu.example.com/n/gpu-10"]


def test_a_newer_slice_of_another_node_takes_no_devices_away() -> None:
    slices = [pool("n", 1, {"name": "gpu-0"}), pool("n", 9, {"name": "gpu-7"}, node="thief")]
    assert [(one.node, one.device.name) for one in fleet(slices)] == [("n", "gpu-0"), ("thief", "gpu-7")]


def test_a_slice_says_whether_it_counts() -> None:
    old, new, other = pool("n", 1), pool("n", 2), pool("n", 9, node="thief")

    def told(found: ResourceSlice, *slices: ResourceSlice) -> str:
        lines = describe_slice(found, Objects(NOW, slices=slices), Paper())
        return next(" ".join(line.split()[1:]) for line in lines if line.startswith("Generation"))

    assert told(old, old) == "1"
    assert told(old, old, new) == "1, and 2 counts: this slice does not"
    assert told(new, old, new, other) == "2"


def test_health_comes_from_taints_of_drivers_and_of_rules() -> None:
    taint = {"key": "gpu.example.com/unhealthy", "effect": "NoExecute"}
    noted = {"key": "noted", "effect": "None"}
    rule = {
        "metadata": {"name": "r"},
        "spec": {
            "deviceSelector": {"device": "c"},
            "taint": {"key": "fans", "value": "old", "effect": "NoSchedule"},
        },
    }
    devices: list[Json] = [{"name": "a", "taints": [taint]}, {"name": "b", "taints": [noted]}, {"name": "c"}]
    found = fleet([pool("n", 1, *devices)], (), [view(rule, DeviceTaintRule)])
    assert [one.status.health for one in found] == ["unhealthy", "healthy", "tainted"]
    assert [taint_text(one) for one in found[2].device.taints] == ["fans=old:NoSchedule"]


def test_holders_share_and_administrators_hold_nothing() -> None:
    claims = [claim("two", "a", pods=("p", "q")), claim("one", "a"), claim("admin", "b", adminAccess=True)]
    found = fleet([pool("n", 1, {"name": "a"}, {"name": "b"}, {"name": "c"})], claims)
    assert shown(found) == [
        ("a", "healthy", ["ns/one", "ns/two"]),
        ("b", "healthy", ["ns/admin"]),
        ("c", "healthy", []),
    ]
    assert [one.status.is_held for one in found] == [True, False, False]
    assert found[0].holders[1].pods == ("ns/p", "ns/q")


def test_what_is_held_through_another_door_is_held_and_well() -> None:
    taken = [
        {"key": "gpu.example.com/held-by-plugin", "value": "web-0", "effect": "NoSchedule"},
        {"key": "gpu.example.com/held-by-claim", "value": "train", "effect": "NoSchedule"},
    ]
    devices: list[Json] = [{"name": str(number), "taints": [one]} for number, one in enumerate(taken)]
    found = fleet([pool("n", 1, *devices)])
    assert [(one.status.health, one.status.state) for one in found] == [("healthy", "held")] * 2
    assert [holder_text(one) for one in found] == [
        "pod web-0 (device plugin)",
        "claim train (as another device)",
    ]


def test_what_lacks_counters_is_blocked_by_who_has_them() -> None:
    part = "gpu-0-mig-1g18gb-19-2"
    claims = [mig_claim("train", part, "gpu-1"), mig_claim("watch", "gpu-2", admin=True)]
    found = {one.device.name: one for one in fleet(mig_slices(), claims)}
    assert holder_text(found["gpu-0"]) == f"- (counters held by {part})"
    assert holder_text(found["gpu-1-mig-1g18gb-19-0"]) == "- (counters held by gpu-1)"
    assert holder_text(found[part]) == "claim ns/train"
    assert holder_text(found["gpu-0-mig-1g18gb-19-1"]) == "free"
    of_third = [one for name, one in found.items() if name.startswith("gpu-2-")]
    assert of_third and all(one.status.is_free for one in of_third), "admin access holds nothing"
    states = [found[name].status.state for name in ("gpu-0", part, "gpu-1", "gpu-3")]
    assert states == ["blocked", "held", "held", "free"]


def test_what_several_share_is_free_while_there_is_room() -> None:
    policy = {"default": "1", "validRange": {"min": "1", "max": "2", "step": "1"}}
    capacity = {"shares": {"value": "2", "requestPolicy": policy}}
    offered = [pool("n", 1, {"name": "a", "allowMultipleAllocations": True, "capacity": capacity})]
    share: Json = {"shareID": "00000000-0000-0000-0000-000000000001", "consumedCapacity": {"shares": "1"}}
    claims = [claim("one", "a", pods=("p",), **share), claim("two", "a", **share)]
    (half,), (full,) = fleet(offered, claims[:1]), fleet(offered, claims)
    assert [holder_text(one) for one in (half, full)] == ["free, shared by ns/p", "ns/p, claim ns/two"]
    told = [device_document(one) for one in (half, full)]
    assert [(one["state"], len(one["holders"])) for one in told] == [("free", 1), ("held", 2)]


def test_many_in_the_way_are_counted() -> None:
    parts = [f"gpu-0-mig-1g18gb-19-{start}" for start in range(7)]
    (card,) = (one for one in fleet(mig_slices(), [mig_claim("t", *parts)]) if one.device.name == "gpu-0")
    assert card.blocked_by == tuple(parts)
    assert holder_text(card) == f"- (counters held by {parts[0]}, {parts[1]} and 5 more)"
    (lonely,) = fleet([pool("n", 1, {"name": "a", "consumesCounters": [{"counterSet": "none", "counters": {"c": {"value": "1"}}}]})])  # fmt: skip
    assert holder_text(lonely) == "- (its pool has not the counters for it)"


def test_tables_tell_the_blocked_from_the_free() -> None:
    around = Objects(NOW, slices=tuple(mig_slices()), claims=(mig_claim("train", "gpu-1"),))
    node = view({"metadata": {"name": NODE}}, Node)
    (row,) = nodes_table([node], around).rows
    assert "1/208 held, 25 blocked" in row.cells
    rows = {one.key[2]: one.cells for one in devices_table(fleet(around.slices, around.claims), around).rows}
    assert rows["gpu-1-mig-7g141gb-0-0"][:3] == (NODE, DRIVER, "gpu-1-mig-7g141gb-0-0")
    assert "- (counters held by gpu-1)" in rows["gpu-1-mig-7g141gb-0-0"]
    (last,) = (one for one in around.slices if any(each.name == "gpu-7" for each in one.spec.devices or ()))
    lines = describe_slice(last, around, Paper())
    assert any("gpu-7 " in line and line.endswith("free") for line in lines), "counters are in another slice"
    told = {one.device.name: one for one in fleet(around.slices, around.claims)}
    part = told["gpu-1-mig-7g141gb-0-0"]
    blocked = [line for line in describe_device(part, around, Paper()) if line.startswith("Blocked")]
    assert [" ".join(line.split()) for line in blocked] == ["Blocked: counters held by gpu-1"]
    assert [device_document(one)["blockedBy"] for one in (part, told["gpu-1"])] == [["gpu-1"], None]


def test_what_a_device_is() -> None:
    attributes = {
        "gpu.example.com/productName": {"string": "A100"},
        "profile": {"string": "1g.10gb"},
        "resource.kubernetes.io/numaNode": {"int": 1},
    }
    (found,) = fleet([pool("n", 1, {"name": "a", "attributes": attributes})])
    assert (found.product, found.attribute("numaNode"), found.attribute("missing")) == (
        "A100 1g.10gb",
        "1",
        "",
    )
    (simulated,) = fleet([pool("n", 1, {"name": "a"}, driver="sim.dray.internal")])
    assert (simulated.product, simulated.is_simulated) == ("(simulated)", True)
