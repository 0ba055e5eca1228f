"""The container runtime interface (CRI) v1, as far as running containers needs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from dray.wire.gen.cri_v1_pb2 import (
    ContainerEventResponse,
    ContainerStatusRequest,
    ContainerStatusResponse,
    CreateContainerRequest,
    CreateContainerResponse,
    ExecSyncRequest,
    ExecSyncResponse,
    GetEventsRequest,
    ImageStatusRequest,
    ImageStatusResponse,
    ListContainersRequest,
    ListContainersResponse,
    ListImagesRequest,
    ListImagesResponse,
    ListPodSandboxRequest,
    ListPodSandboxResponse,
    PodSandboxStatusRequest,
    PodSandboxStatusResponse,
    PullImageRequest,
    PullImageResponse,
    RemoveContainerRequest,
    RemoveContainerResponse,
    RemovePodSandboxRequest,
    RemovePodSandboxResponse,
    ReopenContainerLogRequest,
    ReopenContainerLogResponse,
    RunPodSandboxRequest,
    RunPodSandboxResponse,
    RuntimeConfigRequest,
    RuntimeConfigResponse,
    StartContainerRequest,
    StartContainerResponse,
    StatusRequest,
    StatusResponse,
    StopContainerRequest,
    StopContainerResponse,
    StopPodSandboxRequest,
    StopPodSandboxResponse,
    UpdateContainerResourcesRequest,
    UpdateContainerResourcesResponse,
    VersionRequest,
    VersionResponse,
)
from dray.wire.limits import MIB, Limits
from dray.wire.service import Client, Service, Streaming, Unary

LIMITS = Limits(receive=16 * MIB, send=16 * MIB)
"""Both sides of CRI allow 16 MiB: lists of containers and images can be long."""


class Runtime(Protocol):
    """What a container runtime answers about containers."""

    async def version(self, request: VersionRequest) -> VersionResponse:
        """Who the runtime is and which CRI version it speaks."""
        ...

    async def status(self, request: StatusRequest) -> StatusResponse:
        """Whether the runtime and its network are ready."""
        ...

    async def runtime_config(self, request: RuntimeConfigRequest) -> RuntimeConfigResponse:
        """How it names cgroups. Runtimes older than 2023 do not have the call."""
        ...

    async def run_pod_sandbox(self, request: RunPodSandboxRequest) -> RunPodSandboxResponse:
        """Make and start a sandbox; when it returns the network is up."""
        ...

    async def stop_pod_sandbox(self, request: StopPodSandboxRequest) -> StopPodSandboxResponse:
        """Stop everything in it. Repeatable, also for one that is gone."""
        ...

    async def remove_pod_sandbox(self, request: RemovePodSandboxRequest) -> RemovePodSandboxResponse:
        """Remove it with its containers. Repeatable."""
        ...

    async def pod_sandbox_status(self, request: PodSandboxStatusRequest) -> PodSandboxStatusResponse:
        """One sandbox; NotFoundError where there is none."""
        ...

    async def list_pod_sandbox(self, request: ListPodSandboxRequest) -> ListPodSandboxResponse:
        """All sandboxes that match."""
        ...

    async def create_container(self, request: CreateContainerRequest) -> CreateContainerResponse:
        """Make a container in a sandbox; CDI devices are resolved here."""
        ...

    async def start_container(self, request: StartContainerRequest) -> StartContainerResponse:
        """Run it. Once per container: a restart is a new container."""
        ...

    async def stop_container(self, request: StopContainerRequest) -> StopContainerResponse:
        """Stop it, by force after the given seconds. Repeatable; takes as long as that."""
        ...

    async def remove_container(self, request: RemoveContainerRequest) -> RemoveContainerResponse:
        """Remove it, by force if it runs. Repeatable."""
        ...

    async def list_containers(self, request: ListContainersRequest) -> ListContainersResponse:
        """All containers that match."""
        ...

    async def container_status(self, request: ContainerStatusRequest) -> ContainerStatusResponse:
        """One container; NotFoundError where there is none."""
        ...

    async def update_container_resources(
        self, request: UpdateContainerResourcesRequest
    ) -> UpdateContainerResourcesResponse:
        """Change the limits of a running container."""
        ...

    async def reopen_container_log(self, request: ReopenContainerLogRequest) -> ReopenContainerLogResponse:
        """Go on in a new file: whoever calls has renamed the log of a running container."""
        ...

    async def exec_sync(self, request: ExecSyncRequest) -> ExecSyncResponse:
        """Run a command in it and return its whole output."""
        ...

    def get_container_events(self, request: GetEventsRequest) -> AsyncIterator[ContainerEventResponse]:
        """Every container start, stop and removal, as it happens; nothing about the past."""
        ...


class RuntimeClient(Client):
    """A kubelet's view of a runtime's containers."""

    version = Unary("/runtime.v1.RuntimeService/Version", VersionRequest, VersionResponse)
    status = Unary("/runtime.v1.RuntimeService/Status", StatusRequest, StatusResponse)
    runtime_config = Unary(
        "/runtime.v1.RuntimeService/RuntimeConfig", RuntimeConfigRequest, RuntimeConfigResponse
    )
    run_pod_sandbox = Unary(
        "/runtime.v1.RuntimeService/RunPodSandbox", RunPodSandboxRequest, RunPodSandboxResponse
    )
    stop_pod_sandbox = Unary(
        "/runtime.v1.RuntimeService/StopPodSandbox", StopPodSandboxRequest, StopPodSandboxResponse
    )
    remove_pod_sandbox = Unary(
        "/runtime.v1.RuntimeService/RemovePodSandbox", RemovePodSandboxRequest, RemovePodSandboxResponse
    )
    pod_sandbox_status = Unary(
        "/runtime.v1.RuntimeService/PodSandboxStatus", PodSandboxStatusRequest, PodSandboxStatusResponse
    )
    list_pod_sandbox = Unary(
        "/runtime.v1.RuntimeService/ListPodSandbox", ListPodSandboxRequest, ListPodSandboxResponse
    )
    create_container = Unary(
        "/runtime.v1.RuntimeService/CreateContainer", CreateContainerRequest, CreateContainerResponse
    )
    start_container = Unary(
        "/runtime.v1.RuntimeService/StartContainer", StartContainerRequest, StartContainerResponse
    )
    stop_container = Unary(
        "/runtime.v1.RuntimeService/StopContainer", StopContainerRequest, StopContainerResponse
    )
    remove_container = Unary(
        "/runtime.v1.RuntimeService/RemoveContainer", RemoveContainerRequest, RemoveContainerResponse
    )
    list_containers = Unary(
        "/runtime.v1.RuntimeService/ListContainers", ListContainersRequest, ListContainersResponse
    )
    container_status = Unary(
        "/runtime.v1.RuntimeService/ContainerStatus", ContainerStatusRequest, ContainerStatusResponse
    )
    update_container_resources = Unary(
        "/runtime.v1.RuntimeService/UpdateContainerResources",
        UpdateContainerResourcesRequest,
        UpdateContainerResourcesResponse,
    )
    reopen_container_log = Unary(
        "/runtime.v1.RuntimeService/ReopenContainerLog", ReopenContainerLogRequest, ReopenContainerLogResponse
    )
    exec_sync = Unary("/runtime.v1.RuntimeService/ExecSync", ExecSyncRequest, ExecSyncResponse)
    get_container_events = Streaming(
        "/runtime.v1.RuntimeService/GetContainerEvents", GetEventsRequest, ContainerEventResponse
    )


class Images(Protocol):
    """What a container runtime answers about images."""

    async def list_images(self, request: ListImagesRequest) -> ListImagesResponse:
        """All images on the node that match."""
        ...

    async def image_status(self, request: ImageStatusRequest) -> ImageStatusResponse:
        """One image; the answer is empty where it is not here."""
        ...

    async def pull_image(self, request: PullImageRequest) -> PullImageResponse:
        """Fetch an image. May take minutes: give a timeout."""
        ...


class ImagesClient(Client):
    """A kubelet's view of a runtime's images."""

    list_images = Unary("/runtime.v1.ImageService/ListImages", ListImagesRequest, ListImagesResponse)
    image_status = Unary("/runtime.v1.ImageService/ImageStatus", ImageStatusRequest, ImageStatusResponse)
    pull_image = Unary("/runtime.v1.ImageService/PullImage", PullImageRequest, PullImageResponse)


class RuntimeService(Service[Runtime]):
    """Makes a runtime servable."""

    tables = (RuntimeClient,)


class ImagesService(Service[Images]):
    """Makes a runtime's images servable."""

    tables = (ImagesClient,)
