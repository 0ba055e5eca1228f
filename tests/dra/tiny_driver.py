"""A whole small driver as a process: our sockets, calls, health and status around a directory of CDI files.

python -m tests.dra.tiny_driver KUBELET_DIRECTORY CDI_DIRECTORY [INSTANCE]
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from dray.api.kinds import RESOURCE_SLICES
from dray.api.resource import ResourceClaim
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.dra.fetch import FetchedClaims
from dray.dra.health import HealthStreams
from dray.dra.lifetime import DraDriver
from dray.dra.parcels import ClaimRef, PreparedDevice
from dray.dra.register import DriverSockets
from dray.dra.serve import ClaimCalls
from dray.dra.status import ClaimStatus
from dray.drivers.contract import Device, Health
from dray.errors import Error
from dray.inventory.inventory import Inventory, InventoryFeed
from dray.runtime.clock import SystemClock
from dray.runtime.tasks import run_until_signalled
from tests.dra.tiny import DRIVER, Claims

NODE = os.environ.get("NODE_NAME", "node-1")
KIND = f"{DRIVER}/claim"
DEVICES = tuple(Device(f"tape{number}", "tape", "", Health.HEALTHY) for number in range(4))


class Files:
    """Prepares by writing a CDI file; what is prepared is what has one, whoever wrote it."""

    def __init__(self, directory: Path) -> None:
        """`TAPE_SECONDS`: each claim takes so long. `TAPE_STUCK` is one that never ends; it makes the file `TAPE_BEGUN`."""
        self._directory = directory
        self._seconds = float(os.environ.get("TAPE_SECONDS", "0"))
        self._stuck = os.environ.get("TAPE_STUCK", "")
        self._begun = Path(os.environ.get("TAPE_BEGUN", os.devnull))

    async def prepare(self, claim: ResourceClaim) -> tuple[PreparedDevice, ...]:
        if claim.metadata.name == self._stuck:
            self._begun.touch()
            await asyncio.Event().wait()
        await asyncio.sleep(self._seconds)
        uid = claim.metadata.uid
        edits = {"env": [f"TAPE={claim.metadata.name}"]}
        spec = {
            "cdiVersion": "0.6.0",
            "kind": KIND,
            "devices": [{"name": uid, "containerEdits": edits}],
        }
        (self._directory / f"{uid}.json").write_text(json.dumps(spec))
        assert claim.status.allocation is not None
        return tuple(
            PreparedDevice((one.request,), one.pool, one.device, (f"{KIND}={uid}",))
            for one in claim.status.allocation.devices.results
            if one.driver == DRIVER
        )

    async def unprepare(self, ref: ClaimRef) -> None:
        (self._directory / f"{ref.uid}.json").unlink(missing_ok=True)


async def publish(client: Client) -> None:
    """Looks often, and writes what is missing."""
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": device.id} for device in DEVICES]
    spec = {"driver": DRIVER, "nodeName": NODE, "pool": pool, "devices": devices}
    while True:
        with suppress(Error):
            await client.create(RESOURCE_SLICES, {"metadata": {"name": f"{NODE}-tape"}, "spec": spec})
        await asyncio.sleep(0.05)


def tapes(inventory: Inventory) -> Iterable[Device]:
    return inventory.devices


async def main() -> None:
    kubelet, cdi, instance = Path(sys.argv[1]), Path(sys.argv[2]), "".join(sys.argv[3:4])
    config, clock, feed = os.environ.get("KUBECONFIG"), SystemClock(), InventoryFeed()
    feed.publish(DEVICES)
    files = Files(cdi)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(find_access(Path(config)))) if config else None
        if client is None:
            calls = ClaimCalls(DRIVER, files, Claims(), clock)
        else:
            status = ClaimStatus(client, DRIVER, clock)
            await stack.enter_async_context(status.writing())
            calls = ClaimCalls(DRIVER, files, FetchedClaims(client, DRIVER), clock, reports=status)
        health = HealthStreams(feed, tapes, NODE, clock)
        await stack.enter_async_context(
            DraDriver(DriverSockets(DRIVER, kubelet, instance), calls, clock, health=health)
        )
        print("ready", flush=True)
        await (publish(client) if client is not None else asyncio.Event().wait())


if __name__ == "__main__":
    try:
        run_until_signalled(main)
    except Error as error:
        sys.exit(str(error))
