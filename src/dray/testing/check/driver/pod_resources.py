"""A kubelet's pod-resources socket, as a driver finds it on a node without pods: one may ask it who has what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dray.errors import NotFoundError
from dray.wire.gen.podresources_v1_pb2 import (
    AllocatableResourcesRequest,
    AllocatableResourcesResponse,
    GetPodResourcesRequest,
    GetPodResourcesResponse,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
)
from dray.wire.podresources import SOCKET, PodResourcesService
from dray.wire.serve import serve


class NoPods:
    """Nobody has anything."""

    async def list(self, request: ListPodResourcesRequest) -> ListPodResourcesResponse:
        """Empty."""
        return ListPodResourcesResponse()

    async def get_allocatable_resources(
        self, request: AllocatableResourcesRequest
    ) -> AllocatableResourcesResponse:
        """Empty."""
        return AllocatableResourcesResponse()

    async def get(self, request: GetPodResourcesRequest) -> GetPodResourcesResponse:
        """There is none."""
        raise NotFoundError(
            f"no pod {request.pod_namespace}/{request.pod_name}", kind="pod", name=request.pod_name
        )


@asynccontextmanager
async def pod_resources(kubelet_dir: Path) -> AsyncIterator[None]:
    """Served while entered."""
    async with serve(kubelet_dir / SOCKET, [PodResourcesService(NoPods())], directory_mode=0o750):
        yield
