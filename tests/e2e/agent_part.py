"""`dray agent` beside the real kubelet as a user runs it: a file, a command, and what the node then says."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dray.api.quantity import Quantity
from dray.errors import UnavailableError
from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.part import Part, wait_until
from dray.wire.connect import connect
from dray.wire.deviceplugin import KUBELET_SOCKET
from dray.wire.gen.podresources_v1_pb2 import AllocatableResourcesRequest
from dray.wire.podresources import SOCKET, PodResourcesClient
from tests.waiting import PATIENCE

KVM, TUN, VHOST_NET = (f"devices.kubevirt.io/{name}" for name in ("kvm", "tun", "vhost-net"))
SHARES = 1000
TIMEOUT_S = 60.0
Config = Mapping[str, Any]


class Agent:
    """A running agent with its file. `name` is that of its log; everything it writes is below `directory`."""

    def __init__(
        self, cluster: Cluster, name: str, directory: Path, config: Config, flags: Iterable[str] = ()
    ) -> None:
        self.cluster = cluster
        self.config = directory / "agent.yaml"
        self.write(config)
        argv = [sys.executable, "-m", "dray", "agent", f"--config={self.config}", f"--state-dir={directory}"]
        options = ("--metrics-address=127.0.0.1:0", "--log-format=json", *flags)
        self.part = cluster.spawn(name, *argv, *options)

    def write(self, config: Config | str) -> None:
        """Replace the file as an editor does. JSON is YAML too."""
        text = config if isinstance(config, str) else json.dumps(config, indent=1)
        draft = self.config.with_suffix(".new")
        draft.write_text(text)
        draft.replace(self.config)

    def told(self, message: str, **fields: str) -> list[dict[str, Any]]:
        """The log lines with this message and these fields, those before a restart too."""
        found = [json.loads(line) for line in self.part.log.read_text().splitlines()]
        return [line for line in found if line["msg"] == message and fields.items() <= line.items()]

    def wait_told(self, message: str, times: int = 1, **fields: str) -> dict[str, Any]:
        """Until it was told that often; gives the last."""
        what = f"the agent to tell {message!r} {fields or ''} {times} times"
        wait_until(lambda: len(self.told(message, **fields)) >= times, what, TIMEOUT_S, (self.part,))
        return self.told(message, **fields)[-1]

    def registrations(self) -> Counter[str]:
        """How often each resource was registered, by every process of this agent."""
        return Counter(line["resource"] for line in self.told("registered"))

    def wait_serves(self, wanted: Mapping[str, int], why: str = "") -> None:
        """Until the kubelet has exactly so many healthy devices of each, and the node's status says so too."""
        what = f"{dict(wanted)} to be served {why}"
        wait_until(lambda: _has(self.cluster, wanted), what, TIMEOUT_S, (self.part,))
        wait_allocatable(self.cluster, wanted, self.part)


def _has(cluster: Cluster, wanted: Mapping[str, int]) -> bool:
    try:
        found = kubelet_has(cluster)
    except UnavailableError:
        return False
    return all(found[resource] == count for resource, count in wanted.items())


def kubelet_has(cluster: Cluster) -> Counter[str]:
    """The healthy devices of each resource as the kubelet itself counts them; the node's status may be of before."""

    async def ask() -> Counter[str]:
        async with connect(cluster.dirs.kubelet / SOCKET, timeout=PATIENCE) as channel:
            answer = await PodResourcesClient(channel).get_allocatable_resources(
                AllocatableResourcesRequest()
            )
        return Counter(entry.resource_name for entry in answer.devices for _ in entry.device_ids)

    return asyncio.run(ask())


def counts(cluster: Cluster, resource: str) -> tuple[int, int]:
    """Capacity and allocatable in the node's status."""
    status = cluster.request("GET", f"/api/v1/nodes/{cluster.node_name}")["status"]
    found = [Quantity(status[name].get(resource, "0")).value() for name in ("capacity", "allocatable")]
    return found[0], found[1]


def wait_allocatable(cluster: Cluster, wanted: Mapping[str, int], *parts: Part) -> None:
    """Until the node's status has exactly so many of each."""
    what = f"{dict(wanted)} to be allocatable"
    wait_until(
        lambda: all(counts(cluster, resource)[1] == count for resource, count in wanted.items()),
        what,
        TIMEOUT_S,
        parts,
    )


def plugin_sockets(cluster: Cluster) -> list[str]:
    """The sockets in the plugin directory but the kubelet's, hidden ones too."""
    entries = sorted((cluster.dirs.kubelet / "device-plugins").iterdir())
    return [
        path.name for path in entries if stat.S_ISSOCK(path.lstat().st_mode) and path.name != KUBELET_SOCKET
    ]


def make_node(path: Path, like: str) -> None:
    """A device node with the numbers of another."""
    os.mknod(path, stat.S_IFCHR | 0o600, os.stat(like).st_rdev)
