"""A process that serves one device plugin socket and does nothing: prints its import time (ms) and its memory (MiB).

python -m dray.bench.idle_server dray | grpc.aio
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

IMPORTS = {
    "dray": ("dray.wire.serve", "dray.wire.deviceplugin"),
    "grpc.aio": ("grpc.aio", "dray.wire.gen.deviceplugin_v1beta1_pb2"),
}


class Idle:
    """A device plugin nobody calls: any method is there, none is ever awaited."""

    def __getattr__(self, name: str) -> Any:
        return self.__class__


async def serve_dray(path: str) -> None:
    """Through our own adaptor."""
    from dray.wire.deviceplugin import DevicePluginService
    from dray.wire.serve import serve

    async with serve(path, [DevicePluginService(Idle())]):
        report()


async def serve_grpc_aio(path: str) -> None:
    """Through Google's C core."""
    import grpc.aio

    server = grpc.aio.server()
    server.add_insecure_port(f"unix://{path}")
    await server.start()
    report()
    await server.stop(None)


def report() -> None:
    """Print the two figures."""
    status = Path("/proc/self/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]
    sys.stdout.write(f"{IMPORTED * 1e3} {int(resident) / 1024}\n")


if __name__ == "__main__":
    started = time.perf_counter()
    for module in IMPORTS[sys.argv[1]]:
        importlib.import_module(module)
    IMPORTED = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        serving = serve_dray if sys.argv[1] == "dray" else serve_grpc_aio
        asyncio.run(serving(f"{folder}/plugin.sock"))
