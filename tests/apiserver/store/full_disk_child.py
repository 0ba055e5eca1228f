"""A whole API server on a disk that is full for a while. Started by test_full_disk.py, in a mount namespace of its own.

Arguments: a directory to mount a small tmpfs over. Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from dray.api.kinds import CONFIG_MAPS
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.requests import Selection
from dray.errors import Error
from dray.processes.apiserver import ApiServerOptions, api_server

SMALL, LARGE = "2m", "32m"


def mount(target: Path, *options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(target)], check=True)


async def create(client: Client, number: int) -> str:
    """Empty when it was acknowledged, or the error."""
    metadata = {"name": f"n{number:03}", "namespace": "default"}
    try:
        await client.create(CONFIG_MAPS, {"metadata": metadata, "data": {"text": "x" * 20_000}})
    except Error as error:
        return f"{type(error).__name__}: {error}"
    return ""


async def names(client: Client) -> list[str]:
    page = await client.list(CONFIG_MAPS, Selection(namespace="default"))
    return sorted(one.metadata.name for one in page.items)


async def main(directory: Path) -> dict[str, Any]:
    acknowledged: list[str] = []
    refusals: list[str] = []
    options = ApiServerOptions(directory / "data", Address())
    async with api_server(options) as found, Client(find_access(found.kubeconfig)) as client:
        for number in range(300):
            refused = await create(client, number)
            if not refused:
                acknowledged.append(f"n{number:03}")
            else:
                refusals.append(refused)
            if len(refusals) == 10:
                break
        while_full = await names(client)
        mount(directory, "remount", f"size={LARGE}")
        refused_after = await create(client, 999)
    async with api_server(options) as found, Client(find_access(found.kubeconfig)) as client:
        return {
            "acknowledged": acknowledged,
            "refusals": refusals,
            "while_full": while_full,
            "refused_after": refused_after,
            "after_restart": await names(client),
        }


if __name__ == "__main__":
    place = Path(sys.argv[1])
    mount(place, f"size={SMALL}")
    sys.stdout.write(json.dumps(asyncio.run(main(place))))
