"""A small CRI runtime on a real socket: it keeps what it is told and runs nothing."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dray.errors import NotFoundError, ProtocolError
from dray.wire.cri import LIMITS, ImagesService, RuntimeService
from dray.wire.gen import cri_v1_pb2 as pb
from dray.wire.serve import serve
from dray.wire.status import Code, StatusError


@dataclass
class SmallCri:
    """`faults` are raised by the next calls of that name, one each."""

    faults: dict[str, list[Exception]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    sandboxes: dict[str, pb.PodSandboxStatus] = field(default_factory=dict)
    containers: dict[str, pb.ContainerStatus] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    """The sandbox of each container."""
    images: set[str] = field(default_factory=lambda: {"here"})
    user: int | None = None
    username: str = ""
    """Of all images."""
    conditions: dict[str, bool] = field(default_factory=lambda: {"RuntimeReady": True, "NetworkReady": True})
    has_events: bool = True
    events: asyncio.Queue[pb.ContainerEventResponse] = field(default_factory=asyncio.Queue)
    next_user: list[int] = field(default_factory=list)
    """Whom the images run as from the next look on, one a look: under its name there is another image each time."""
    requests: dict[str, Any] = field(default_factory=dict)
    """The last of each call."""
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __getattr__(self, name: str) -> Any:
        """The calls of CRI, each with what is common to all."""
        call = getattr(type(self), f"do_{name}")

        async def answer(request: Any) -> Any:
            self.calls.append(name)
            self.requests[name] = request
            if self.faults.get(name):
                raise self.faults[name].pop(0)
            return call(self, request)

        return answer

    async def get_container_events(self, request: Any) -> AsyncIterator[pb.ContainerEventResponse]:
        if not self.has_events:
            raise StatusError(Code.UNIMPLEMENTED, "no events here")
        while True:
            yield await self.events.get()

    def do_version(self, _: Any) -> Any:
        return pb.VersionResponse(runtime_name="small")

    def do_runtime_config(self, _: Any) -> Any:
        return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=pb.CGROUPFS))

    def do_status(self, _: Any) -> Any:
        told = [pb.RuntimeCondition(type=kind, status=good) for kind, good in self.conditions.items()]
        return pb.StatusResponse(status=pb.RuntimeStatus(conditions=told))

    def do_run_pod_sandbox(self, request: Any) -> Any:
        config = request.config
        name = f"s{next(self._numbers)}"
        self.sandboxes[name] = pb.PodSandboxStatus(
            id=name,
            metadata=config.metadata,
            labels=config.labels,
            annotations=config.annotations,
            network=pb.PodSandboxNetworkStatus(ip="10.0.0.1"),
            linux=pb.LinuxPodSandboxStatus(
                namespaces=pb.Namespace(options=config.linux.security_context.namespace_options)
            ),
        )
        return pb.RunPodSandboxResponse(pod_sandbox_id=name)

    def do_stop_pod_sandbox(self, request: Any) -> Any:
        if request.pod_sandbox_id in self.sandboxes:
            self.sandboxes[request.pod_sandbox_id].state = pb.SANDBOX_NOTREADY
        return pb.StopPodSandboxResponse()

    def do_remove_pod_sandbox(self, request: Any) -> Any:
        self.sandboxes.pop(request.pod_sandbox_id, None)
        return pb.RemovePodSandboxResponse()

    def do_pod_sandbox_status(self, request: Any) -> Any:
        return pb.PodSandboxStatusResponse(status=_found(self.sandboxes, request.pod_sandbox_id))

    def do_list_pod_sandbox(self, request: Any) -> Any:
        wanted = dict(request.filter.label_selector).items()
        items = [
            pb.PodSandbox(id=one.id, metadata=one.metadata, state=one.state, labels=one.labels)
            for one in self.sandboxes.values()
            if wanted <= dict(one.labels).items()
        ]
        return pb.ListPodSandboxResponse(items=items)

    def do_create_container(self, request: Any) -> Any:
        name, config = f"c{next(self._numbers)}", request.config
        self.places[name] = request.pod_sandbox_id
        self.containers[name] = pb.ContainerStatus(
            id=name, metadata=config.metadata, labels=config.labels, created_at=time.time_ns()
        )
        return pb.CreateContainerResponse(container_id=name)

    def do_start_container(self, request: Any) -> Any:
        found = _found(self.containers, request.container_id)
        if found.state != pb.CONTAINER_CREATED:
            raise ProtocolError(f"container is in {found.state} state")
        found.state, found.started_at = pb.CONTAINER_RUNNING, time.time_ns()
        return pb.StartContainerResponse()

    def do_stop_container(self, request: Any) -> Any:
        found = self.containers.get(request.container_id)
        if found is not None and found.state != pb.CONTAINER_CREATED:
            found.state, found.finished_at, found.exit_code = pb.CONTAINER_EXITED, time.time_ns(), 137
        return pb.StopContainerResponse()

    def do_remove_container(self, request: Any) -> Any:
        self.containers.pop(request.container_id, None)
        return pb.RemoveContainerResponse()

    def do_list_containers(self, request: Any) -> Any:
        wanted, place = dict(request.filter.label_selector).items(), request.filter.pod_sandbox_id
        found = [
            pb.Container(
                id=one.id,
                pod_sandbox_id=self.places[one.id],
                metadata=one.metadata,
                state=one.state,
                labels=one.labels,
                created_at=one.created_at,
            )
            for one in self.containers.values()
            if wanted <= dict(one.labels).items() and place in ("", self.places[one.id])
        ]
        return pb.ListContainersResponse(containers=found)

    def do_container_status(self, request: Any) -> Any:
        return pb.ContainerStatusResponse(status=_found(self.containers, request.container_id))

    def do_image_status(self, request: Any) -> Any:
        name = request.image.image
        if name not in self.images:
            return pb.ImageStatusResponse()
        uid = None if self.user is None else pb.Int64Value(value=self.user)
        found = pb.Image(id=f"sha256:{name}-{self.user}", uid=uid, username=self.username)
        self.user = self.next_user.pop(0) if self.next_user else self.user
        return pb.ImageStatusResponse(image=found)

    def do_pull_image(self, request: Any) -> Any:
        self.images.add(request.image.image)
        return pb.PullImageResponse(image_ref=request.image.image)

    @asynccontextmanager
    async def serving(self, path: Path) -> AsyncIterator[SmallCri]:
        calls: Any = _Only(self)
        async with serve(path, [RuntimeService(calls), ImagesService(calls)], limits=LIMITS):
            yield self


@dataclass(frozen=True)
class _Only:
    """The calls, those that are not played too: they are refused when they come."""

    played: SmallCri

    def __getattr__(self, name: str) -> Any:
        async def refused(request: Any) -> Any:
            raise StatusError(Code.UNIMPLEMENTED, name)

        kind = type(self.played)
        is_played = hasattr(kind, f"do_{name}") or hasattr(kind, name)
        return getattr(self.played, name) if is_played else refused


def _found(known: dict[str, Any], name: str) -> Any:
    if name not in known:
        raise NotFoundError(f"there is no {name}")
    return known[name]
