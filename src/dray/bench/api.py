"""`dray bench api`: what the foundations cost."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from dray.api.codec import decode
from dray.api.quantity import Quantity
from dray.api.resource import ResourceSlice
from dray.bench.measure import Figure, fastest_process, output, seconds_per_call

WATCH_EVENTS = 20_000


def figures() -> Iterator[Figure]:
    """All figures, slow ones last."""
    yield from _decoding()
    yield from _quantities()
    yield from _starting()
    yield from _serving()
    yield from _watching()


def slice_document(devices: int = 128) -> dict[str, Any]:
    """A full ResourceSlice as a GPU driver would publish it."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "node-1-gpu.example.com-abcde", "uid": "8c2f0d3e-0b7c-4d5e-9f5a-1a2b3c4d5e6f"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node-1",
            "pool": {"name": "node-1", "generation": 3, "resourceSliceCount": 1},
            "devices": [_device(number) for number in range(devices)],
        },
    }


def _device(number: int) -> dict[str, Any]:
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-8c2f0d3e-0b7c-4d5e-9f5a-{number:012x}"},
            "productName": {"string": "NVIDIA H200"},
            "driverVersion": {"version": "580.159.4"},
            "index": {"int": number},
            "ecc": {"bool": True},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number % 8:02x}"},
        },
        "capacity": {
            "memory": {"value": "141Gi"},
            "multiprocessors": {"value": "132"},
            "encoders": {"value": "0"},
        },
    }


def _decoding() -> Iterator[Figure]:
    data = json.dumps(slice_document()).encode()
    ours = seconds_per_call(lambda: decode(data, ResourceSlice))
    theirs = seconds_per_call(lambda: json.loads(data))
    yield Figure(
        "decode a ResourceSlice of 128 devices, typed", "µs", ours * 1e6, "json.loads, untyped", theirs * 1e6
    )


def _quantities() -> Iterator[Figure]:
    texts = [f"{number}Mi" for number in range(1, 101)]
    ours = [Quantity(text) for text in texts]
    theirs = [Decimal(number) * 2**20 for number in range(1, 101)]

    def total(values: list[Any], zero: Any) -> Any:
        for value in values:
            zero += value
        return zero

    yield Figure(
        "add 100 quantities",
        "µs",
        seconds_per_call(lambda: total(ours, Quantity("0"))) * 1e6,
        "decimal",
        seconds_per_call(lambda: total(theirs, Decimal(0))) * 1e6,
    )
    limit, bound = ours[50], theirs[50]
    yield Figure(
        "compare 100 quantities",
        "µs",
        seconds_per_call(lambda: [value <= limit for value in ours]) * 1e6,
        "decimal",
        seconds_per_call(lambda: [value <= bound for value in theirs]) * 1e6,
    )
    yield Figure(
        "read 100 quantities seen before",
        "µs",
        seconds_per_call(lambda: [Quantity(text) for text in texts]) * 1e6,
        "decimal, suffix by hand",
        seconds_per_call(lambda: [Decimal(text[:-2]) * 2**20 for text in texts]) * 1e6,
    )


def _starting() -> Iterator[Figure]:
    bare = fastest_process("-c", "pass") * 1e3
    yield Figure(
        "start of `dray --help`, whole process",
        "ms",
        fastest_process("-m", "dray", "--help") * 1e3,
        "python -c pass",
        bare,
    )
    yield Figure(
        "start of `dray --version`, whole process",
        "ms",
        fastest_process("-m", "dray", "--version") * 1e3,
        "python -c pass",
        bare,
    )


def _serving() -> Iterator[Figure]:
    def least(server: str) -> tuple[float, float]:
        runs = [tuple(map(float, output("-m", "dray.bench.idle_server", server).split())) for _ in range(3)]
        return min(run[0] for run in runs), min(run[1] for run in runs)

    imported, resident = least("dray")
    peer, peer_imported, peer_resident = "", None, None
    if importlib.util.find_spec("grpc"):  # a peer, not a dependency
        peer = "grpc.aio"
        peer_imported, peer_resident = least(peer)
    yield Figure("import of what serves a device plugin", "ms", imported, peer, peer_imported)
    yield Figure("memory of an idle process that serves one socket", "MiB", resident, peer, peer_resident)


def _watching() -> Iterator[Figure]:
    command = [sys.executable, "-m", "dray.bench.watch_server", str(WATCH_EVENTS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        try:
            ours = max(asyncio.run(_watch_typed(url)) for _ in range(3))
            theirs = max(asyncio.run(_watch_plain(url)) for _ in range(3))
        finally:
            server.terminate()
    yield Figure(
        "watch ResourceClaims, typed",
        "events/s",
        ours,
        "aiohttp lines + json.loads",
        theirs,
        higher_is_better=True,
    )


async def _watch_typed(url: str) -> float:
    from dray.api.kinds import RESOURCE_CLAIMS
    from dray.client.access import ClusterAccess
    from dray.client.client import Client

    async with (
        Client(ClusterAccess(server=url)) as client,
        client.watch(RESOURCE_CLAIMS, resource_version="1") as watch,
    ):
        await anext(watch)
        started = time.perf_counter()
        count = 0
        async for _ in watch:
            count += 1
        return count / (time.perf_counter() - started)


async def _watch_plain(url: str) -> float:
    import aiohttp

    path = f"{url}/apis/resource.k8s.io/v1/resourceclaims?watch=true"
    async with aiohttp.ClientSession() as session, session.get(path) as answer:
        await answer.content.readline()
        started = time.perf_counter()
        count = 0
        async for line in answer.content:
            json.loads(line)
            count += 1
        return count / (time.perf_counter() - started)
