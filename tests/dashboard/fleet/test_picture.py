"""The fleet's picture: what objects look like in it, and that following changes comes to the same as starting over."""

from __future__ import annotations

import random
from typing import Any

from dray.api.codec import view
from dray.api.kinds import (
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dray.dashboard.fleet.changes import Changed, ChangeLog
from dray.dashboard.fleet.model import SHARED, DeviceId, DeviceView, NodeView
from dray.dashboard.fleet.picture import Picture
from tests.dashboard import small_fleet as objects

Json = dict[str, Any]


class Drawn:
    """A picture fed with documents."""

    def __init__(self) -> None:
        self.picture = Picture(ChangeLog("t"))
        self.documents: dict[tuple[str, tuple[str, str]], tuple[Resource[Any], Json]] = {}

    def put(self, resource: Resource[Any], document: Json) -> None:
        key = _key(document)
        self.documents[resource.kind, key] = resource, document
        self.picture.take(resource, key, view(document, resource.type))

    def drop(self, resource: Resource[Any], document: Json) -> None:
        key = _key(document)
        del self.documents[resource.kind, key]
        self.picture.take(resource, key, None)

    def changes(self) -> set[Changed]:
        """Since the last time."""
        before = getattr(self, "_seen", 0)
        self.picture.settle()
        self._seen = self.picture.log.number
        found = self.picture.log.since(before)
        assert found is not None
        return set(found)

    def node(self, name: str) -> NodeView:
        self.picture.settle()
        found = self.picture.view(name)
        assert found is not None
        return found

    def device(self, node: str, name: str) -> DeviceView:
        return next(one for one in self.node(node).devices if one.name == name)

    def anew(self) -> Drawn:
        other = Drawn()
        for resource, document in self.documents.values():
            other.put(resource, document)
        other.picture.settle()
        return other


def _key(document: Json) -> tuple[str, str]:
    meta = document["metadata"]
    return meta.get("namespace", ""), meta["name"]


def _node(name: str, **how: Any) -> Json:
    document, status = objects.node(name, **how)
    return document | status


def _held(name: str, *devices: tuple[str, str], pods: tuple[str, ...] = (), **more: Any) -> Json:
    results = [{"request": "gpu", "driver": objects.DRIVER, "pool": pool, "device": one} | more for pool, one in devices]  # fmt: skip
    reserved = [{"resource": "pods", "name": one, "uid": one} for one in pods]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    return objects.claim(name, objects.request()) | {"status": status}


def _drawn() -> Drawn:
    drawn = Drawn()
    for name in ("a", "b"):
        drawn.put(NODES, _node(name))
    drawn.put(RESOURCE_SLICES, objects.slice_of("a", [objects.gpu(one) for one in (0, 2, 10)]))
    drawn.put(RESOURCE_SLICES, objects.counters("b", 1))
    drawn.put(RESOURCE_SLICES, objects.slice_of("b", list(objects.partitioned(0)), 2))
    drawn.changes()
    return drawn


def test_a_device_is_shown_with_what_it_says_about_itself() -> None:
    device = _drawn().device("a", "gpu-2")
    assert (device.id, device.kind, device.product) == ("sim.dray.internal/a/gpu-2", "gpu", "NVIDIA H200")
    assert (device.numa, device.pcie_root, device.pci_bus_id) == (0, "pci0000:10", "0000:21:00.0")
    assert (device.health, device.available, device.simulated) == ("healthy", True, True)


def test_devices_are_in_the_order_in_which_people_count() -> None:
    assert [one.name for one in _drawn().node("a").devices] == ["gpu-0", "gpu-2", "gpu-10"]


def test_a_claim_touches_its_node_alone() -> None:
    drawn = _drawn()
    drawn.put(RESOURCE_CLAIMS, _held("c", ("a", "gpu-0"), pods=("p",)))
    assert drawn.changes() == {Changed("claim", "team-a/c"), Changed("node", "a")}
    holder = drawn.device("a", "gpu-0").holders[0]
    assert (holder.claim, holder.pods, holder.door) == ("team-a/c", ("team-a/p",), "dra")
    assert drawn.picture.summary().held == 1


def test_a_heartbeat_is_no_change() -> None:
    drawn = _drawn()
    beat = _node("a")
    beat["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:00:00Z"
    drawn.put(NODES, beat)
    assert drawn.changes() == set()


def test_partitions_count_apart_and_take_from_their_whole() -> None:
    drawn = _drawn()
    assert drawn.device("b", "gpu-0-1g-2").parent == "sim.dray.internal/b/gpu-0"
    assert drawn.node("b").summary.devices == 1
    drawn.put(RESOURCE_CLAIMS, _held("c", ("b", "gpu-0-3g-0")))
    summary = drawn.node("b").summary
    assert (summary.held, summary.free, summary.partitions, summary.partitions_held) == (1, 0, 3, 1)
    assert not drawn.device("b", "gpu-0").available
    assert drawn.device("b", "gpu-0-3g-1").available
    drawn.put(RESOURCE_CLAIMS, _held("d", ("b", "gpu-0-3g-1")))
    assert drawn.device("b", "gpu-0-1g-2").available
    drawn.put(RESOURCE_CLAIMS, _held("c", ("b", "gpu-0")))
    assert not drawn.device("b", "gpu-0-1g-2").available


def test_an_older_generation_of_a_pool_is_not_shown() -> None:
    drawn = _drawn()
    newer = objects.slice_of("a", [objects.gpu(0)])
    newer["metadata"]["name"] = "a-newer"
    newer["spec"]["pool"]["generation"] = 2
    drawn.put(RESOURCE_SLICES, newer)
    assert [one.name for one in drawn.node("a").devices] == ["gpu-0"]


def test_a_newer_slice_of_another_node_takes_no_devices_away() -> None:
    drawn = _drawn()
    before = drawn.node("a").devices
    stolen = objects.slice_of("a", [objects.gpu(7)])
    stolen["metadata"]["name"] = "a-stolen"
    stolen["spec"] |= {"nodeName": "b", "pool": stolen["spec"]["pool"] | {"generation": 9}}
    drawn.put(RESOURCE_SLICES, stolen)
    assert drawn.node("a").devices == before
    assert f"{objects.DRIVER}/a/gpu-7" in [one.id for one in drawn.node("b").devices]


def test_taints_of_drivers_and_of_rules() -> None:
    drawn = _drawn()
    ill = {"taints": [{"key": f"{objects.DRIVER}/unhealthy", "effect": "NoSchedule"}]}
    drawn.put(RESOURCE_SLICES, objects.slice_of("a", [objects.gpu(0) | ill, objects.gpu(2), objects.gpu(10)]))
    drawn.put(DEVICE_TAINT_RULES, objects.rule("fan", "a", "gpu-2"))
    assert drawn.device("a", "gpu-0").health == "unhealthy"
    tainted = drawn.device("a", "gpu-2")
    assert (tainted.health, tainted.available, tainted.taints[0].by) == ("tainted", False, "rule/fan")
    assert drawn.device("a", "gpu-10").health == "healthy"
    summary = drawn.picture.summary()
    assert (summary.unhealthy, summary.tainted, summary.free) == (1, 1, 2)


def test_a_device_that_a_plugin_gave_away_is_healthy_and_held() -> None:
    drawn = _drawn()
    taint = {"key": f"{objects.DRIVER}/held-by-plugin", "value": "vm-1", "effect": "NoSchedule"}
    drawn.put(RESOURCE_SLICES, objects.slice_of("a", [objects.gpu(0) | {"taints": [taint]}]))
    device = drawn.device("a", "gpu-0")
    assert (device.health, device.available) == ("healthy", False)
    assert [(one.claim, one.pods, one.door) for one in device.holders] == [("", ("vm-1",), "plugin")]
    taint["key"] = f"{objects.DRIVER}/held-by-claim"
    drawn.put(RESOURCE_SLICES, objects.slice_of("a", [objects.gpu(0) | {"taints": [taint]}]))
    device = drawn.device("a", "gpu-0")
    assert [(one.claim, one.pods, one.door) for one in device.holders] == [("vm-1", (), "other")]
    summary = drawn.node("a").summary
    assert (device.state, summary.free, summary.held) == ("held", 0, 1)


def test_a_shared_device_is_available_until_it_is_used_up() -> None:
    drawn = _drawn()
    policy = {"requestPolicy": {"default": "1"}, "value": "2"}
    shared = objects.gpu(0) | {"allowMultipleAllocations": True, "capacity": {"shares": policy}}
    drawn.put(RESOURCE_SLICES, objects.slice_of("a", [shared]))
    share: Json = {"shareID": "00000000-0000-0000-0000-000000000001", "consumedCapacity": {"shares": "1"}}
    for name, available, state in (("c", True, "free"), ("d", False, "held")):
        drawn.put(RESOURCE_CLAIMS, _held(name, ("a", "gpu-0"), **share))
        device = drawn.device("a", "gpu-0")
        assert (device.available, device.state) == (available, state)
        summary = drawn.node("a").summary
        assert (summary.free, summary.held) == (int(available), 1)
    assert len(drawn.device("a", "gpu-0").holders) == 2


def test_all_shares_of_one_claim_count() -> None:
    drawn = _drawn()
    shares = {"value": "2", "requestPolicy": {"default": "1"}}
    shared = objects.gpu(0) | {"allowMultipleAllocations": True, "capacity": {"shares": shares}}
    drawn.put(RESOURCE_SLICES, objects.slice_of("a", [shared]))
    share: Json = {"shareID": "00000000-0000-0000-0000-000000000001", "consumedCapacity": {"shares": "1"}}
    both = _held("c", ("a", "gpu-0"), ("a", "gpu-0"), **share)
    drawn.put(RESOURCE_CLAIMS, both)
    device = drawn.device("a", "gpu-0")
    assert (device.state, len(device.holders)) == ("held", 1)
    drawn.drop(RESOURCE_CLAIMS, both)
    assert drawn.device("a", "gpu-0").state == "free"


def test_admin_access_holds_nothing() -> None:
    drawn = _drawn()
    drawn.put(RESOURCE_CLAIMS, _held("c", ("a", "gpu-0"), adminAccess=True))
    assert drawn.device("a", "gpu-0").available


def test_devices_of_no_single_node_have_a_place_of_their_own() -> None:
    drawn = _drawn()
    drawn.put(RESOURCE_SLICES, objects.everywhere())
    assert [one.name for one in drawn.node(SHARED).devices] == ["tape-0"]
    assert drawn.picture.names() == ["a", "b", SHARED]
    assert drawn.picture.summary().nodes == 2


def test_devices_of_a_slice_may_each_name_their_node() -> None:
    drawn = _drawn()
    spec = objects.everywhere()["spec"] | {"perDeviceNodeSelection": True}
    del spec["allNodes"]
    spec["devices"] = [{"name": "x", "nodeName": "a"}, {"name": "y", "nodeName": "b"}]
    drawn.put(RESOURCE_SLICES, {"metadata": {"name": "each"}, "spec": spec})
    assert "x" in [one.name for one in drawn.node("a").devices]
    assert "y" not in [one.name for one in drawn.node("a").devices]
    assert drawn.picture.device(DeviceId("tape.example.com", "library", "y")) is not None


def test_what_plugins_offer_and_who_uses_it() -> None:
    drawn = _drawn()
    drawn.put(NODES, _node("a", plugin=4))
    drawn.put(PODS, objects.pod("p", fpga=2) | {"status": {}})
    assert drawn.picture.summary().pending_pods == 1
    bound = objects.pod("p", fpga=2)
    bound["spec"]["nodeName"] = "a"
    drawn.put(PODS, bound)
    (found,) = drawn.node("a").resources
    assert (found.capacity, found.allocatable, found.used, found.pods) == ("4", "3", "2", (("team-a/p", "2"),))  # fmt: skip
    assert drawn.picture.summary().pending_pods == 0
    drawn.put(PODS, bound | {"status": {"phase": "Succeeded"}})
    assert drawn.node("a").resources[0].used == "0"


def test_a_pod_may_name_a_claim_twice() -> None:
    drawn = _drawn()
    twice = objects.pod("p", claims={"a": "shared", "b": "shared"})
    drawn.put(PODS, twice)
    assert drawn.picture.pods_of((objects.NS, "shared")) == [(objects.NS, "p")]
    drawn.drop(PODS, twice)
    assert not drawn.picture.pods_of((objects.NS, "shared"))


def test_a_pod_without_devices_is_not_looked_at() -> None:
    drawn = _drawn()
    drawn.put(PODS, objects.pod("plain"))
    assert drawn.changes() == set()
    assert not drawn.picture.pods


def test_following_at_random_comes_to_the_same_as_starting_over() -> None:
    dice = random.Random(11)
    drawn = Drawn()
    for _ in range(400):
        resource, document = _any(dice)
        if dice.random() < 0.3 and (resource.kind, _key(document)) in drawn.documents:
            drawn.drop(resource, document)
        else:
            drawn.put(resource, document)
        if dice.random() < 0.2:
            drawn.picture.settle()
    drawn.picture.settle()
    other = drawn.anew()
    assert drawn.picture.names() == other.picture.names()
    assert [drawn.picture.view(name) for name in drawn.picture.names()] == [
        other.picture.view(name) for name in other.picture.names()
    ]
    assert drawn.picture.summary() == other.picture.summary()


def _any(dice: random.Random) -> tuple[Resource[Any], Json]:
    name = f"n{dice.randrange(4)}"
    match dice.randrange(5):
        case 0:
            return NODES, _node(name, ready=dice.random() < 0.5, plugin=dice.randrange(3))
        case 1:
            made = objects.slice_of(name, [objects.gpu(one) for one in range(dice.randrange(4))])
            made["metadata"]["name"] = f"s{dice.randrange(6)}"
            made["spec"]["pool"]["generation"] = dice.randrange(1, 3)
            return RESOURCE_SLICES, made
        case 2:
            devices = [(f"n{dice.randrange(4)}", f"gpu-{dice.randrange(4)}") for _ in range(2)]
            return RESOURCE_CLAIMS, _held(f"c{dice.randrange(6)}", *devices, pods=(f"p{dice.randrange(3)}",))
        case 3:
            pod = objects.pod(f"p{dice.randrange(4)}", claims={"c": f"c{dice.randrange(6)}"}, fpga=1)
            pod["spec"]["nodeName"] = dice.choice(["", name])
            return PODS, pod
        case _:
            return DEVICE_TAINT_RULES, objects.rule(f"r{dice.randrange(2)}", name, f"gpu-{dice.randrange(3)}")  # fmt: skip
