"""Devices for one container: at admission, and again before each start. The only place where plugins are called."""

from __future__ import annotations

from dray.api.core import Pod
from dray.api.core.container import Container
from dray.errors import Error, NotFoundError, ProtocolError, UnavailableError
from dray.kubelet.devices.contract import Endpoint, Surroundings
from dray.kubelet.devices.grants import Grant, by_node
from dray.kubelet.devices.known import DeviceList
from dray.kubelet.devices.ledger import Ledger, Reservation
from dray.kubelet.devices.picking import Answer, Offer, Preference, Want, pick
from dray.kubelet.devices.requests import all_containers, container_limits, handing_on
from dray.kubelet.devices.run_options import merge_responses
from dray.kubelet.pods.contract import RunOptions
from dray.runtime.logs import get_log

_log = get_log("kubelet.devices.allocating")

MAX_RESPONSE = 256 * 1024
"""Bytes of one answer. It is in the checkpoint from then on, and every grant writes the checkpoint."""


class Allocator:
    """Plugins are asked without holding anything but a reservation; what is true then is looked up anew."""

    def __init__(self, ledger: Ledger, around: Surroundings) -> None:
        self._ledger = ledger
        self._around = around

    async def allocate(self, pod: Pod, container: Container) -> None:
        """All that the container asks of plugins, in sorted order. What it got before an error stays until the pod ends."""
        limits = container_limits(pod, container)
        wanted = {name: count for name, count in limits.items() if self._ledger.is_of_plugin(name)}
        if not wanted:
            return
        with self._ledger.admitting(pod.metadata.uid):
            self._ledger.forget_inactive()
            for resource, count in wanted.items():
                with self._ledger.reserving(resource) as reservation:
                    want = self._want(pod, container, resource, count)
                    ids = await self._pick(want, reservation)
                    if ids:
                        reservation.take(ids)
                        await self._grant(want, ids)

    async def run_options(self, pod: Pod, container: Container) -> RunOptions:
        """Before every start. An active pod without its grants gets them here: they were lost, or its plugin came late."""
        uid, name = pod.metadata.uid, container.name
        limits = container_limits(pod, container)
        wanted = [one for one, count in limits.items() if count and self._ledger.is_of_plugin(one)]
        is_missing = any(self._ledger.grants.get(uid, name, one) is None for one in wanted)
        if is_missing and uid in self._around.active_pods():
            _log.warning("a container starts without a grant, asking for one", pod_uid=uid, container=name)
            await self.allocate(pod, container)
        for resource in wanted:
            await self._pre_start(uid, name, resource)
        return merge_responses(self._ledger.grants.of_container(uid, name))

    def _want(self, pod: Pod, container: Container, resource: str, count: int) -> Want:
        grant = self._ledger.grants.get(pod.metadata.uid, container.name, resource)
        return Want(
            pod.metadata.uid,
            container.name,
            resource,
            count,
            None if grant is None else grant.ids,
            self._ledger.reusable(pod, resource),
            self._has_been_running(pod, container.name, is_granted=grant is not None),
        )

    def _has_been_running(self, pod: Pod, container: str, *, is_granted: bool) -> bool:
        """Only while this process starts. An init container that is over counts where the pod went on with its devices."""
        if self._around.sources_ready():
            return False
        names = [container]
        if is_granted and container in handing_on(pod):
            names = [one.name for one in all_containers(pod)]
        return any(self._around.was_running(pod.metadata.uid, one) for one in names)

    def _offer(self, want: Want) -> Offer:
        known = self._ledger.known.get(want.resource)
        return Offer(
            None if known is None else known.healthy,
            self._ledger.free(want.resource),
            DeviceList() if known is None else known.devices,
            self._around.affinity(want.pod_uid, want.container),
            known is not None
            and known.options is not None
            and known.options.get_preferred_allocation_available,
        )

    async def _pick(self, want: Want, reservation: Reservation) -> tuple[str, ...]:
        steps = pick(want, self._offer(want))
        try:
            question = next(steps)
            while True:
                reservation.take(question.must_include)
                preferred = await self._preferred(want.resource, question)
                question = steps.send(Answer(preferred, self._ledger.free(want.resource)))
        except StopIteration as done:
            ids: tuple[str, ...] = done.value
            return ids

    async def _preferred(self, resource: str, question: Preference) -> frozenset[str]:
        known = self._ledger.known.get(resource)
        if known is None:
            raise _no_endpoint(resource)
        endpoint = _connected(known.endpoint, resource)
        try:
            wish = await endpoint.preferred(
                known.devices.first(len(question.available), question.available),
                sorted(question.must_include),
                question.size,
            )
        except Error as error:
            raise type(error)(f"device plugin GetPreferredAllocation rpc failed with err: {error}") from error
        return frozenset(wish)

    async def _grant(self, want: Want, ids: tuple[str, ...]) -> None:
        known = self._ledger.known.get(want.resource)
        if known is None:
            raise NotFoundError(
                f"unknown Device Plugin {want.resource}", kind="device plugin", name=want.resource
            )
        places = by_node(ids, known.devices)
        self._around.reached("picked")
        with self._around.metrics.allocating(want.resource):
            response = await _connected(known.endpoint, want.resource).allocate(ids)
        self._around.reached("allocated")
        if self._ledger.grants.get(want.pod_uid, want.container, want.resource) is not None:
            return  # asked for twice at once, and the other was faster: one grant is enough
        content = response.SerializeToString(deterministic=True)
        if len(content) > MAX_RESPONSE:
            raise ProtocolError(
                f"device plugin {want.resource} answered Allocate with {len(content)} bytes: "
                f"at most {MAX_RESPONSE} are kept for a container"
            )
        self._ledger.keep(Grant(want.pod_uid, want.container, want.resource, places, content))
        self._around.reached("granted")

    async def _pre_start(self, pod_uid: str, container: str, resource: str) -> None:
        known = self._ledger.known.get(resource)
        if known is None:
            raise _no_endpoint(resource)
        if known.options is None or not known.options.pre_start_required:
            return
        grant = self._ledger.grants.get(pod_uid, container, resource)
        if grant is None:
            raise NotFoundError(
                f"no devices found allocated in local cache for pod {pod_uid}, container {container}, "
                f"resource {resource}",
                kind="device",
            )
        try:
            await _connected(known.endpoint, resource).pre_start(sorted(grant.ids))
        except Error as error:
            raise type(error)(f"device plugin PreStartContainer rpc failed with err: {error}") from error


def _connected(endpoint: Endpoint | None, resource: str) -> Endpoint:
    if endpoint is None:
        raise UnavailableError(f"endpoint {resource} has been stopped")
    return endpoint


def _no_endpoint(resource: str) -> NotFoundError:
    return NotFoundError(
        f"endpoint not found in cache for a registered resource: {resource}",
        kind="device plugin",
        name=resource,
    )
