"""The pods of a demonstration: a container that says what it sees and waits to be deleted, and the log of it."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from dray.api.core import Pod
from dray.api.kinds import PODS
from dray.client.client import Client
from dray.client.http import Request, Transport
from dray.drivers.sim.prepare import DIRECTORY, ENV_PREFIX
from dray.errors import UnavailableError

NAMESPACE: Final = "default"
CONTAINER: Final = "main"
_LAST: Final = "waiting to be deleted"
_SCRIPT: Final = f"""
trap 'exit 0' TERM
echo "I am process $$$$, and see $(ls -d /proc/[0-9]* | wc -l) processes"
env | grep '^{ENV_PREFIX}' | sort | sed 's/^/variable /'
for node in {DIRECTORY}/*; do test -c "$node" && echo "device node $node"; done
echo "{_LAST}"
while :; do sleep 0.05; done
"""
"""A kubelet makes one $ of two."""
_SECONDS: Final = 15.0
_MOST: Final = 65536

Json = dict[str, Any]


def pod(name: str, resources: Json, claims: list[Json] | None = None) -> Json:
    """It runs until it is deleted, and ends at once then."""
    container = {
        "name": CONTAINER,
        "image": "host",
        "command": ["/bin/sh", "-c", _SCRIPT],
        "resources": resources,
    }
    spec: Json = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 2,
        "containers": [container],
    }
    return {"metadata": {"name": name}, "spec": spec | ({"resourceClaims": claims} if claims else {})}


def is_running(one: Pod) -> bool:
    """Whether its container was started."""
    return any(status.state.running is not None for status in one.status.container_statuses)


async def read_output(client: Client, name: str) -> tuple[str, ...]:
    """What the container says up to its last word, asked for as `kubectl logs -f` does."""
    request = Request(
        "GET",
        PODS.path(NAMESPACE, name, "log"),
        (("container", CONTAINER), ("follow", "true")),
        accept="*/*",
    )
    try:
        async with asyncio.timeout(_SECONDS), Transport(client.access) as transport:
            return await _read(transport, request)
    except TimeoutError:
        raise UnavailableError(f"the container of pod {name} says nothing for {_SECONDS:.0f} s") from None


async def _read(transport: Transport, request: Request) -> tuple[str, ...]:
    text = b""
    async with transport.stream(request, idle_timeout=_SECONDS, timeout=_SECONDS) as body:
        while f"{_LAST}\n".encode() not in text and len(text) < _MOST:
            piece = await body.read()
            if not piece:
                break
            text += piece
    return tuple(text.decode(errors="replace").splitlines())
