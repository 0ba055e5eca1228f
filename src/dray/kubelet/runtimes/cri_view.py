"""What a CRI runtime has of one kubelet's pods. What cannot change any more is not asked for again."""

from __future__ import annotations

from dray.errors import NotFoundError
from dray.kubelet.runtimes.contract import Container, Sandbox
from dray.kubelet.runtimes.cri_requests import selector
from dray.kubelet.runtimes.cri_told import container_told, sandbox_told
from dray.runtime.clock import Clock
from dray.wire.cri import RuntimeClient
from dray.wire.gen import cri_v1_pb2 as pb

_SETTLE_SECONDS = 5.0
"""How long after its end the word about a container may still change: that it ran out of memory is told apart."""


class CriView:
    """Found by labels, oldest first: also what a kubelet made that was killed before it knew."""

    def __init__(self, runtime: RuntimeClient, owner: str, clock: Clock) -> None:
        self._runtime = runtime
        self._owner = owner
        self._clock = clock
        self._statuses: dict[str, pb.ContainerStatus] = {}
        self._addresses: dict[str, str] = {}

    async def sandboxes(self) -> tuple[Sandbox, ...]:
        """All of this kubelet's."""
        found = await self.list_sandboxes()
        addresses = {one.id: await self._address(one) for one in found if one.state == pb.SANDBOX_READY}
        self._addresses = addresses
        return tuple(sandbox_told(one, addresses.get(one.id, "")) for one in found)

    async def containers(self) -> tuple[Container, ...]:
        """All of this kubelet's; one that is removed meanwhile is left out."""
        found, statuses = [], {}
        for one in await self.list_containers():
            try:
                status = self._known(one) or await self.status(one.id)
            except NotFoundError:
                continue
            statuses[one.id] = status
            found.append(container_told(one, status))
        self._statuses = statuses
        return tuple(found)

    async def status(self, container: str) -> pb.ContainerStatus:
        """As it is now; NotFoundError where there is none."""
        request = pb.ContainerStatusRequest(container_id=container)
        return (await self._runtime.container_status(request)).status

    async def sandbox_status(self, sandbox: str) -> pb.PodSandboxStatus:
        """As it is now; NotFoundError where there is none."""
        request = pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox)
        return (await self._runtime.pod_sandbox_status(request)).status

    async def list_containers(self, *, sandbox: str = "", **labels: str) -> list[pb.Container]:
        """Those of one sandbox, pod (`pod_uid`) or name (`container`), if wanted."""
        wanted = pb.ContainerFilter(pod_sandbox_id=sandbox, label_selector=selector(self._owner, **labels))
        answer = await self._runtime.list_containers(pb.ListContainersRequest(filter=wanted))
        return sorted(answer.containers, key=lambda one: (one.created_at, one.id))

    async def list_sandboxes(self, **labels: str) -> list[pb.PodSandbox]:
        """Those of one pod (`pod_uid`), if wanted."""
        wanted = pb.PodSandboxFilter(label_selector=selector(self._owner, **labels))
        answer = await self._runtime.list_pod_sandbox(pb.ListPodSandboxRequest(filter=wanted))
        return sorted(answer.items, key=lambda one: (one.created_at, one.id))

    def _known(self, one: pb.Container) -> pb.ContainerStatus | None:
        known = self._statuses.get(one.id)
        if known is None or known.state != one.state:
            return None
        is_fresh = self._clock.now().timestamp() - known.finished_at / 1e9 < _SETTLE_SECONDS
        return None if known.state == pb.CONTAINER_EXITED and is_fresh else known

    async def _address(self, one: pb.PodSandbox) -> str:
        if one.id not in self._addresses:
            try:
                return (await self.sandbox_status(one.id)).network.ip
            except NotFoundError:
                return ""
        return self._addresses[one.id]
