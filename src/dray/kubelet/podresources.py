"""Which container holds which device: served for monitors, in v1 and in v1alpha1, as a kubelet serves it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dray.api.core import Pod
from dray.api.core.container import Container
from dray.kubelet.metrics import PodResourcesMetrics
from dray.runtime.clock import Clock
from dray.wire.gen import podresources_v1alpha1_pb2 as v1alpha1
from dray.wire.gen.podresources_v1_pb2 import (
    AllocatableResourcesRequest,
    AllocatableResourcesResponse,
    CDIDevice,
    ClaimResource,
    ContainerDevices,
    ContainerResources,
    DynamicResource,
    GetPodResourcesRequest,
    GetPodResourcesResponse,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
    NUMANode,
    PodResources,
    TopologyInfo,
)
from dray.wire.limits import MIB, Limits
from dray.wire.podresources import SOCKET, PodResourcesClient, PodResourcesV1alpha1Client
from dray.wire.podresources import PodResources as PodResourcesHandler
from dray.wire.serve import serve
from dray.wire.service import Service
from dray.wire.status import Code, StatusError

DIRECTORY_MODE = 0o750
QUERIES_PER_SECOND = 100.0
BURST = 10.0
LIMITS = Limits(send=16 * MIB)
"""What the kubelet's own clients take."""


class PodSource(Protocol):
    """The pods of this node."""

    def active_pods(self) -> Iterable[Pod]:
        """Those that hold, or may hold, devices."""
        ...

    def known_pods(self) -> Iterable[Pod]:
        """All, also those that ended."""
        ...


class LocatedDevice(Protocol):
    """A device and its NUMA nodes; none where it does not say."""

    @property
    def id(self) -> str:
        """As its plugin lists it."""
        ...

    @property
    def nodes(self) -> tuple[int, ...]:
        """Where it is."""
        ...


class DeviceSource(Protocol):
    """What device plugins gave."""

    def container_devices(self, pod_uid: str, container: str) -> Mapping[str, Iterable[LocatedDevice]]:
        """What the container holds, by resource."""
        ...

    def allocatable_devices(self) -> Mapping[str, Iterable[LocatedDevice]]:
        """All healthy devices by resource, held or not."""
        ...


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """A device of a claim, as its driver prepared it."""

    driver: str
    pool: str
    name: str
    cdi_ids: tuple[str, ...] = ()
    share_id: str | None = None


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A claim that a container uses, with all devices of the claim; those of one driver stand together."""

    namespace: str
    name: str
    devices: tuple[HeldDevice, ...] = ()


class ClaimSource(Protocol):
    """What DRA drivers gave."""

    def container_claims(self, pod: Pod, container: Container) -> Iterable[HeldClaim]:
        """The claims that the container uses, by name or for an extended resource; empty where one is not known."""
        ...


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the answers come from."""

    pods: PodSource
    devices: DeviceSource
    claims: ClaimSource


class RateLimit:
    """A bucket of tokens: as many as `burst` at once, `rate` a second in the long run."""

    def __init__(self, clock: Clock, rate: float = QUERIES_PER_SECOND, burst: float = BURST) -> None:
        self._clock = clock
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._filled = clock.monotonic()

    def take(self) -> bool:
        """Whether one more may pass now."""
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._rate)
        self._filled = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def check(self) -> None:
        """Pass, or tell the caller that it asks too often."""
        if not self.take():
            raise StatusError(Code.RESOURCE_EXHAUSTED, "rejected by rate limit")


class PodResourcesServer:
    """Answers v1 (`wire.podresources.PodResources`). No CPUs and no memory: those are not given out exclusively."""

    def __init__(self, sources: Sources, limit: RateLimit, metrics: PodResourcesMetrics) -> None:
        self._sources = sources
        self._limit = limit
        self._metrics = metrics

    async def list(self, request: ListPodResourcesRequest) -> ListPodResourcesResponse:
        """Every active pod, also one that holds nothing."""
        self._count("list")
        pods = self._sources.pods.active_pods()
        return ListPodResourcesResponse(pod_resources=[self._pod(pod) for pod in pods])

    async def get_allocatable_resources(
        self, request: AllocatableResourcesRequest
    ) -> AllocatableResourcesResponse:
        """What the node has, held or not."""
        self._count("get_allocatable")
        devices = self._sources.devices.allocatable_devices()
        return AllocatableResourcesResponse(devices=_entries(devices))

    async def get(self, request: GetPodResourcesRequest) -> GetPodResourcesResponse:
        """One active pod. A kubelet answers UNKNOWN for others, not NOT_FOUND."""
        self._count("get")
        for pod in self._sources.pods.active_pods():
            meta = pod.metadata
            if (meta.namespace, meta.name) == (request.pod_namespace, request.pod_name):
                return GetPodResourcesResponse(pod_resources=self._pod(pod))
        self._metrics.errors["get"].inc("v1")
        raise StatusError(
            Code.UNKNOWN, f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        )

    def _count(self, method: str) -> None:
        self._limit.check()
        self._metrics.requests.labels("v1").inc()
        self._metrics.calls[method].inc("v1")

    def _pod(self, pod: Pod) -> PodResources:
        return PodResources(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            containers=[self._container(pod, one) for one in _shown(pod)],
        )

    def _container(self, pod: Pod, container: Container) -> ContainerResources:
        held = self._sources.devices.container_devices(pod.metadata.uid, container.name)
        claims = self._sources.claims.container_claims(pod, container)
        return ContainerResources(
            name=container.name,
            devices=_entries(held),
            dynamic_resources=[_dynamic_resource(claim) for claim in claims],
        )


class PodResourcesV1alpha1(Protocol):
    """What a kubelet answers in the first version."""

    async def list(self, request: v1alpha1.ListPodResourcesRequest) -> v1alpha1.ListPodResourcesResponse:
        """All pods with what they hold."""
        ...


class PodResourcesV1alpha1Server:
    """Answers v1alpha1: all known pods, plain containers only. One that ended holds nothing any more."""

    def __init__(self, sources: Sources, limit: RateLimit, metrics: PodResourcesMetrics) -> None:
        self._sources = sources
        self._limit = limit
        self._metrics = metrics

    async def list(self, request: v1alpha1.ListPodResourcesRequest) -> v1alpha1.ListPodResourcesResponse:
        """All known pods."""
        self._limit.check()
        self._metrics.requests.labels("v1alpha1").inc()
        active = {pod.metadata.uid for pod in self._sources.pods.active_pods()}
        return v1alpha1.ListPodResourcesResponse(
            pod_resources=[
                self._pod(pod, pod.metadata.uid in active) for pod in self._sources.pods.known_pods()
            ]
        )

    def _pod(self, pod: Pod, is_active: bool) -> v1alpha1.PodResources:
        return v1alpha1.PodResources(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            containers=[
                v1alpha1.ContainerResources(
                    name=one.name, devices=self._devices(pod, one) if is_active else ()
                )
                for one in pod.spec.containers
            ],
        )

    def _devices(self, pod: Pod, container: Container) -> Sequence[v1alpha1.ContainerDevices]:
        held = self._sources.devices.container_devices(pod.metadata.uid, container.name)
        return [
            v1alpha1.ContainerDevices(resource_name=one.resource_name, device_ids=one.device_ids)
            for one in _entries(held)
        ]


class _V1Service(Service[PodResourcesHandler]):
    tables = (PodResourcesClient,)


class _V1alpha1Service(Service[PodResourcesV1alpha1]):
    tables = (PodResourcesV1alpha1Client,)


@asynccontextmanager
async def serve_pod_resources(
    root: Path, sources: Sources, *, clock: Clock, metrics: PodResourcesMetrics
) -> AsyncIterator[Path]:
    """Serve both versions below the kubelet's `root` while entered; gives the socket's path."""
    limit = RateLimit(clock)
    services = [
        _V1Service(PodResourcesServer(sources, limit, metrics)),
        _V1alpha1Service(PodResourcesV1alpha1Server(sources, limit, metrics)),
    ]
    path = root / SOCKET
    async with serve(path, services, directory_mode=DIRECTORY_MODE, limits=LIMITS):
        yield path


def _shown(pod: Pod) -> Iterator[Container]:
    """Init containers that keep running, then the others. Plain init containers are over when anyone looks."""
    yield from (one for one in pod.spec.init_containers if one.restart_policy == "Always")
    yield from pod.spec.containers


def _entries(devices: Mapping[str, Iterable[LocatedDevice]]) -> list[ContainerDevices]:
    """One for each device and NUMA node, by resource and id."""
    return [
        ContainerDevices(resource_name=resource, device_ids=[device.id], topology=topology)
        for resource in sorted(devices)
        for device in sorted(devices[resource], key=lambda one: one.id)
        for topology in _topologies(device.nodes)
    ]


def _topologies(nodes: Iterable[int]) -> list[TopologyInfo | None]:
    found: list[TopologyInfo | None] = [
        TopologyInfo(nodes=[NUMANode(ID=node)]) for node in sorted(nodes) if node >= 0
    ]
    return found or [None]


def _dynamic_resource(claim: HeldClaim) -> DynamicResource:
    """As a kubelet tells it: a driver's later devices also name the CDI devices of its earlier ones."""
    told: dict[str, list[CDIDevice]] = {}
    resources: list[ClaimResource] = []
    for device in claim.devices:
        names = told.setdefault(device.driver, [])
        names += [CDIDevice(name=name) for name in device.cdi_ids]
        resources.append(
            ClaimResource(
                cdi_devices=names,
                driver_name=device.driver,
                pool_name=device.pool,
                device_name=device.name,
                share_id=device.share_id,
            )
        )
    return DynamicResource(claim_name=claim.name, claim_namespace=claim.namespace, claim_resources=resources)
