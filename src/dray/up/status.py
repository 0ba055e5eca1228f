"""How a `dray up` is: asked of its parts and its API server, by whoever may read its data directory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from dray.api.kinds import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.errors import Error
from dray.semantics.pools import current
from dray.up.parts import is_ready
from dray.up.place import RunningUp, Supervising, UpPlace, lock_holder

SECONDS: Final = 5.0
OK: Final = "ok"
_CHECKS: Final = {"kubelet": "/healthz"}
_READY: Final = "/readyz"


@dataclass(frozen=True, slots=True)
class Status:
    """`running` None: it does not run, or is not ready (`is_starting`). `parts`: `ok`, or what is wrong, by name.

    `counts` are those of the API server's objects, by kind and state; empty where it did not answer.
    """

    running: RunningUp | None
    supervisor: Supervising | None
    is_starting: bool = False
    parts: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def is_healthy(self) -> bool:
        """Whether it runs, and no part has a complaint."""
        return self.running is not None and all(told == OK for told in self.parts.values())


async def read_status(place: UpPlace) -> Status:
    """Takes 5 s where nobody answers."""
    running, supervisor = place.read(RunningUp), place.read(Supervising)
    if running is None:
        return Status(None, supervisor, is_starting=lock_holder(place.lock) is not None)
    (told, counts), parts = await asyncio.gather(_ask_server(running), _ask_parts(running))
    return Status(running, supervisor, parts={"API server": told, **parts}, counts=counts)


async def _ask_parts(running: RunningUp) -> dict[str, str]:
    names = sorted(running.metrics)
    asked = (ask_part(running.metrics[name], _CHECKS.get(name, _READY)) for name in names)
    return dict(zip(names, await asyncio.gather(*asked), strict=True))


async def ask_part(url: str, page: str) -> str:
    """What a part says of itself over its own HTTP, `ok` or what is wrong."""
    where = urlsplit(url)
    try:
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
            try:
                writer.write(
                    f"GET {page} HTTP/1.1\r\nHost: {where.netloc}\r\nConnection: close\r\n\r\n".encode()
                )
                head, _, body = (await reader.read(64 * 1024)).partition(b"\r\n\r\n")
            finally:
                writer.close()
    except TimeoutError:
        return f"does not answer within {SECONDS:g} s"
    except OSError as error:
        return f"cannot be asked: {error.strerror or error}"
    status, said = head.split(b" ")[1:2], body.decode(errors="replace").strip()
    return OK if status == [b"200"] else said.replace("\n", "; ") or "answers with an error"


async def _ask_server(running: RunningUp) -> tuple[str, Mapping[str, Mapping[str, int]]]:
    try:
        async with asyncio.timeout(SECONDS), Client(find_access(Path(running.kubeconfig))) as client:
            await client.check_ready()
            return OK, await _counts(client)
    except TimeoutError:
        return f"does not answer within {SECONDS:g} s", {}
    except Error as error:
        return str(error), {}


async def _counts(client: Client) -> Mapping[str, Mapping[str, int]]:
    nodes, pods, claims, slices = await asyncio.gather(
        client.list(NODES), client.list(PODS), client.list(RESOURCE_CLAIMS), client.list(RESOURCE_SLICES)
    )
    devices = {
        (one.spec.driver, one.spec.pool.name, device.name)
        for one in current(slices.items)
        for device in one.spec.devices or ()
    }
    held = {
        (one.driver, one.pool, one.device)
        for claim in claims.items
        if claim.status.allocation is not None
        for one in claim.status.allocation.devices.results
    }
    return {
        "nodes": Counter("Ready" if is_ready(node) else "NotReady" for node in nodes.items),
        "devices": {"published": len(devices), "allocated": len(held & devices)},
        "pods": Counter(pod.status.phase or "Pending" for pod in pods.items),
        "claims": Counter(
            "pending" if one.status.allocation is None else "allocated" for one in claims.items
        ),
    }
