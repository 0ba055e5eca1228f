"""The other end of the watch benchmark, a process of its own: answers every watch with N events, as fast as it is read."""

from __future__ import annotations

import asyncio
import json
import sys

from aiohttp import web

_BATCH = 200


def event(number: int) -> bytes:
    """One MODIFIED event of a claim like those a scheduler sees."""
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": f"claim-{number % 500}",
            "namespace": "default",
            "uid": f"8c2f0d3e-0b7c-4d5e-9f5a-{number % 500:012x}",
            "resourceVersion": str(1000 + number),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 1}}]
            }
        },
        "status": {
            "allocation": {
                "devices": {
                    "results": [
                        {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-3"}
                    ]
                }
            },
            "reservedFor": [
                {"resource": "pods", "name": f"pod-{number}", "uid": "0b7c4d5e-9f5a-4d5e-9f5a-1a2b3c4d5e6f"}
            ],
        },
    }
    return json.dumps({"type": "MODIFIED", "object": claim}).encode() + b"\n"


async def main(count: int) -> None:
    """Serve on a free port of the loopback, print the address, go on until terminated."""
    chunks = [
        b"".join(event(number) for number in range(start, start + _BATCH))
        for start in range(0, count, _BATCH)
    ]

    async def watch(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        for chunk in chunks:
            await answer.write(chunk)
        return answer

    app = web.Application()
    app.add_routes([web.get("/apis/resource.k8s.io/v1/resourceclaims", watch)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    sys.stdout.write(f"http://127.0.0.1:{port}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
