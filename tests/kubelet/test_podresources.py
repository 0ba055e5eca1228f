from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dray.api.core import Pod
from dray.api.core.container import Container
from dray.api.core.pod import PodSpec
from dray.api.meta import ObjectMeta
from dray.errors import Error
from dray.kubelet.metrics import KubeletMetrics
from dray.kubelet.podresources import (
    HeldClaim,
    HeldDevice,
    LocatedDevice,
    RateLimit,
    Sources,
    serve_pod_resources,
)
from dray.runtime.clock import FakeClock
from dray.runtime.metrics import Metrics
from dray.wire.connect import connect
from dray.wire.gen import podresources_v1alpha1_pb2 as v1alpha1
from dray.wire.gen.podresources_v1_pb2 import (
    AllocatableResourcesRequest,
    GetPodResourcesRequest,
    ListPodResourcesRequest,
    PodResources,
)
from dray.wire.podresources import PodResourcesClient, PodResourcesV1alpha1Client
from dray.wire.status import Code, status_of

LIST = ListPodResourcesRequest()


@dataclass(frozen=True)
class Located:
    id: str
    nodes: tuple[int, ...] = ()


@dataclass
class Node:
    """Pods, devices and claims, as the other parts of a kubelet would tell them."""

    active: list[Pod] = field(default_factory=list)
    ended: list[Pod] = field(default_factory=list)
    held: dict[tuple[str, str], dict[str, Sequence[LocatedDevice]]] = field(default_factory=dict)
    allocatable: dict[str, Sequence[LocatedDevice]] = field(default_factory=dict)
    claims: dict[str, list[HeldClaim]] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)
    clock: FakeClock = field(default_factory=FakeClock)

    def active_pods(self) -> Iterable[Pod]:
        return self.active

    def known_pods(self) -> Iterable[Pod]:
        return [*self.active, *self.ended]

    def container_devices(self, pod_uid: str, container: str) -> Mapping[str, Iterable[LocatedDevice]]:
        return self.held.get((pod_uid, container), {})

    def allocatable_devices(self) -> Mapping[str, Iterable[LocatedDevice]]:
        return self.allocatable

    def container_claims(self, pod: Pod, container: Container) -> Iterable[HeldClaim]:
        return self.claims.get(container.name, [])

    @asynccontextmanager
    async def serving(
        self, root: Path
    ) -> AsyncIterator[tuple[PodResourcesClient, PodResourcesV1alpha1Client]]:
        counted = KubeletMetrics(self.metrics).pod_resources
        sources = Sources(self, self, self)
        async with (
            serve_pod_resources(root, sources, clock=self.clock, metrics=counted) as path,
            connect(path) as channel,
        ):
            yield PodResourcesClient(channel), PodResourcesV1alpha1Client(channel)

    def count(self, name: str, version: str = "v1") -> float:
        wanted = f'{name}{{server_api_version="{version}"}} '
        lines = self.metrics.render().decode().splitlines()
        return sum(float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted))


def pod(name: str, containers: Sequence[str] = ("main",), init: Sequence[Container] = ()) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"),
        spec=PodSpec(
            init_containers=tuple(init), containers=tuple(Container(name=one) for one in containers)
        ),
    )


def devices_of(found: PodResources) -> list[tuple[str, str, list[str], list[int]]]:
    return [
        (container.name, one.resource_name, list(one.device_ids), [node.ID for node in one.topology.nodes])
        for container in found.containers
        for one in container.devices
    ]


async def test_no_pods(tmp_path: Path) -> None:
    async with Node().serving(tmp_path) as (client, _):
        assert not (await client.list(LIST)).pod_resources


async def test_the_socket_s_directory_is_not_for_everybody(tmp_path: Path) -> None:
    async with Node().serving(tmp_path):
        assert stat.S_IMODE((tmp_path / "pod-resources").stat().st_mode) == 0o750
        assert stat.S_ISSOCK((tmp_path / "pod-resources/kubelet.sock").stat().st_mode)


async def test_a_pod_without_devices_is_listed(tmp_path: Path) -> None:
    async with Node(active=[pod("idle", ["one", "two"])]).serving(tmp_path) as (client, _):
        (found,) = (await client.list(LIST)).pod_resources
    assert (found.namespace, found.name) == ("default", "idle")
    assert [one.name for one in found.containers] == ["one", "two"]
    assert devices_of(found) == []


async def test_one_entry_for_each_device_and_numa_node(tmp_path: Path) -> None:
    node = Node(active=[pod("busy")])
    node.held["uid-busy", "main"] = {
        "b.com/y": [Located("y0")],
        "a.com/x": [Located("x1", (1, 0)), Located("x0", (0,))],
    }
    async with node.serving(tmp_path) as (client, _):
        (found,) = (await client.list(LIST)).pod_resources
    assert devices_of(found) == [
        ("main", "a.com/x", ["x0"], [0]),
        ("main", "a.com/x", ["x1"], [0]),
        ("main", "a.com/x", ["x1"], [1]),
        ("main", "b.com/y", ["y0"], []),
    ]
    assert not found.containers[0].devices[3].HasField("topology")


async def test_get_says_what_list_says(tmp_path: Path) -> None:
    node = Node(active=[pod("busy"), pod("idle", ["one", "two"])])
    node.held["uid-busy", "main"] = {"a.com/x": [Located("x1", (1, 0)), Located("x0")]}
    async with node.serving(tmp_path) as (client, _):
        found = (await client.list(LIST)).pod_resources
        assert [one.name for one in found] == ["busy", "idle"]
        for listed in found:
            request = GetPodResourcesRequest(pod_name=listed.name, pod_namespace="default")
            assert (await client.get(request)).pod_resources == listed
            assert len(devices_of(listed)) == (3 if listed.name == "busy" else 0)


async def test_only_active_pods_are_listed(tmp_path: Path) -> None:
    node = Node(active=[pod("busy")], ended=[pod("over")])
    node.held["uid-over", "main"] = {"a.com/x": [Located("x0")]}
    async with node.serving(tmp_path) as (client, _):
        assert [one.name for one in (await client.list(LIST)).pod_resources] == ["busy"]


async def test_init_containers_only_where_they_keep_running(tmp_path: Path) -> None:
    init = [Container(name="setup"), Container(name="sidecar", restart_policy="Always")]
    node = Node(active=[pod("busy", init=init)])
    node.held["uid-busy", "setup"] = {"a.com/x": [Located("x0")]}
    node.held["uid-busy", "sidecar"] = {"a.com/x": [Located("x1")]}
    get = GetPodResourcesRequest(pod_name="busy", pod_namespace="default")
    async with node.serving(tmp_path) as (client, old):
        (listed,) = (await client.list(LIST)).pod_resources
        got = (await client.get(get)).pod_resources
        (first,) = (await old.list(v1alpha1.ListPodResourcesRequest())).pod_resources
    assert [one.name for one in listed.containers] == ["sidecar", "main"]
    assert devices_of(listed) == [("sidecar", "a.com/x", ["x1"], [])]
    assert got == listed
    assert [one.name for one in first.containers] == ["main"]


async def test_claims_with_their_devices(tmp_path: Path) -> None:
    node = Node(active=[pod("busy")])
    node.claims["main"] = [
        HeldClaim(
            "default",
            "claim",
            (
                HeldDevice("d.com", "pool", "gpu0", ("d.com/gpu=0",)),
                HeldDevice("d.com", "pool", "gpu1", ("d.com/gpu=1",), share_id="share"),
                HeldDevice("e.com", "pool", "nic0", ("e.com/nic=0",)),
            ),
        )
    ]
    async with node.serving(tmp_path) as (client, _):
        (found,) = (await client.list(LIST)).pod_resources
    (claim,) = found.containers[0].dynamic_resources
    assert (claim.claim_namespace, claim.claim_name) == ("default", "claim")
    told = [
        (one.driver_name, one.device_name, [cdi.name for cdi in one.cdi_devices])
        for one in claim.claim_resources
    ]
    # The second device of a driver also names the first one's: so does a real kubelet.
    assert told == [
        ("d.com", "gpu0", ["d.com/gpu=0"]),
        ("d.com", "gpu1", ["d.com/gpu=0", "d.com/gpu=1"]),
        ("e.com", "nic0", ["e.com/nic=0"]),
    ]
    assert not claim.claim_resources[0].HasField("share_id")
    assert claim.claim_resources[1].share_id == "share"


async def test_devices_and_claims_together(tmp_path: Path) -> None:
    node = Node(active=[pod("busy")])
    node.held["uid-busy", "main"] = {"a.com/x": [Located("x0")]}
    node.claims["main"] = [HeldClaim("default", "claim")]
    async with node.serving(tmp_path) as (client, _):
        (found,) = (await client.list(LIST)).pod_resources
    assert devices_of(found) == [("main", "a.com/x", ["x0"], [])]
    assert [one.claim_name for one in found.containers[0].dynamic_resources] == ["claim"]


async def test_allocatable(tmp_path: Path) -> None:
    node = Node()
    request = AllocatableResourcesRequest()
    async with node.serving(tmp_path) as (client, _):
        assert not (await client.get_allocatable_resources(request)).devices
        node.allocatable = {"a.com/x": [Located("x0", (0, 1)), Located("x1")]}
        found = (await client.get_allocatable_resources(request)).devices
    assert [(list(one.device_ids), [n.ID for n in one.topology.nodes]) for one in found] == [
        (["x0"], [0]),
        (["x0"], [1]),
        (["x1"], []),
    ]
    assert node.count("kubelet_pod_resources_endpoint_requests_get_allocatable") == 2


@pytest.mark.parametrize(("namespace", "name"), [("default", "over"), ("other", "busy"), ("", "")])
async def test_get_of_a_pod_that_is_not_here(tmp_path: Path, namespace: str, name: str) -> None:
    node = Node(active=[pod("busy")], ended=[pod("over")])
    async with node.serving(tmp_path) as (client, _):
        with pytest.raises(Error) as caught:
            await client.get(GetPodResourcesRequest(pod_name=name, pod_namespace=namespace))
    status = status_of(caught.value)
    assert status is not None
    assert status.code is Code.UNKNOWN
    assert status.message == f"pod {name} in namespace {namespace} not found"
    assert node.count("kubelet_pod_resources_endpoint_errors_get") == 1
    assert node.count("kubelet_pod_resources_endpoint_requests_get") == 1


async def test_the_first_version_lists_all_known_pods(tmp_path: Path) -> None:
    node = Node(active=[pod("busy")], ended=[pod("over")])
    node.held["uid-busy", "main"] = {"a.com/x": [Located("x0", (0,))]}
    node.held["uid-over", "main"] = {"a.com/x": [Located("x1", (0,))]}
    async with node.serving(tmp_path) as (_, old):
        found = (await old.list(v1alpha1.ListPodResourcesRequest())).pod_resources
    told = [(one.name, [list(each.device_ids) for each in one.containers[0].devices]) for one in found]
    assert told == [("busy", [["x0"]]), ("over", [])]
    assert node.count("kubelet_pod_resources_endpoint_requests_total", "v1alpha1") == 1
    assert node.count("kubelet_pod_resources_endpoint_requests_total") == 0
    assert node.count("kubelet_pod_resources_endpoint_requests_list") == 0


async def test_who_asks_too_often_is_told(tmp_path: Path) -> None:
    node = Node()

    async with node.serving(tmp_path) as (client, old):
        answers = [client.list(LIST) for _ in range(9)]
        await asyncio.gather(*answers, old.list(v1alpha1.ListPodResourcesRequest()))
        for call in (client.list(LIST), old.list(v1alpha1.ListPodResourcesRequest())):
            with pytest.raises(Error) as caught:
                await call
            status = status_of(caught.value)
            assert status is not None
            assert (status.code, status.message) == (Code.RESOURCE_EXHAUSTED, "rejected by rate limit")
        await node.clock.advance(0.01)
        await client.list(LIST)
    assert node.count("kubelet_pod_resources_endpoint_requests_list") == 10


async def test_the_rate_in_the_long_run() -> None:
    clock = FakeClock()
    limit = RateLimit(clock)
    passed = 0
    for _ in range(500):
        passed += limit.take()
        await clock.advance(0.005)
    assert passed == pytest.approx(2.5 * 100 + 10, abs=2)
