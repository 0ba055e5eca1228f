"""`python -m tests.sdk.beside_pod_resources KUBELET_DIR COMMAND…`: the command, on a node whose kubelet tells what pods have.

Where nobody serves that socket, a child does, for as long as the command runs.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import sys
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

_PARENT_DEATH = 1


class NoPods:
    async def list(self, request: ListPodResourcesRequest) -> ListPodResourcesResponse:
        return ListPodResourcesResponse()

    async def get_allocatable_resources(
        self, request: AllocatableResourcesRequest
    ) -> AllocatableResourcesResponse:
        return AllocatableResourcesResponse()

    async def get(self, request: GetPodResourcesRequest) -> GetPodResourcesResponse:
        raise NotFoundError("no pod")


def is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as peer:
        return peer.connect_ex(str(path)) == 0


async def _serve(path: Path) -> None:
    async with serve(path, [PodResourcesService(NoPods())]):
        await asyncio.Event().wait()


def main() -> None:
    path, command = Path(sys.argv[1]) / SOCKET, sys.argv[2:]
    if not is_served(path):
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)
            asyncio.run(_serve(path))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
