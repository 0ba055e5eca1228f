"""What monitors are told of the devices of pods, over the kubelet's own socket, while pods and kubelet come and go."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.errors import Error
from dray.wire.connect import connect
from dray.wire.gen import podresources_v1alpha1_pb2 as v1alpha1
from dray.wire.gen.deviceplugin_v1beta1_pb2 import NUMANode, TopologyInfo
from dray.wire.gen.podresources_v1_pb2 import (
    AllocatableResourcesRequest,
    ListPodResourcesRequest,
    PodResources,
)
from dray.wire.podresources import SOCKET, PodResourcesClient, PodResourcesV1alpha1Client
from dray.wire.status import Code, status_of
from tests.kubelet.plugins.real_plugin import devices
from tests.processes.kubelet_node import TAPE, Node, Tapes, container, node_in


def shape(pod: PodResources) -> dict[str, list[tuple[str, tuple[str, ...], tuple[int, ...]]]]:
    """The devices of each container with their NUMA nodes."""
    return {
        one.name: [
            (each.resource_name, tuple(each.device_ids), tuple(node.ID for node in each.topology.nodes))
            for each in one.devices
        ]
        for one in pod.containers
    }


async def allocatable(node: Node) -> list[tuple[str, tuple[str, ...]]]:
    async with connect(node.root / "kubelet" / SOCKET) as channel:
        answer = await PodResourcesClient(channel).get_allocatable_resources(AllocatableResourcesRequest())
    assert (list(answer.cpu_ids), list(answer.memory)) == ([], [])
    return [(one.resource_name, tuple(one.device_ids)) for one in answer.devices]


async def test_list_and_get_with_and_without_devices(tmp_path: Path) -> None:
    """As a kubelet with the CPU policy none: no CPUs, whatever a pod asks for. There is no static policy here."""
    first = devices("a", "b", "c")
    first.devices[0].topology.CopyFrom(TopologyInfo(nodes=[NUMANode(ID=0)]))
    async with node_in(tmp_path) as node:
        assert await node.listed() == {}
        whole = {"requests": {"cpu": "1", "memory": "1Mi"}, "limits": {"cpu": "1", "memory": "1Mi"}}
        await node.run("exact", container(resources=whole))
        await node.phase("exact", "Running")
        found = (await node.listed())["exact"]
        assert (shape(found), list(found.containers[0].cpu_ids)) == ({"main": []}, [])
        assert await allocatable(node) == []
        async with node.plugged(Tapes(first=first)):
            await node.wait_counts("3/3")
            assert await allocatable(node) == [(TAPE, (one,)) for one in "abc"]
            await node.run("p", container("one", tapes=1), container("two", tapes=2), container("none"))
            await node.phase("p", "Running")
            wanted = {
                "one": [(TAPE, ("a",), (0,))],
                "two": [(TAPE, ("b",), ()), (TAPE, ("c",), ())],
                "none": [],
            }
            assert shape((await node.listed())["p"]) == wanted
            got = await node.get("p")
            assert (got.name, got.namespace, shape(got)) == ("p", "default", wanted)
            assert await allocatable(node) == [(TAPE, (one,)) for one in "abc"], "held ones count too"


async def test_only_pods_that_run_are_listed(tmp_path: Path) -> None:
    """Of the old version's answer all pods are part, as with the gate off; one that ended holds nothing."""
    async with node_in(tmp_path) as node, node.plugged(Tapes()):
        for name in ("runs", "ends"):
            await node.run(name, container(tapes=1), restartPolicy="Never")
            await node.phase(name, "Running")
        assert sorted(await node.listed()) == ["ends", "runs"]
        node.kill_containers("ends")
        await node.phase("ends", "Failed")
        assert sorted(await node.listed()) == ["runs"]
        async with connect(node.root / "kubelet" / SOCKET) as channel:
            answer = await PodResourcesV1alpha1Client(channel).list(v1alpha1.ListPodResourcesRequest())
        held = {pod.name: [len(one.devices) for one in pod.containers] for pod in answer.pod_resources}
        assert held == {"runs": [1], "ends": [0]}
        node.kill_containers()
        await node.phase("runs", "Failed")
        assert await node.listed() == {}


async def test_the_same_answer_after_a_restart(tmp_path: Path) -> None:
    """Of a plugin that tells no topology; before it has registered again, and after."""
    async with node_in(tmp_path) as node:
        async with node.plugged(Tapes()):
            await node.run("p", container(tapes=2))
            await node.phase("p", "Running")
            before = await node.listed()
        await node.restart()
        await node.phase("p", "Running")
        assert await node.listed() == before
        async with node.plugged(Tapes(), "again.sock"):
            await node.wait_counts("2/2")
            assert await node.listed() == before


async def test_requests_are_counted(tmp_path: Path) -> None:
    names = ("requests_total", "requests_list", "requests_get_allocatable", "requests_get", "errors_get")

    async with node_in(tmp_path) as node:

        async def counted() -> list[float]:
            prefix = "kubelet_pod_resources_endpoint"
            return [await node.metric(f"{prefix}_{one}", server_api_version="v1") for one in names]

        assert await counted() == [0, 0, 0, 0, 0]
        await node.listed()
        await allocatable(node)
        async with connect(node.root / "kubelet" / SOCKET) as channel:
            for _ in range(2):
                await PodResourcesClient(channel).list(ListPodResourcesRequest())
        assert await counted() == [4, 3, 1, 0, 0]
        with pytest.raises(Error):
            await node.get("nobody")
        assert await counted() == [5, 3, 1, 1, 1]


async def test_a_tight_loop_is_throttled(tmp_path: Path) -> None:
    """Ten at once pass, and one more each hundredth of a second; whoever comes too often is told, and can go on."""
    async with node_in(tmp_path) as node, connect(node.root / "kubelet" / SOCKET) as channel:
        client = PodResourcesClient(channel)
        node.clock.stop()
        for seconds, passing in ((0.0, 10), (0.055, 5), (60.0, 10)):
            node.clock.skip(seconds)
            for _ in range(passing):
                await client.list(ListPodResourcesRequest())
            for _ in range(3):
                with pytest.raises(Error) as caught:
                    await client.list(ListPodResourcesRequest())
                told = status_of(caught.value)
                assert told is not None
                assert (told.code, told.message) == (Code.RESOURCE_EXHAUSTED, "rejected by rate limit")
