"""Figures by hand: `python -m tests.wire.measure [PEER]`. PEER is the Go program of `tests/wire/peer`, if built.

The server runs in a process of its own and streams 100 devices a message, as fast as it is read.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

SECONDS = 3.0


def rss_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


async def serve_until_told(path: str) -> None:
    bare, began = rss_mb(), time.perf_counter()
    from dray.wire.deviceplugin import DevicePluginService
    from dray.wire.gen.deviceplugin_v1beta1_pb2 import Empty, ListAndWatchResponse
    from dray.wire.serve import serve
    from tests.wire.samples import Plugin, devices

    imported = time.perf_counter() - began

    class Endless(Plugin):
        async def list_and_watch(self, request: Empty) -> AsyncIterator[ListAndWatchResponse]:
            while True:
                yield update

    update = devices(100, size=20)
    async with serve(path, [DevicePluginService(Endless())]):
        print(
            f"imports {imported * 1000:.0f} ms; RSS bare {bare:.1f} MB, serving one socket {rss_mb():.1f} MB",
            flush=True,
        )
        await asyncio.to_thread(sys.stdin.read)
        print(f"RSS after the load {rss_mb():.1f} MB", flush=True)


async def unary(path: str, callers: int) -> str:
    from dray.wire.connect import connect
    from dray.wire.deviceplugin import DevicePluginClient
    from tests.wire.samples import request_for

    took: list[float] = []
    request = request_for("device-0", "device-1")
    async with connect(path) as channel:
        client = DevicePluginClient(channel)
        end = time.perf_counter() + SECONDS

        async def one() -> None:
            while (began := time.perf_counter()) < end:
                await client.allocate(request)
                took.append(time.perf_counter() - began)

        async with asyncio.TaskGroup() as group:
            for _ in range(callers):
                group.create_task(one())
    took.sort()
    p50, p99 = took[len(took) // 2], took[len(took) * 99 // 100]
    return f"{len(took) / SECONDS:.0f}/s, p50 {p50 * 1e6:.0f} µs, p99 {p99 * 1e6:.0f} µs"


async def stream(path: str) -> str:
    from dray.wire.connect import connect
    from dray.wire.deviceplugin import DevicePluginClient
    from dray.wire.gen.deviceplugin_v1beta1_pb2 import Empty

    count = 0
    async with connect(path) as channel, DevicePluginClient(channel).list_and_watch(Empty()) as answers:
        end = time.perf_counter() + SECONDS
        async for _ in answers:
            count += 1
            if time.perf_counter() > end:
                break
    return f"{count / SECONDS:.0f} messages/s of 100 devices"


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve_until_told(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/s"
        command = [sys.executable, "-m", "tests.wire.measure", "serve", path]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            print("server:", server.stdout.readline().strip())
            for callers in (1, 16):
                print(f"our client, unary c={callers}:", asyncio.run(unary(path, callers)))
            print("our client, stream:", asyncio.run(stream(path)))
            if len(sys.argv) > 1:
                subprocess.run([sys.argv[1], "bench", path], check=True)
            print("server:", server.communicate("")[0].strip())


if __name__ == "__main__":
    main()
