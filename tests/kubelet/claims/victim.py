"""A process to be killed: two pods that share a claim come and go. Arguments: directory, then `driver=socket`…"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.kubelet.claims.test_kills import CLAIMS, ONE, TWO
from tests.kubelet.claims.world import World


async def main(directory: str, *sockets: str) -> None:
    world = World(Path(directory), active={"one-uid", "two-uid"})
    world.api.add(*CLAIMS)
    async with world.running() as manager:
        for socket in sockets:
            name, _, path = socket.partition("=")
            await manager.drivers.register(name, path, ["v1.DRAPlugin"])
        for pod in (ONE, TWO):
            await manager.prepare(pod)
        for pod in (ONE, TWO):
            await manager.unprepare(pod)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
