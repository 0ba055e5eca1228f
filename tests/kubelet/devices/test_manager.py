from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.kubelet.devices.known import Device
from dray.kubelet.node.resources import DeviceCapacity
from dray.kubelet.topology.hints import Hint
from tests.counting import Calls
from tests.kubelet.devices.small_node import (
    OTHER,
    RESOURCE,
    SmallNode,
    SmallPlugin,
    container,
    devices,
    pod_of,
    simple,
)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[SmallNode]:
    found = SmallNode(tmp_path)
    yield found
    found.manager.close()


def counts(node: SmallNode, resource: str = RESOURCE) -> tuple[int, int]:
    found = node.manager.capacity()
    return found.capacity.get(resource, 0), found.allocatable.get(resource, 0)


@pytest.mark.parametrize("preferred", [False, True])
@pytest.mark.parametrize("pre_start", [False, True])
async def test_registered_again_with_other_devices(node: SmallNode, preferred: bool, pre_start: bool) -> None:
    expected = [(("d1", "d2"), (2, 2)), (("d1", "d2"), (2, 2)), (("d3",), (1, 1))]
    for ids, found in expected:
        node.plug(RESOURCE, devices(*ids), SmallPlugin(preferred=preferred, pre_start=pre_start))
        assert counts(node) == found


async def test_closed_twice_is_harmless_and_another_may_open(node: SmallNode) -> None:
    node.plug(RESOURCE, devices("d1"))
    node.manager.close()
    node.manager.close()
    node.restart()
    assert counts(node) == (0, 0)


async def test_a_stream_that_ends(node: SmallNode) -> None:
    plugin = node.plug(RESOURCE, devices("d1", "d2"))
    await node.admit(simple("pod", res1=1))
    node.manager.disconnected(RESOURCE, plugin)
    assert counts(node) == (2, 0)
    await node.clock.advance(300)
    assert counts(node) == (2, 0)
    await node.clock.advance(1)
    assert node.manager.capacity() == DeviceCapacity({}, {}, (RESOURCE,))
    assert node.manager.capacity() == DeviceCapacity()
    assert node.manager.allocatable_devices() == {}
    node.restart()
    assert node.manager.capacity() == DeviceCapacity()


async def test_after_a_restart_there_is_nothing_until_plugins_list(node: SmallNode) -> None:
    node.plug(RESOURCE, devices("d1", "d2"))
    assert node.manager.was_recreated
    node.restart()
    assert not node.manager.was_recreated
    assert node.manager.capacity() == DeviceCapacity({RESOURCE: 0}, {RESOURCE: 0})
    node.plug(RESOURCE, devices("d1", "d2"))
    assert counts(node) == (2, 2)


async def test_allocatable_devices(node: SmallNode) -> None:
    plugin = node.plug(RESOURCE, [*devices("b", "a", nodes=(1,)), *devices("c", healthy=False)])
    node.plug(OTHER, devices("x"))
    await node.admit(simple("pod", res1=1))
    found = node.manager.allocatable_devices()
    assert {name: [one.id for one in each] for name, each in found.items()} == {
        RESOURCE: ["a", "b"],
        OTHER: ["x"],
    }
    assert found[RESOURCE][0] == Device("a", True, (1,), has_topology=True)
    node.manager.listed(RESOURCE, devices("c"), plugin)
    assert [one.id for one in node.manager.allocatable_devices()[RESOURCE]] == ["c"]


async def test_container_devices_keep_the_nodes_they_were_granted_with(node: SmallNode) -> None:
    plugin = node.plug(RESOURCE, [*devices("a", nodes=(0, 1)), *devices("b")])
    pod = simple("pod", res1=2)
    await node.admit(pod)
    node.manager.listed(RESOURCE, devices("c"), plugin)
    held = node.manager.container_devices("pod", "c")
    assert {name: [(one.id, one.nodes) for one in each] for name, each in held.items()} == {
        RESOURCE: [("a", (0, 1)), ("b", ())]
    }
    assert node.manager.container_devices("pod", "other") == {}


async def test_held_raises_only_for_pods_that_have_devices(node: SmallNode) -> None:
    node.plug(RESOURCE, devices("a", "b"))
    await node.admit(simple("pod", res1=2))
    assert node.manager.held("pod") == {RESOURCE: 2}
    assert node.manager.held("other") == {}


async def test_pods_are_told_of_their_devices_health(node: SmallNode) -> None:
    plugin = node.plug(RESOURCE, devices("a", "b", "c"))
    other = node.plug(OTHER, devices("a"))
    pods = [simple("pod1", res1=1), simple("pod2", res1=1)]
    for pod in pods:
        await node.admit(pod)
    assert node.changed == []
    good, bad = devices("a", "b", "c"), devices("a", "b", "c", healthy=False)
    node.manager.listed(RESOURCE, good, plugin)
    node.manager.listed(RESOURCE, [*good[:2], bad[2]], plugin)
    node.manager.listed(OTHER, devices("a", healthy=False), other)
    assert node.changed == []
    node.manager.listed(RESOURCE, [bad[0], good[1]], plugin)
    assert node.changed == [("pod1",)]
    node.manager.listed(RESOURCE, [good[1]], plugin)
    node.manager.disconnected(RESOURCE, plugin)
    assert node.changed[1:] == [("pod1",), ("pod2",)]
    shown = node.manager.allocated_status(pods[1], pods[1].spec.containers[0])
    assert [(one.resource_id, one.health) for one in shown[0].resources] == [("b", "Unknown")]
    node.plug(RESOURCE, good)
    assert node.changed[3:] == [("pod1", "pod2")]


async def test_a_change_of_very_many_is_told_at_once(node: SmallNode) -> None:
    names = [f"d{one:03}" for one in range(110)]
    plugin = node.plug(RESOURCE, devices(*names))
    for one in names:
        await node.admit(simple(one, res1=1))
    node.manager.listed(RESOURCE, devices(*names, healthy=False), plugin)
    assert node.changed == [tuple(names)]


async def test_the_gauge_of_devices(node: SmallNode) -> None:
    node.plug(RESOURCE, [*devices("a", "b"), *devices("c", healthy=False)])
    text = node.metrics.render().decode()
    assert f'dray_device_plugin_devices{{resource_name="{RESOURCE}",health="Healthy"}} 2\n' in text
    assert f'dray_device_plugin_devices{{resource_name="{RESOURCE}",health="Unhealthy"}} 1\n' in text


BOTH = [Hint(0b01, True), Hint(0b10, True), Hint(0b11, False)]
PAIRS = [*devices("a", "b", nodes=(0,)), *devices("c", "d", nodes=(1,))]


class TestHints:
    """Of a container and of a pod."""

    async def test_by_resource(self, node: SmallNode) -> None:
        node.plug(RESOURCE, PAIRS)
        node.plug(OTHER, devices("x"))
        one = container("c", res1=1, res2=1, cpu=1)
        pod = pod_of("pod", one)
        assert node.manager.topology_hints(pod, one) == {RESOURCE: BOTH, OTHER: None}
        assert node.manager.pod_topology_hints(pod) == {RESOURCE: BOTH, OTHER: None}

    async def test_more_than_there_are(self, node: SmallNode) -> None:
        node.plug(RESOURCE, PAIRS)
        one = container("c", res1=5)
        assert node.manager.topology_hints(pod_of("pod", one), one) == {RESOURCE: []}

    async def test_the_pods_sum_crosses_nodes(self, node: SmallNode) -> None:
        node.plug(RESOURCE, PAIRS)
        three = [container(f"c{number}", res1=1) for number in range(3)]
        pod = pod_of("pod", *three, init=[container("i", res1=2)])
        assert node.manager.topology_hints(pod, three[0]) == {RESOURCE: BOTH}
        assert node.manager.pod_topology_hints(pod) == {RESOURCE: [Hint(0b11, True)]}

    async def test_what_is_held_decides_again(self, node: SmallNode) -> None:
        node.plug(RESOURCE, PAIRS)
        node.hint = Hint(0b10, True)
        one = container("c", res1=1)
        pod = pod_of("pod", one)
        await node.admit(pod)
        expected = {RESOURCE: [Hint(0b10, True), Hint(0b11, False)]}
        assert node.manager.topology_hints(pod, one) == expected
        assert node.manager.pod_topology_hints(pod) == expected
        more = container("c", res1=2)
        assert node.manager.topology_hints(pod_of("pod", more), more) == {RESOURCE: []}
        assert node.manager.pod_topology_hints(pod_of("pod", more)) == {RESOURCE: []}

    async def test_each_resource_is_held_for_itself(self, node: SmallNode) -> None:
        node.plug(RESOURCE, PAIRS)
        node.plug(OTHER, [*devices("v", "w", nodes=(0,)), *devices("x", "y", nodes=(1,))])
        node.hint = Hint(0b10, True)
        pod = pod_of("pod", container("c", res1=1, res2=1))
        await node.admit(pod)
        expected = [Hint(0b10, True), Hint(0b11, False)]
        assert node.manager.pod_topology_hints(pod) == {RESOURCE: expected, OTHER: expected}

    async def test_what_an_init_container_hands_on_binds(self, node: SmallNode) -> None:
        node.plug(RESOURCE, PAIRS)
        node.hint = Hint(0b10, True)
        init, app = container("i", res1=1), container("c", res1=1)
        pod = pod_of("pod", app, init=[init])
        node.active = {"pod"}
        await node.manager.allocate(pod, init)
        assert node.manager.topology_hints(pod, app) == {RESOURCE: [Hint(0b10, True), Hint(0b11, False)]}

    async def test_lists_that_change_all_the_time(self, node: SmallNode) -> None:
        """Hints and grants between any two of many lists are always those of the newest one."""
        plugin = node.plug(RESOURCE, PAIRS)
        pod = simple("pod", res1=1)

        async def change() -> None:
            for number in range(50):
                names = (f"d{number}-{one}" for one in range(1000))
                node.manager.listed(RESOURCE, devices(*names, nodes=(number % 2,)), plugin)
                await asyncio.sleep(0)

        async def ask() -> None:
            for _ in range(50):
                found = node.manager.topology_hints(pod, pod.spec.containers[0])[RESOURCE]
                newest = node.manager.allocatable_devices()[RESOURCE][0].nodes
                assert found in (BOTH, [Hint(1 << newest[0], True)])
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            group.create_task(change())
            group.create_task(ask())
        await node.admit(pod)
        assert all(one.startswith("d49-") for one in node.ids(pod))

    async def test_ended_pods_do_not_stand_in_the_way(self, node: SmallNode) -> None:
        node.plug(RESOURCE, PAIRS)
        await node.admit(simple("old", res1=4))
        one = container("c", res1=1)
        pod = pod_of("pod", one)
        assert node.manager.topology_hints(pod, one) == {RESOURCE: []}
        node.active = {"pod"}
        assert node.manager.topology_hints(pod, one) == {RESOURCE: BOTH}

    async def test_a_plugin_gone_for_good_has_no_preference(self, node: SmallNode) -> None:
        plugin = node.plug(RESOURCE, PAIRS)
        one = container("c", res1=1)
        pod = pod_of("pod", one)
        await node.admit(pod)
        node.manager.disconnected(RESOURCE, plugin)
        await node.clock.advance(301)
        node.manager.capacity()
        assert node.manager.topology_hints(pod, one) == {RESOURCE: None}


async def test_many_devices_and_many_pods(node: SmallNode) -> None:
    """The last pods cost about as much as the first ones."""
    node.plug(RESOURCE, devices(*(f"device-{one:05}" for one in range(2000))))

    async def admit(pods: range) -> int:
        with Calls() as calls:
            for one in pods:
                await node.admit(simple(f"pod-{one:05}", res1=1))
        return calls.count

    await admit(range(20))
    first = await admit(range(20, 60))
    await admit(range(60, 200))
    last = await admit(range(200, 240))
    assert last < 3 * first
