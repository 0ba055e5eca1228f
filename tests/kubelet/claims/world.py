"""A node with claims: real drivers on real sockets, an API that is a dictionary, pods and claims to order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dray.api.core import Pod
from dray.api.core.container import Container, ContainerClaim, ResourceRequirements
from dray.api.core.pod import (
    PodExtendedResourceClaimStatus,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodSpec,
    PodStatus,
)
from dray.api.meta import ObjectMeta, OwnerReference
from dray.api.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from dray.errors import NotFoundError
from dray.kubelet.claims.manager import ClaimConfig, ClaimManager
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.metrics import Metrics
from dray.runtime.tasks import running
from dray.wire import dra, health
from dray.wire.connect import connect
from dray.wire.gen import dra_health_v1_pb2 as health_pb
from dray.wire.gen import dra_v1_pb2 as pb
from dray.wire.gen.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from dray.wire.registration import DRA_PLUGIN, RegistrationClient, RegistrationService
from dray.wire.serve import serve
from dray.wire.service import Service

NODE = "node-1"


def pod_of(
    name: str = "pod",
    *claims: PodResourceClaim,
    uses: Sequence[tuple[str, str]] = (),
    statuses: Sequence[PodResourceClaimStatus] = (),
    extended: PodExtendedResourceClaimStatus | None = None,
    group: str | None = None,
) -> Pod:
    """A pod with one container `main`; `uses` are pairs of claim and request."""
    resources = ResourceRequirements(claims=tuple(ContainerClaim(name=a, request=b) for a, b in uses))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="ns", uid=f"{name}-uid"),
        spec=PodSpec(
            containers=(Container(name="main", resources=resources),),
            resource_claims=claims,
            scheduling_group=None if group is None else {"podGroupName": group},
        ),
        status=PodStatus(resource_claim_statuses=tuple(statuses), extended_resource_claim_status=extended),
    )


def direct(name: str, claim: str = "") -> PodResourceClaim:
    """The pod's claim `name`, which is the object `claim` (or of the same name)."""
    return PodResourceClaim(name=name, resource_claim_name=claim or name)


def claim_of(
    name: str,
    drivers: Sequence[str] = ("a.io",),
    pods: Sequence[str] = ("pod",),
    *,
    uid: str = "",
    owner: OwnerReference | None = None,
    allocated: bool = True,
    groups: Sequence[str] = (),
) -> ResourceClaim:
    """An allocated claim, one device of each driver, reserved for these pods."""
    results = tuple(
        DeviceRequestAllocationResult(request="req", driver=driver, pool=NODE, device=f"dev-{name}")
        for driver in drivers
    )
    reserved = [ResourceClaimConsumerReference(resource="pods", name=pod, uid=f"{pod}-uid") for pod in pods]
    reserved += [
        ResourceClaimConsumerReference(
            api_group="scheduling.k8s.io", resource="podgroups", name=group, uid="g"
        )
        for group in groups
    ]
    allocation = AllocationResult(devices=DeviceAllocationResult(results=results)) if allocated else None
    return ResourceClaim(
        metadata=ObjectMeta(
            name=name, namespace="ns", uid=uid or f"{name}-uid", owner_references=(owner,) if owner else ()
        ),
        status=ResourceClaimStatus(allocation=allocation, reserved_for=tuple(reserved)),
    )


@dataclass
class Api:
    """Claims by name; every question and every deletion is noted."""

    claims: dict[str, ResourceClaim] = field(default_factory=dict)
    deleted: list[tuple[str, str]] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    """The next deletions fail with these."""

    def add(self, *claims: ResourceClaim) -> None:
        self.claims |= {claim.metadata.name: claim for claim in claims}

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        await asyncio.sleep(0)
        if name not in self.claims:
            raise NotFoundError(f'resourceclaims.resource.k8s.io "{name}" not found')
        return self.claims[name]

    async def delete_slices(self, node: str, driver: str) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.deleted.append((node, driver))


Prepare = Callable[[pb.NodePrepareResourcesRequest], pb.NodePrepareResourcesResponse]
Unprepare = Callable[[pb.NodeUnprepareResourcesRequest], pb.NodeUnprepareResourcesResponse]


@dataclass(eq=False)
class Driver:
    """A DRA driver with health. `prepared` is what it holds; hooks change one answer or wait at a call."""

    name: str
    path: Path
    versions: Sequence[str] = (*dra.VERSIONS, *health.VERSIONS)
    prepared: set[str] = field(default_factory=set)
    calls: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    notified: list[RegistrationStatus] = field(default_factory=list)
    on_prepare: Prepare | None = None
    on_unprepare: Unprepare | None = None
    gate: asyncio.Event | None = None
    """Calls wait for it after they took effect."""
    messages: asyncio.Queue[list[health_pb.DeviceHealth] | None] = field(default_factory=asyncio.Queue)
    """What the health stream tells; None ends it."""
    streams: int = 0

    async def get_info(self, request: InfoRequest) -> PluginInfo:
        return PluginInfo(
            type=DRA_PLUGIN, name=self.name, endpoint=str(self.path), supported_versions=self.versions
        )

    async def notify_registration_status(self, request: RegistrationStatus) -> RegistrationStatusResponse:
        self.notified.append(request)
        return RegistrationStatusResponse()

    async def node_prepare_resources(
        self, request: pb.NodePrepareResourcesRequest
    ) -> pb.NodePrepareResourcesResponse:
        self.calls.append(("prepare", tuple(claim.name for claim in request.claims)))
        if self.on_prepare is not None:
            return self.on_prepare(request)
        self.prepared |= {claim.uid for claim in request.claims}
        if self.gate is not None:
            await self.gate.wait()
        return self.good(request)

    async def node_unprepare_resources(
        self, request: pb.NodeUnprepareResourcesRequest
    ) -> pb.NodeUnprepareResourcesResponse:
        self.calls.append(("unprepare", tuple(claim.name for claim in request.claims)))
        if self.on_unprepare is not None:
            return self.on_unprepare(request)
        self.prepared -= {claim.uid for claim in request.claims}
        if self.gate is not None:
            await self.gate.wait()
        return pb.NodeUnprepareResourcesResponse(
            claims={claim.uid: pb.NodeUnprepareResourceResponse() for claim in request.claims}
        )

    def good(self, request: pb.NodePrepareResourcesRequest) -> pb.NodePrepareResourcesResponse:
        """One device a claim, `dev-<claim>`, with the CDI id `<driver>/dev=<claim>`."""
        return pb.NodePrepareResourcesResponse(
            claims={
                claim.uid: pb.NodePrepareResourceResponse(devices=[self.device(claim.name)])
                for claim in request.claims
            }
        )

    def device(self, claim: str) -> pb.Device:
        return pb.Device(
            request_names=["req"],
            pool_name=NODE,
            device_name=f"dev-{claim}",
            cdi_device_ids=[f"{self.name}/dev={claim}"],
        )

    async def node_watch_resources(
        self, request: health_pb.NodeWatchResourcesRequest
    ) -> AsyncIterator[health_pb.NodeWatchResourcesResponse]:
        self.streams += 1
        while (devices := await self.messages.get()) is not None:
            yield health_pb.NodeWatchResourcesResponse(devices=devices)

    @asynccontextmanager
    async def serving(self, *, tells_health: bool = True) -> AsyncIterator[Driver]:
        services: list[Service[object]] = [RegistrationService(self), dra.DraService(self)]
        if tells_health:
            services.append(health.HealthService(self))
        async with serve(self.path, services):
            yield self


def told(name: str, word: str = "HEALTHY", *, timeout: int = 0, message: str = "") -> health_pb.DeviceHealth:
    """One entry of a health message."""
    return health_pb.DeviceHealth(
        device=health_pb.DeviceIdentifier(pool_name=NODE, device_name=name),
        health=word,
        health_check_timeout_seconds=timeout,
        message=message,
    )


@dataclass
class World:
    """A manager and what is around it. `register` does what the plugin watcher does."""

    directory: Path
    api: Api = field(default_factory=Api)
    clock: Clock = field(default_factory=SystemClock)
    metrics: Metrics = field(default_factory=Metrics)
    active: set[str] = field(default_factory=set)
    ready: bool = True
    changed: list[frozenset[str]] = field(default_factory=list)
    call_timeout: float = 5.0
    pod_groups: bool = False

    @contextmanager
    def manager(self) -> Iterator[ClaimManager]:
        """A manager as after a start, its record read."""
        self.metrics = Metrics()
        config = ClaimConfig(self.directory, NODE, pod_groups=self.pod_groups, call_timeout=self.call_timeout)
        with ClaimManager(
            config,
            self.api,
            self.clock,
            active_pods=lambda: self.active,
            sources_ready=lambda: self.ready,
            metrics=self.metrics,
            pods_changed=self.changed.append,
        ) as manager:
            yield manager

    @asynccontextmanager
    async def running(self, *drivers: Driver) -> AsyncIterator[ClaimManager]:
        """The same with its loops, and these drivers registered."""
        with self.manager() as manager:
            async with running(manager.run(), name="claims"):
                for driver in drivers:
                    await register(manager, driver)
                yield manager

    def metric(self, name: str, labels: Mapping[str, str] | None = None) -> float | None:
        """One sample from the scraped text."""
        wanted = {f'{key}="{value}"' for key, value in (labels or {}).items()}
        for line in self.metrics.render().decode().splitlines():
            head, _, value = line.rpartition(" ")
            shown, _, rest = head.partition("{")
            if shown == name and wanted <= set(rest.rstrip("}").split(",")):
                return float(value)
        return None


async def register(manager: ClaimManager, driver: Driver) -> None:
    """Ask, check, take, tell: over the driver's own socket."""
    async with connect(driver.path) as channel:
        client = RegistrationClient(channel)
        info = await client.get_info(InfoRequest())
        manager.drivers.validate(info.name, info.endpoint, list(info.supported_versions))
        await manager.drivers.register(info.name, info.endpoint, list(info.supported_versions))
        await client.notify_registration_status(RegistrationStatus(plugin_registered=True))
