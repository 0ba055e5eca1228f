"""Puts together the kubelet's server of container logs: addresses, certificates, whom it trusts."""

from __future__ import annotations

import base64
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from dray.api.core.node import KUBELET_AUTHORITY
from dray.client.client import Client
from dray.kubelet.node.keeper import NodeDoor
from dray.kubelet.runtimes.contract import Runtime
from dray.kubelet.views import PodsSeen
from dray.runtime.certificates import serving_certificate
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log

_log = get_log("kubelet")

LogAddress = tuple[str, int]
ANYWHERE: LogAddress = ("", 0)
"""On the node's own address, on a port that is free: the Node says which."""


@dataclass(frozen=True, slots=True)
class LogPlaces:
    """Where things are, and how the node is called. `address` None: nothing is served."""

    node: str
    host: str
    address: LogAddress | None
    state_dir: Path
    log_dir: Path


async def serve_container_logs(
    stack: AsyncExitStack, places: LogPlaces, client: Client, pods: PodsSeen, runtime: Runtime, clock: Clock
) -> NodeDoor:
    """Served until the stack is left. What the Node shall say of it, so that the API server finds it and knows it."""
    authority = client.access.ca
    if places.address is None or not client.access.server.startswith("https:") or authority is None:
        if places.address is not None:
            _log.warning("no logs are served: the kubeconfig names no authority to know the API server by")
        return NodeDoor()
    from dray.kubelet.server.callers import Callers
    from dray.kubelet.server.serve import LogSources, serve_logs

    host, port = places.address
    host = host or places.host
    names = tuple(sorted({places.node, places.host, host} - {"0.0.0.0", "::"}))
    serving = serving_certificate(places.state_dir / "pki", names, clock.now())
    sources = LogSources(pods.manager.known.by_uid.values, runtime, places.log_dir, clock)
    chosen = await stack.enter_async_context(
        serve_logs(
            sources, Callers(client, places.node), (host, port), serving, authority.read().decode("ascii")
        )
    )
    _log.info("logs", address=f"https://{host}:{chosen}/containerLogs")
    return NodeDoor(chosen, {KUBELET_AUTHORITY: base64.b64encode(serving.ca.read_bytes()).decode()})
