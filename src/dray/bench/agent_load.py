"""Allocate calls on one plugin, from a process of its own so that the caller's work is not the plugin's.

The peer's Go program calls where there is one, as a kubelet is Go too; else this module does, which costs more a call:
python -m dray.bench.agent_load SOCKET IDS CALLS CLIENTS
prints the seconds of the whole, then those of each call.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE

from dray.errors import ProtocolError
from dray.wire.connect import connect
from dray.wire.deviceplugin import DevicePluginClient
from dray.wire.gen.deviceplugin_v1beta1_pb2 import AllocateRequest, ContainerAllocateRequest

_IDS = 16
_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Load:
    """Seconds of each call, and of all."""

    calls: tuple[float, ...]
    whole: float


async def load(caller: Path | None, socket: Path, ids: Sequence[str], calls: int, clients: int) -> Load:
    """Call Allocate for a few of `ids` in turn, `clients` at once over one connection. `caller` is the Go program."""
    program = [str(caller), "load"] if caller else [sys.executable, "-m", "dray.bench.agent_load"]
    words = [str(socket), ",".join(ids[:_IDS]), str(calls), str(clients)]
    process = await asyncio.create_subprocess_exec(*program, *words, stdout=PIPE, stderr=PIPE)
    try:
        async with asyncio.timeout(_SECONDS):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ProtocolError(f"Allocate at {socket} failed: {err.decode().strip()}")
    whole, *each = map(float, out.split())
    return Load(tuple(each), whole)


async def _call(socket: str, ids: Sequence[str], calls: int, clients: int) -> Load:
    spent = [0.0] * calls
    numbers = iter(range(calls))
    async with connect(socket) as channel:
        client = DevicePluginClient(channel)

        async def work() -> None:
            for number in numbers:
                container = ContainerAllocateRequest(devices_ids=[ids[number % len(ids)]])
                began = time.perf_counter()
                await client.allocate(AllocateRequest(container_requests=[container]))
                spent[number] = time.perf_counter() - began

        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(work())
        return Load(tuple(spent), time.perf_counter() - started)


if __name__ == "__main__":
    done = asyncio.run(_call(sys.argv[1], sys.argv[2].split(","), int(sys.argv[3]), int(sys.argv[4])))
    sys.stdout.write("\n".join(map(repr, (done.whole, *done.calls))) + "\n")
