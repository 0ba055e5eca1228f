"""`python -m dray.bench.kubelet_plugin LOAD`: the device plugin that both kubelets are given, a process of its own.

LOAD is the JSON of `kubelet_cases.Load.document`. It registers as soon as there is a kubelet, and serves until terminated.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from dray.wire.connect import connect
from dray.wire.deviceplugin import (
    HEALTHY,
    KUBELET_SOCKET,
    VERSION,
    DevicePluginRegistrationClient,
    DevicePluginService,
)
from dray.wire.gen import deviceplugin_v1beta1_pb2 as pb
from dray.wire.serve import serve

SOCKET = "bench.sock"
_WAIT = 60.0


class BenchPlugin:
    """Lists once. Gives what it is asked for, with an environment variable and a device node for it."""

    def __init__(self, load: dict[str, Any]) -> None:
        self._options = pb.DevicePluginOptions(get_preferred_allocation_available=load["hasWishes"])
        self._list = pb.ListAndWatchResponse(
            devices=[_device(number, load["deviceNodes"]) for number in range(load["devices"])]
        )

    async def get_device_plugin_options(self, _: pb.Empty) -> pb.DevicePluginOptions:
        """See `DevicePlugin`, as the others."""
        return self._options

    async def list_and_watch(self, _: pb.Empty) -> AsyncIterator[pb.ListAndWatchResponse]:
        """Nothing ever changes."""
        yield self._list
        await asyncio.Event().wait()

    async def get_preferred_allocation(
        self, request: pb.PreferredAllocationRequest
    ) -> pb.PreferredAllocationResponse:
        """The first ones, whatever they are."""
        asked = request.container_requests[0]
        rest = asked.allocation_size - len(asked.must_include_deviceIDs)
        chosen = [*asked.must_include_deviceIDs, *asked.available_deviceIDs[:rest]]
        answer = pb.ContainerPreferredAllocationResponse(deviceIDs=chosen)
        return pb.PreferredAllocationResponse(container_responses=[answer])

    async def allocate(self, request: pb.AllocateRequest) -> pb.AllocateResponse:
        """As plugins do."""
        ids = ",".join(request.container_requests[0].devices_ids)
        node = pb.DeviceSpec(container_path="/dev/tape", host_path="/dev/null", permissions="rw")
        answer = pb.ContainerAllocateResponse(envs={"TAPES": ids}, devices=[node])
        return pb.AllocateResponse(container_responses=[answer])

    async def pre_start_container(self, _: pb.PreStartContainerRequest) -> pb.PreStartContainerResponse:
        """Never asked."""
        return pb.PreStartContainerResponse()


def _device(number: int, nodes: int) -> pb.Device:
    device = pb.Device(ID=f"device-{number:05}", health=HEALTHY)
    if nodes:
        device.topology.nodes.add(ID=number % nodes)
    return device


async def main(load: dict[str, Any]) -> None:
    """The kubelet removes all sockets when it starts, so it has to be there first."""
    directory = Path(load["directory"])
    plugin = DevicePluginService(BenchPlugin(load))
    request = pb.RegisterRequest(version=VERSION, endpoint=SOCKET, resource_name=load["resource"])
    async with (
        connect(directory / KUBELET_SOCKET, wait=_WAIT) as kubelet,
        serve(directory / SOCKET, [plugin]),
    ):
        await DevicePluginRegistrationClient(kubelet).register(request)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
