"""A fleet as a process of its own, to be killed: `fleet_program.py KUBECONFIG PROFILE` prints how many nodes are written."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.runtime.clock import SystemClock
from dray.up.fleet.hollow_fleet import HollowFleet
from dray.up.fleet.profile_file import load_profile


async def main(kubeconfig: str, profile: str) -> None:
    def tell(done: int, total: int) -> None:
        print(done, flush=True)

    async with (
        Client(find_access(Path(kubeconfig))) as client,
        HollowFleet(client, load_profile(profile), SystemClock(), tell).running(),
    ):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
