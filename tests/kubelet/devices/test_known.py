from __future__ import annotations

import pytest

from dray.kubelet.devices.known import GRACE, Device, DeviceList, KnownDevices, Place, from_wire
from dray.kubelet.node.resources import DeviceCapacity
from dray.wire.gen import deviceplugin_v1beta1_pb2 as pb
from tests.kubelet.devices.small_node import OTHER, RESOURCE, SmallPlugin, devices


def counts(known: KnownDevices, now: float = 0.0, resource: str = RESOURCE) -> tuple[int, int]:
    """Capacity, allocatable."""
    found = known.capacity(now)
    return found.capacity[resource], found.allocatable[resource]


def test_from_wire() -> None:
    topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=2), pb.NUMANode(ID=0), pb.NUMANode(ID=2)])
    cases = [
        (pb.Device(ID="a", health="Healthy"), Device("a", True)),
        (pb.Device(ID="a", health="healthy"), Device("a", False)),
        (pb.Device(ID="a", health=""), Device("a", False)),
        (
            pb.Device(ID="a", health="Unhealthy", topology=pb.TopologyInfo()),
            Device("a", False, (), has_topology=True),
        ),
        (
            pb.Device(ID="a", health="Healthy", topology=topology),
            Device("a", True, (0, 2), has_topology=True),
        ),
    ]
    for message, device in cases:
        assert from_wire(message) == device


def test_capacity_and_allocatable() -> None:
    known = KnownDevices()
    plugin = SmallPlugin()
    known.connected(RESOURCE, plugin)
    assert counts(known) == (0, 0)
    healthy, bad = devices("d1", "d2"), devices("d3", healthy=False)
    steps = [
        ([*healthy, *bad], (3, 2)),
        (healthy, (2, 2)),
        ([*devices("d1", healthy=False), healthy[1], *bad], (3, 1)),
        ([*devices("d1", healthy=False), *bad], (2, 0)),
    ]
    for listed, expected in steps:
        known.listed(RESOURCE, listed, plugin)
        assert counts(known) == expected
    other = SmallPlugin()
    known.connected(OTHER, other)
    known.listed(OTHER, healthy, other)
    assert counts(known, resource=OTHER) == (2, 2)
    assert counts(known) == (2, 0)


def test_a_new_one_is_not_stopped_and_has_nothing_before_it_lists() -> None:
    known, plugin = KnownDevices(), SmallPlugin()
    known.connected(RESOURCE, plugin)
    found = known.get(RESOURCE)
    assert found is not None
    assert (found.stopped_at, found.endpoint, found.healthy) == (None, plugin, frozenset())


def test_a_stopped_resource_goes_after_its_grace() -> None:
    known = KnownDevices()
    plugin = SmallPlugin(pre_start=True)
    known.connected(RESOURCE, plugin)
    known.listed(RESOURCE, [*devices("d1"), *devices("d2", healthy=False)], plugin)
    known.stopped(RESOURCE, plugin, 10.0)
    known.stopped(RESOURCE, plugin, 20.0)
    assert counts(known, 10.0 + GRACE) == (2, 0)
    stopped = known.get(RESOURCE)
    assert stopped is not None
    assert (stopped.healthy, stopped.unhealthy) == (frozenset(), frozenset({"d1", "d2"}))
    assert stopped.endpoint is None
    assert stopped.options is not None
    assert stopped.options.pre_start_required
    assert known.capacity(10.1 + GRACE) == DeviceCapacity({}, {}, (RESOURCE,))
    assert known.capacity(10.1 + GRACE) == DeviceCapacity()
    assert list(known) == []
    known.listed(RESOURCE, devices("d1"), plugin)
    assert RESOURCE not in known


def test_a_plugin_that_comes_back_in_time() -> None:
    known = KnownDevices()
    old, new = SmallPlugin(), SmallPlugin()
    known.connected(RESOURCE, old)
    known.listed(RESOURCE, devices("d1", "d2"), old)
    known.stopped(RESOURCE, old, 0.0)
    known.connected(RESOURCE, new)
    assert counts(known, 10 * GRACE) == (2, 0)
    known.listed(RESOURCE, devices("d1"), new)
    assert counts(known, 10 * GRACE) == (1, 1)


def test_restored_has_nothing_to_give() -> None:
    known = KnownDevices()
    known.restored(RESOURCE, 5.0)
    assert counts(known, 5.0) == (0, 0)
    restored = known.get(RESOURCE)
    assert restored is not None
    assert restored.options is None
    assert known.capacity(5.1 + GRACE).deleted == (RESOURCE,)


@pytest.mark.parametrize("first_to_stop", [0, 1])
def test_two_instances_and_either_one_stops(first_to_stop: int) -> None:
    known = KnownDevices()
    plugins = [SmallPlugin(), SmallPlugin()]
    for one in plugins:
        known.connected(RESOURCE, one)
        known.listed(RESOURCE, devices("d1", "d2"), one)
    assert known.get(RESOURCE).endpoint is plugins[1]  # type: ignore[union-attr]
    known.stopped(RESOURCE, plugins[first_to_stop], 0.0)
    assert counts(known, 10 * GRACE) == (2, 2)
    left = plugins[1 - first_to_stop]
    assert known.get(RESOURCE).endpoint is left  # type: ignore[union-attr]
    known.stopped(RESOURCE, left, 1.0)
    assert counts(known, 1.0) == (2, 0)


def test_an_older_instance_does_not_speak_over_a_newer_one() -> None:
    known = KnownDevices()
    old, new = SmallPlugin(), SmallPlugin()
    for one in (old, new):
        known.connected(RESOURCE, one)
    known.listed(RESOURCE, devices("d1", "d2"), old)
    assert known.get(RESOURCE).endpoint is old  # type: ignore[union-attr]
    known.listed(RESOURCE, devices("d1", "d2", "d3"), new)
    known.listed(RESOURCE, devices("d1", "d2", healthy=False), old)
    assert counts(known) == (3, 3)
    known.stopped(RESOURCE, new, 0.0)
    assert counts(known) == (2, 0)


def test_a_newer_instance_that_never_listed_takes_nothing_away() -> None:
    known = KnownDevices()
    old, new = SmallPlugin(), SmallPlugin()
    known.connected(RESOURCE, old)
    known.listed(RESOURCE, devices("d1", "d2"), old)
    known.connected(RESOURCE, new)
    known.stopped(RESOURCE, old, 0.0)
    assert counts(known, 10 * GRACE) == (2, 2)
    known.stopped(RESOURCE, new, 1.0)
    assert counts(known, 1.0) == (2, 0)


def test_an_id_listed_twice_counts_once() -> None:
    known = KnownDevices()
    plugin = SmallPlugin()
    known.connected(RESOURCE, plugin)
    known.listed(RESOURCE, [*devices("d1"), *devices("d1", healthy=False)], plugin)
    assert counts(known) == (1, 0)


def test_a_list_knows_its_places_and_its_order() -> None:
    found = DeviceList(
        [
            Device("c", nodes=(0,), has_topology=True),
            Device("a", nodes=(0,), has_topology=True),
            Device("b", is_healthy=False),
            Device("d", has_topology=True),
            Device("b", nodes=(0, 1), has_topology=True),
        ]
    )
    assert found.places == {
        Place((0,), True): {"a", "c"},
        Place((), True): {"d"},
        Place((0, 1), True): {"b"},
    }
    assert (found.order, len(found), found["b"].nodes) == (("a", "b", "c", "d"), 4, (0, 1))
    assert (sorted(found.healthy), sorted(found.unhealthy)) == (["a", "b", "c", "d"], [])
    assert found.has_nodes
    assert not DeviceList([Device("a", has_topology=True)]).has_nodes


@pytest.mark.parametrize(
    "among", ["d7", "d7 d3", "ghost d7 d3", " ".join(f"d{one}" for one in range(99, 0, -3))]
)
@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_the_first_of_some_are_the_same_whether_few_or_many(among: str, count: int) -> None:
    some = frozenset(among.split())
    for size in (1, 10, 100, 1000):
        listed = DeviceList(Device(f"d{one}") for one in range(size))
        expected = [*sorted(some & listed.keys()), *sorted(some - listed.keys())]
        assert listed.first(count, some) == expected[:count]


def test_the_first_of_some_are_never_more_than_asked_for() -> None:
    found = DeviceList(devices("listed"))
    among = frozenset({"listed", *"abcdef"})
    for count in range(9):
        assert found.first(count, among) == ["listed", *"abcdef"][:count]


def test_what_nobody_has_listed_yet_is_stale() -> None:
    known, plugin = KnownDevices(), SmallPlugin()
    known.restored(OTHER, 0.0)
    known.connected(RESOURCE, plugin)
    for name in (OTHER, RESOURCE):
        assert (one := known.get(name)) is not None and one.is_stale
    known.listed(RESOURCE, devices("d1"), plugin)
    assert (one := known.get(RESOURCE)) is not None and not one.is_stale


def test_the_end_of_a_plugin_that_nobody_knows_changes_nothing() -> None:
    known, plugin = KnownDevices(), SmallPlugin()
    known.stopped(OTHER, plugin, 0.0)
    known.connected(RESOURCE, plugin)
    known.listed(RESOURCE, devices("d1"), plugin)
    known.stopped(OTHER, plugin, 0.0)
    assert list(known) == [RESOURCE] and counts(known) == (1, 1)
