"""The agent's side towards the API server, where there is one: its node, its configuration, its Events."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dray.agent import node_view
from dray.agent.config import cluster_config
from dray.agent.config.cluster_config import ClusterConfig
from dray.agent.config.config_file import ConfigFile
from dray.agent.config.config_place import ConfigMapPlace, KubeVirtPlace, Place
from dray.agent.config.config_source import ConfigSource, Labels
from dray.agent.config.last_known import LastKnown
from dray.agent.config.no_config import NoConfig
from dray.agent.events import COMPONENT, AgentEvents
from dray.agent.node_view import NodeView
from dray.api import names
from dray.client.access import ClusterAccess, in_cluster, is_in_cluster
from dray.client.client import Client
from dray.client.event_recorder import EventRecorder
from dray.client.kubeconfig import find_access
from dray.errors import InvalidError
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log

_log = get_log("agent")
_FLUSH_SECONDS: Final = 2.0
_SHORTER: Final = 0.2
"""Seconds to wait for a server that has not answered about the node either."""


@dataclass(frozen=True, slots=True)
class ClusterSide:
    """What the command line says about it. `access` None: there is no API server for us."""

    config: Place | None
    node_name: str
    state_dir: Path
    access: ClusterAccess | None = None
    additions: Path | ConfigMapPlace | None = None
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_labels_file: Path | None = None


@dataclass(frozen=True, slots=True)
class AgentCluster:
    """`client` and `node` are None without an API server: then there is no DRA."""

    config: ConfigSource
    events: AgentEvents
    client: Client | None = None
    node: NodeView | None = None


def find_server(kubeconfig: Path | None) -> ClusterAccess | None:
    """A kubeconfig that is given, else the service account of the pod that we are in, else nothing. `none`: nothing."""
    if kubeconfig is not None:
        return None if str(kubeconfig) == "none" else find_access(kubeconfig)
    return in_cluster() if is_in_cluster() else None


def parse_node_name(text: str) -> str:
    """The name that is given, else the host's, as a kubelet takes it; empty where the host has none that a Node may have."""
    name = text or socket.gethostname().strip().lower()
    if faults := names.dns_subdomain(name):
        if not text:
            return ""
        raise InvalidError(f"--node-name: {name!r}: {faults[0]}", field="--node-name")
    return name


@asynccontextmanager
async def agent_cluster(side: ClusterSide, clock: Clock) -> AsyncIterator[AgentCluster]:
    """Entered: there is a configuration to `load`. Left: what was told in the last moment is written, for 2 s at most."""
    if side.additions is not None and not isinstance(side.config, KubeVirtPlace):
        raise InvalidError(
            "--additions: is for --config kubevirt:…; anywhere else `dray:` is part of the configuration",
            field="--additions",
        )
    if side.access is None:
        if side.config is not None and not isinstance(side.config, Path):
            raise InvalidError(
                f"--config: {side.config} is at an API server; give --kubeconfig", field="--config"
            )
        _log.info("no API server: device plugins are served, DRA is off")
        plain = side.config
        yield AgentCluster(
            NoConfig() if plain is None else ConfigFile(plain, side.node_labels, side.node_labels_file),
            AgentEvents(),
        )
        return
    if not side.node_name:
        host = socket.gethostname()
        raise InvalidError(
            f"--node-name: give it: no Node is called {host!r} as this host is", field="--node-name"
        )
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(side.access, clock=clock))
        kept = LastKnown(side.state_dir / "node-labels", node_view.LAYOUT)
        node = await stack.enter_async_context(NodeView(client, side.node_name, kept, clock))
        recorder = EventRecorder(client, COMPONENT, clock, host=side.node_name)
        await stack.enter_async_context(recorder.recording(_FLUSH_SECONDS))
        events = AgentEvents(recorder, node)
        config = _source(side, client, node, events, clock)
        if isinstance(config, ClusterConfig):
            await stack.enter_async_context(config)
        yield AgentCluster(config, events, client, node)


def _source(
    side: ClusterSide, client: Client, node: NodeView, events: AgentEvents, clock: Clock
) -> ConfigSource:
    place, refused = side.config, events.config_rejected
    if place is None:
        return NoConfig()
    if isinstance(place, Path):
        return ConfigFile(place, side.node_labels, side.node_labels_file, node=node, on_refusal=refused)
    short, long = cluster_config.PATIENCE
    return ClusterConfig(
        client,
        place,
        Labels(side.node_labels, side.node_labels_file, node),
        kept=LastKnown(side.state_dir / "good-config", cluster_config.LAYOUT),
        clock=clock,
        additions=side.additions,
        on_refusal=refused,
        patience=(short if node.is_answered else _SHORTER, long),
    )
