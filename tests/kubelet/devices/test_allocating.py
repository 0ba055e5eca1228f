from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from dray.api.core import Pod
from dray.api.core.pod import ContainerExtendedResourceRequest, PodExtendedResourceClaimStatus, PodStatus
from dray.errors import Error, ProtocolError, UnavailableError
from dray.kubelet.devices.known import GRACE
from dray.kubelet.pods.contract import RunOptions
from dray.kubelet.rejection import unexpected
from dray.kubelet.topology.hints import Hint
from dray.runtime.clock import settle
from dray.wire.gen.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse, DeviceSpec, Mount
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


async def refused(node: SmallNode, pod: Pod) -> str:
    with pytest.raises(Error) as caught:
        await node.admit(pod)
    return str(caught.value)


async def test_pods_get_what_they_ask_for(node: SmallNode) -> None:
    first, second = SmallPlugin(), SmallPlugin()
    first.response = ContainerAllocateResponse(
        envs={"key1": "val1"},
        devices=[
            DeviceSpec(container_path=f"/dev/{one}", host_path=f"/dev/{one}", permissions="mrw")
            for one in ("aaa", "bbb")
        ],
        mounts=[Mount(container_path="/home/r1", host_path="/home/host", read_only=True)],
    )
    second.response = ContainerAllocateResponse(
        envs={"key2": "val2"},
        devices=[DeviceSpec(container_path="/dev/ccc", host_path="/dev/ccc", permissions="mrw")],
        mounts=[Mount(container_path="/home/r2", host_path="/home/host")],
    )
    node.plug(RESOURCE, devices("dev1", "dev2"), first)
    node.plug(OTHER, devices("dev3", "dev4"), second)
    pod = simple("pod1", res1=2, res2=1)
    await node.admit(pod)
    assert node.ids(pod) == {"dev1", "dev2"}
    options = await node.manager.run_options(pod, pod.spec.containers[0])
    assert [len(each) for each in (options.edits.device_nodes, options.edits.mounts, options.edits.env)] == [
        3,
        2,
        2,
    ]
    text = f"requested number of devices unavailable for {RESOURCE}. Requested: 1, Available: 0"
    late = simple("pod2", res1=1)
    assert await refused(node, late) == text
    assert unexpected(UnavailableError(text)).message == f"Allocate failed due to {text}, which is unexpected"
    other = simple("pod3", res2=1)
    await node.admit(other)
    assert node.ids(other, resource=OTHER) == {"dev4"}
    assert b'alloc_duration_seconds_count{resource_name="domain2.com/resource2"} 2.0' in node.metrics.render()


async def test_others_resources_are_not_our_business(node: SmallNode) -> None:
    pod = simple("pod", **{"cpu": 1, "cluster.example/license": 1})
    await node.admit(pod)
    assert await node.manager.run_options(pod, pod.spec.containers[0]) == RunOptions()


async def test_a_plugin_that_has_not_listed_yet_refuses(node: SmallNode) -> None:
    node.manager.connected(RESOURCE, SmallPlugin())
    text = f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}"
    assert await refused(node, simple("pod", res1=1)) == text
    await node.admit(simple("zero", res1=0))


async def test_admitted_again_keeps_what_it_has(node: SmallNode) -> None:
    plugin = node.plug(RESOURCE, devices("d1", "d2", "d3"))
    pod = simple("pod", res1=2)
    await node.admit(pod)
    await node.admit(pod)
    assert len(plugin.calls) == 1
    changed = await refused(node, simple("pod", res1=1))
    assert changed == f'pod "pod" container "c" changed request for resource "{RESOURCE}" from 2 to 1'
    node.manager.listed(RESOURCE, devices("d2", "d3"), plugin)
    gone = f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {RESOURCE}"
    assert await refused(node, pod) == gone
    assert node.ids(pod) == {"d1", "d2"}


async def test_init_containers_hand_on(node: SmallNode) -> None:
    node.plug(RESOURCE, devices("d1", "d2"))
    init = [container("i1", res1=1), container("i2", res1=2)]
    pod = pod_of("pod", container("a1", res1=1), container("a2", res1=1), init=init)
    await node.admit(pod)
    i1, i2, a1, a2 = (node.ids(pod, name) for name in ("i1", "i2", "a1", "a2"))
    assert i1 <= i2
    assert a1 | a2 <= i2
    assert not a1 & a2


async def test_sidecars_keep_theirs(node: SmallNode) -> None:
    node.plug(RESOURCE, devices(*(f"d{one}" for one in range(6))))
    init = [
        container("i", res1=3),
        container("s1", "Always", res1=1),
        container("s2", "Always", res1=2),
    ]
    pod = pod_of("pod", container("a1", res1=1), container("a2", res1=2), init=init)
    await node.admit(pod)
    held = {name: node.ids(pod, name) for name in ("i", "s1", "s2", "a1", "a2")}
    assert held["s1"] | held["s2"] <= held["i"]
    assert sum(len(held[name]) for name in ("s1", "s2", "a1", "a2")) == 6
    assert set().union(*held.values()) == {f"d{one}" for one in range(6)}


async def test_another_pod_in_between_does_not_end_the_handing_on(node: SmallNode) -> None:
    node.plug(RESOURCE, devices("d1", "d2"))
    init, app = container("i", res1=1), container("c", res1=1)
    pod = pod_of("pod", app, init=[init])
    node.active = {"pod", "other"}
    await node.manager.allocate(pod, init)
    await node.manager.allocate(simple("other", res1=1), container("c", res1=1))
    await node.manager.allocate(pod, app)
    assert node.ids(pod) == node.ids(pod, "i") == {"d1"}


async def test_what_ended_pods_held_is_given_again(node: SmallNode) -> None:
    node.plug(RESOURCE, devices("d1"))
    node.active = {"old", "new"}
    await node.manager.allocate(simple("old", res1=1), container(res1=1))
    node.active = {"new"}
    node.is_ready = False
    with pytest.raises(UnavailableError, match="Requested: 1, Available: 0"):
        await node.manager.allocate(simple("new", res1=1), container(res1=1))
    node.is_ready = True
    await node.manager.allocate(simple("new", res1=1), container(res1=1))
    assert node.ids(simple("new")) == {"d1"}
    node.restart()
    assert node.ids(simple("old")) == set()


async def test_what_a_claim_serves_is_skipped(node: SmallNode) -> None:
    node.plug(RESOURCE, devices("d1"))
    mapping = ContainerExtendedResourceRequest(container_name="c", resource_name=RESOURCE, request_name="r")
    claim = PodExtendedResourceClaimStatus(request_mappings=(mapping,), resource_claim_name="claim")
    pod = simple("pod", res1=5)
    backed = msgspec.structs.replace(pod, status=PodStatus(extended_resource_claim_status=claim))
    await node.admit(backed)
    assert node.ids(backed) == set()
    assert await node.manager.run_options(backed, backed.spec.containers[0]) == RunOptions()
    assert "Requested: 5, Available: 1" in await refused(node, pod)


async def test_preferences(node: SmallNode) -> None:
    plugin = SmallPlugin(preferred=True)
    node.plug(RESOURCE, devices("d3", "d2", "d1"), plugin)
    plugin.wish = ["d2", "bogus"]
    pod = simple("pod", res1=1)
    await node.admit(pod)
    assert node.ids(pod) == {"d2"}
    assert plugin.questions == [(("d1", "d2", "d3"), (), 1)]

    async def fail(call: str) -> None:
        raise ProtocolError("rpc error: no wish")

    plugin.before = fail
    text = "device plugin GetPreferredAllocation rpc failed with err: rpc error: no wish"
    assert await refused(node, simple("pod2", res1=1)) == text
    assert node.in_use() == {"d2"}


async def test_the_affinity_decides_first(node: SmallNode) -> None:
    node.plug(RESOURCE, [*devices("a", "b", nodes=(0,)), *devices("c", "d", nodes=(1,))])
    node.hints["pod", "c"] = Hint(0b10, True)
    pod = simple("pod", res1=1)
    await node.admit(pod)
    assert node.ids(pod) == {"c"}
    assert node.manager.container_devices("pod", "c")[RESOURCE][0].nodes == (1,)


@pytest.mark.parametrize("wanted", ["allocate", "preferred"])
async def test_devices_taken_back_meanwhile_do_not_take_ours(node: SmallNode, wanted: str) -> None:
    """A pod that is over is noticed while the plugin is asked: only that pod's devices are free then."""
    plugin = SmallPlugin(preferred=True)
    node.plug(RESOURCE, [*devices("a", nodes=(0,)), *devices("b", "c", nodes=(1,))], plugin)
    node.active = {"old", "new"}
    await node.manager.allocate(simple("old", res1=1), container(res1=1))
    assert node.ids(simple("old")) == {"a"}
    node.active = {"new"}
    node.is_ready = False
    node.hints["new", "c"] = Hint(0b10, True)

    async def collect(call: str) -> None:
        if call == wanted:
            node.is_ready = True
            node.manager.forget_inactive()

    plugin.before = collect
    await node.manager.allocate(simple("new", res1=1), container(res1=1))
    assert node.ids(simple("new")) == node.in_use() == {"b"}


async def test_two_pods_at_once_never_share(node: SmallNode) -> None:
    plugin = SmallPlugin(preferred=True)
    plugin.wish = ["d1"]
    node.plug(RESOURCE, devices("d1", "d2", "d3"), plugin)
    gate = asyncio.Event()

    async def wait(call: str) -> None:
        await gate.wait()

    plugin.before = wait
    pods = [simple(f"pod{one}", res1=1) for one in range(3)]
    async with asyncio.TaskGroup() as group:
        for pod in pods:
            group.create_task(node.admit(pod))
        await settle()
        gate.set()
    assert sorted(one for pod in pods for one in node.ids(pod)) == ["d1", "d2", "d3"]


async def test_one_container_asked_for_twice_at_once_keeps_its_first_grant(node: SmallNode) -> None:
    plugin = node.plug(RESOURCE, devices("d1", "d2", "d3"))
    gates = [asyncio.Event(), asyncio.Event()]
    waiting = iter(gates)

    async def wait(call: str) -> None:
        await next(waiting).wait()

    plugin.before = wait
    pod = simple("pod", res1=1)
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(node.admit(pod))
        await settle()
        assert node.in_use() == {"d1", "d2"}
        gates[1].set()
        await settle()
        assert node.ids(pod) == {"d2"}
        gates[0].set()
    assert node.ids(pod) == node.in_use() == {"d2"}


async def test_a_pod_keeps_what_it_got_while_it_is_admitted(node: SmallNode) -> None:
    """Even where nobody says yet, or says no more, that it is active."""
    plugin = node.plug(RESOURCE, devices("d1", "d2"))
    node.active = set()
    one, two = container("c1", res1=1), container("c2", res1=1)
    pod = pod_of("pod", one, two)

    async def collect(call: str) -> None:
        node.manager.forget_inactive()

    plugin.before = collect
    for each in (one, two):
        node.manager.topology_hints(pod, each)
        node.manager.pod_topology_hints(pod)
        await node.manager.allocate(pod, each)
    assert (node.ids(pod, "c1"), node.ids(pod, "c2")) == ({"d1"}, {"d2"})
    node.manager.forget_inactive()
    assert node.in_use() == frozenset()


async def test_two_containers_do_not_reuse_one_device(node: SmallNode) -> None:
    plugin = node.plug(RESOURCE, devices("d1", "d2"))
    init, one, two = container("i", res1=1), container("a1", res1=1), container("a2", res1=1)
    pod = pod_of("pod", one, two, init=[init])
    node.active = {"pod"}
    await node.manager.allocate(pod, init)
    gate = asyncio.Event()

    async def wait(call: str) -> None:
        await gate.wait()

    plugin.before = wait
    async with asyncio.TaskGroup() as group:
        group.create_task(node.manager.allocate(pod, one))
        group.create_task(node.manager.allocate(pod, two))
        await settle()
        gate.set()
    assert node.ids(pod, "a1") != node.ids(pod, "a2")


@pytest.mark.parametrize("call", ["allocate", "preferred"])
@pytest.mark.parametrize("how", ["error", "cancelled", "disconnected"])
async def test_nothing_leaks_wherever_it_fails(node: SmallNode, call: str, how: str) -> None:
    plugin = SmallPlugin(preferred=True)
    node.plug(RESOURCE, [*devices("a", nodes=(0,)), *devices("b", "c", "d", nodes=(1,))], plugin)
    node.hint = Hint(0b01, True)
    asked = asyncio.Event()

    async def fail(name: str) -> None:
        if name != call:
            return
        if how == "cancelled":
            asked.set()
            await asyncio.Event().wait()
        if how == "disconnected":
            node.manager.disconnected(RESOURCE, plugin)
        raise ProtocolError("broken")

    plugin.before = fail
    before = node.path.read_bytes()
    pod = simple("pod", res1=2)
    task = asyncio.ensure_future(node.admit(pod))
    if how == "cancelled":
        await asked.wait()
        assert node.in_use() == ({"a"} if call == "preferred" else {"a", "b"})
        task.cancel()
    with pytest.raises((Error, asyncio.CancelledError)):
        await task
    assert node.in_use() == frozenset()
    assert node.path.read_bytes() == before
    plugin.before = None
    if how == "disconnected":
        node.plug(RESOURCE, devices("a", "b", "c", "d"), plugin)
    await node.admit(simple("next", res1=4))


async def test_a_disk_that_refuses_takes_the_grant_back(node: SmallNode) -> None:
    plugin = node.plug(RESOURCE, devices("d1", "d2"))

    async def lose_the_disk(call: str) -> None:
        shutil.rmtree(node.path.parent)
        node.path.parent.write_text("a file is in the way")

    plugin.before = lose_the_disk
    pod = simple("pod", res1=1)
    text = await refused(node, pod)
    assert text.startswith('failed to write checkpoint file "kubelet_internal_checkpoint": ')
    assert node.ids(pod) == node.in_use() == set()
    node.path.parent.unlink()
    plugin.before = None
    await node.admit(pod)
    assert node.path.exists()


async def test_an_answer_that_is_far_too_large(node: SmallNode) -> None:
    plugin = node.plug(RESOURCE, devices("d1"))
    plugin.response = ContainerAllocateResponse(envs={"A": "x" * 300_000})
    pod = simple("pod", res1=1)
    text = await refused(node, pod)
    assert text.startswith(f"device plugin {RESOURCE} answered Allocate with 300")
    assert node.in_use() == frozenset()


@pytest.mark.parametrize("more", [0, 1])
async def test_an_answer_of_256_kibibytes_is_the_largest(node: SmallNode, more: int) -> None:
    plugin = node.plug(RESOURCE, devices("d1"))
    short = ContainerAllocateResponse(envs={"A": "x" * 262_000})
    rest = 262_144 - len(short.SerializeToString()) + more
    plugin.response = ContainerAllocateResponse(envs={"A": "x" * (262_000 + rest)})
    assert len(plugin.response.SerializeToString()) == 262_144 + more
    pod = simple("pod", res1=1)
    if more:
        assert "262145 bytes: at most 262144 are kept" in await refused(node, pod)
    else:
        await node.admit(pod)


async def test_the_second_resource_fails_and_the_first_stays_until_the_pod_ends(node: SmallNode) -> None:
    node.plug(RESOURCE, devices("d1"))
    node.plug(OTHER, devices("e1", healthy=False))
    pod = simple("pod", res1=1, res2=1)
    assert "no healthy devices" in await refused(node, pod)
    assert node.ids(pod) == {"d1"}
    node.active = {"next"}
    await node.manager.allocate(simple("next", res1=1), container(res1=1))
    assert node.in_use() == node.ids(simple("next")) == {"d1"}


async def test_a_resource_that_is_given_up_while_its_plugin_is_asked_is_not_granted(node: SmallNode) -> None:
    """Its plugin answers at last, but went away so long ago that the node does not have the resource any more."""
    plugin = SmallPlugin(preferred=True)
    node.plug(RESOURCE, devices("d1", "d2"), plugin)

    async def be_given_up(call: str) -> None:
        node.manager.disconnected(RESOURCE, plugin)
        await node.clock.advance(GRACE + 1)
        assert node.manager.capacity().deleted == (RESOURCE,)

    plugin.before = be_given_up
    text = f"requested number of devices unavailable for {RESOURCE}. Requested: 1, Available: 0"
    assert await refused(node, simple("pod", res1=1)) == text
    assert plugin.calls == [] and node.ids(simple("pod")) == set()
    plugin.before = None
    node.plug(RESOURCE, devices("d1", "d2"), plugin)
    await node.admit(simple("next", res1=2))
