"""The claims of the pods on this node: prepared before a pod starts, given back after it ended, told in between.

with ClaimManager(config, …) as manager:          # the record is read
    async with running(manager.run(), name="claims"):
        await manager.prepare(pod)                # before the pod's sandbox
        manager.cdi_devices(pod, container)       # at each container's start
        await manager.unprepare(pod)              # after its last container
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from dray.api.core import Pod
from dray.api.core.container import Container, ResourceStatus
from dray.errors import Error, NotFoundError
from dray.kubelet.claims.api import ClaimApi
from dray.kubelet.claims.cache import ClaimCache
from dray.kubelet.claims.claim_info import ClaimInfo
from dray.kubelet.claims.drivers import Drivers
from dray.kubelet.claims.health import FILE_NAME as HEALTH_FILE
from dray.kubelet.claims.health import HealthWatch
from dray.kubelet.claims.meters import Meters
from dray.kubelet.claims.prepare import prepare, unknown_claim
from dray.kubelet.claims.reconcile import PERIOD, departed
from dray.kubelet.claims.resolve import requests_of, resolve
from dray.kubelet.claims.slices import DELAY, SliceWiper
from dray.kubelet.claims.state_file import FILE_NAME, StateFile
from dray.kubelet.claims.status import allocated_status
from dray.kubelet.claims.unprepare import unprepare
from dray.kubelet.failure import prefixed
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.metrics import Metrics
from dray.runtime.tasks import single
from dray.runtime.traces import span
from dray.wire.dra import CALL_TIMEOUT

_log = get_log("kubelet.claims")


@dataclass(frozen=True, slots=True)
class ClaimConfig:
    """`directory` holds both state files. `pod_groups`: claims of pod groups are taken (DRAWorkloadResourceClaims)."""

    directory: Path
    node: str
    pod_groups: bool = False
    call_timeout: float = CALL_TIMEOUT
    wipe_delay: float = DELAY


class ClaimManager:
    """Used from one event loop. Entered: the record was read. Left: its file is free for the next one.

    `active_pods` gives the uids of pods that may still run here, `sources_ready` whether all of them are known yet.
    `pods_changed` is told whose status must be written again; `reached` is the cache's. `drivers` is the handler for plugins of type DRAPlugin.
    """

    def __init__(
        self,
        config: ClaimConfig,
        api: ClaimApi,
        clock: Clock,
        *,
        active_pods: Callable[[], Collection[str]],
        sources_ready: Callable[[], bool],
        metrics: Metrics,
        pods_changed: Callable[[frozenset[str]], None] = lambda pods: None,
        reached: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._config = config
        self._api = api
        self._clock = clock
        self._active_pods = active_pods
        self._sources_ready = sources_ready
        self._meters = Meters(metrics, clock)
        self._cache = ClaimCache(StateFile(config.directory / FILE_NAME, clock), reached)
        self._meters.count(self._cache)
        self._health = HealthWatch(config.directory / HEALTH_FILE, self._cache, clock, pods_changed)
        self._slices = SliceWiper(api, config.node, clock, delay=config.wipe_delay)
        self.drivers = Drivers(
            clock,
            self._meters,
            usable_changed=self._slices.changed,
            follow=self._health.follow,
            call_timeout=config.call_timeout,
        )

    def __enter__(self) -> ClaimManager:
        self._cache.load()
        self._health.load()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._cache.close()

    async def run(self) -> None:
        """Until cancelled: drivers stay connected, slices of lost ones go, departed pods give their claims back."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._slices.run(), name="slices")
            group.create_task(self.drivers.run(), name="drivers")
            group.create_task(self._reconcile_always(), name="departed pods")

    async def prepare(self, pod: Pod) -> None:
        """Before a pod's sandbox is made; again after an error, with backoff: the pod stays Pending meanwhile."""
        try:
            with self._meters.operation("PrepareResources"):
                await prepare(pod, self._cache, self.drivers, self._api, pod_groups=self._config.pod_groups)
        except Error as error:
            raise prefixed("prepare dynamic resources", error) from error

    async def unprepare(self, pod: Pod) -> None:
        """After the pod's last container ended; again after an error: the pod must not be gone before this worked."""
        try:
            with self._meters.operation("UnprepareResources"), span("kubelet", "release", self.uids(pod)):
                await unprepare(pod.metadata.uid, self._cache, self.drivers)
        except Error as error:
            raise prefixed("unprepare dynamic resources", error) from error

    def may_need_unprepare(self, uid: str) -> bool:
        """Whether the pod's object must be kept: it still uses claims here."""
        return self._cache.has_pod(uid)

    def uids(self, pod: Pod) -> Iterator[str]:
        """Of the pod's claims in the record; looked up when the first is asked for."""
        yield from (claim.uid for claim in self._cache.of_pod(pod.metadata.uid))

    def cdi_devices(self, pod: Pod, container: Container) -> tuple[str, ...]:
        """The CDI ids a container starts with. An id that two requests name comes twice."""
        found: list[str] = []
        for name, requests in requests_of(pod, container).items():
            claim = self._cache.get(pod.metadata.namespace, name)
            if claim is None:
                raise unknown_claim(pod.metadata.namespace, name)
            for request in requests:
                found += claim.cdi_ids(request)
        return tuple(found)

    def container_claims(self, pod: Pod, container: Container) -> tuple[ClaimInfo, ...]:
        """The claims a container uses, whole, whichever requests it names: for pod resources."""
        namespace, used = pod.metadata.namespace, {claim.name for claim in container.resources.claims}
        found: list[ClaimInfo] = []
        for pod_claim in pod.spec.resource_claims:
            name = resolve(pod, pod_claim) if pod_claim.name in used else None
            if name is not None:
                text = f"unable to get information for ResourceClaim {name.name}"
                found.append(self._known(namespace, name.name, text))
        extended = pod.status.extended_resource_claim_status
        if extended is not None and any(
            mapping.container_name == container.name for mapping in extended.request_mappings
        ):
            name_text = extended.resource_claim_name
            text = f"unable to get claim info for claim {name_text} in namespace {namespace}"
            found.append(self._known(namespace, name_text, text))
        return tuple(found)

    def allocated_status(self, pod: Pod, container: Container) -> tuple[ResourceStatus, ...]:
        """How the devices of a container's claims are, for its status."""
        return allocated_status(pod, container, self._cache.get, self._health.get)

    async def reconcile(self) -> None:
        """Give back the claims of pods that are gone, all at once. Errors are told and tried again at the next look."""
        if not self._sources_ready():
            return
        try:
            async with asyncio.TaskGroup() as group:
                for uid in departed(self._cache.claims(), frozenset(self._active_pods())):
                    group.create_task(self._give_back(uid), name=f"claims of {uid}")
        except BaseExceptionGroup as failures:
            raise single(failures) from None

    async def _give_back(self, uid: str) -> None:
        try:
            await unprepare(uid, self._cache, self.drivers)
        except Error as error:
            _log.warning("claims of a departed pod are kept, will try again", pod=uid, error=str(error))

    async def _reconcile_always(self) -> None:
        while True:
            await self.reconcile()
            await self._clock.sleep(PERIOD)

    def _known(self, namespace: str, name: str, text: str) -> ClaimInfo:
        claim = self._cache.get(namespace, name)
        if claim is None:
            raise NotFoundError(text, kind="ResourceClaim", name=name)
        return claim
