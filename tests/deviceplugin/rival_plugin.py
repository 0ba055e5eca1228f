"""Another vendor's plugin, as a process: `rival_plugin.py DIRECTORY SOCKET RESOURCE ID…`. Prints a line when registered."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from dray.wire.connect import connect
from dray.wire.deviceplugin import (
    HEALTHY,
    KUBELET_SOCKET,
    VERSION,
    DevicePluginRegistrationClient,
    DevicePluginService,
)
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateResponse,
    Device,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
    RegisterRequest,
)
from dray.wire.serve import serve


class Rival:
    """Its list never changes."""

    def __init__(self, ids: list[str]) -> None:
        self._ids = ids

    async def get_device_plugin_options(self, request: Empty) -> DevicePluginOptions:
        return DevicePluginOptions()

    async def list_and_watch(self, request: Empty) -> AsyncIterator[ListAndWatchResponse]:
        yield ListAndWatchResponse(devices=[Device(ID=name, health=HEALTHY) for name in self._ids])
        await asyncio.Event().wait()

    async def get_preferred_allocation(
        self, request: PreferredAllocationRequest
    ) -> PreferredAllocationResponse:
        return PreferredAllocationResponse()

    async def allocate(self, request: AllocateRequest) -> AllocateResponse:
        return AllocateResponse(
            container_responses=[
                ContainerAllocateResponse(envs={"RIVAL": "1"}) for _ in request.container_requests
            ]
        )

    async def pre_start_container(self, request: PreStartContainerRequest) -> PreStartContainerResponse:
        return PreStartContainerResponse()


async def main(directory: Path, socket: str, resource: str, ids: list[str]) -> None:
    async with serve(directory / socket, [DevicePluginService(Rival(ids))]):
        async with connect(directory / KUBELET_SOCKET, wait=5) as channel:
            await DevicePluginRegistrationClient(channel).register(
                RegisterRequest(version=VERSION, endpoint=socket, resource_name=resource)
            )
        print("registered", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]))
