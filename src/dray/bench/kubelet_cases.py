"""What `dray bench kubelet` asks of a kubelet: a resource with many devices, and pods that want some of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dray.kubelet.topology.hints import Hint, ResourceHints
from dray.kubelet.topology.policies import BEST_EFFORT, NONE, SINGLE_NUMA_NODE

RESOURCE = "example.com/tape"
RESOURCES = 5
"""That have to agree in a merge."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large everything is; the defaults are those of the documented figures."""

    devices: int = 10_000
    pods: int = 1_000
    few: int = 100
    most_nodes: int = 8
    peer_nodes: int = 5
    """Up to here the topology manager in Go merges within a minute."""
    peer_pods: int = 20
    """With devices on 8 NUMA nodes, where each takes it a second."""
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class Load:
    """Pods that are admitted one after another; read by both sides. `nodes` 0: the devices name no NUMA node."""

    name: str
    devices: int
    pods: int
    each: int = 1
    nodes: int = 0
    policy: str = NONE
    has_wishes: bool = False
    """Whether the plugin is asked which devices it would rather give."""
    peer_pods: int | None = None
    """How many the peer gets, where it is not all of them."""

    @property
    def of_peer(self) -> Load:
        """The same for the peer."""
        return self if self.peer_pods is None else replace(self, pods=min(self.pods, self.peer_pods))

    def document(self, directory: Path) -> dict[str, Any]:
        """For the process that admits, and for the plugin; `directory` is where they meet."""
        return asdict(self) | {
            "directory": str(directory),
            "resource": RESOURCE,
            "nodes": list(range(max(1, self.nodes))),
            "deviceNodes": self.nodes,
            "hasWishes": self.has_wishes,
            "scope": "container",
        }


def loads(sizes: Sizes) -> Iterator[Load]:
    """From a small node to one that has devices on many sockets."""
    few, many = sizes.few, sizes.devices
    yield Load(f"{few} pods, {few} devices", few, few)
    size = (many, sizes.pods)
    name = f"{sizes.pods} pods, {many} devices"
    yield Load(name, *size)
    yield Load(f"{name}, 8 each", *size, each=8)
    yield Load(f"{name}, 8 each, preferred by the plugin", *size, each=8, has_wishes=True)
    yield Load(f"{name} on 2 NUMA nodes, policy none", *size, nodes=2)
    aligned = f"{name} on %d NUMA nodes, single-numa-node"
    yield Load(aligned % 2, *size, nodes=2, policy=SINGLE_NUMA_NODE)
    yield Load(
        f"{aligned % 2}, 8 each, preferred by the plugin",
        *size,
        each=8,
        nodes=2,
        policy=SINGLE_NUMA_NODE,
        has_wishes=True,
    )
    yield Load(aligned % 8, *size, nodes=8, policy=SINGLE_NUMA_NODE, peer_pods=sizes.peer_pods)


@dataclass(frozen=True, slots=True)
class MergeCase:
    """Hints of some resources that all have devices on all nodes: every set of nodes is possible for each of them.

    With `is_agreed` one node does for all; otherwise no set is preferred, and all that sets have in common counts.
    """

    nodes: int
    is_agreed: bool = False

    @property
    def name(self) -> str:
        """For people."""
        outcome = "one node does" if self.is_agreed else "nothing preferred"
        return f"merge, {self.nodes} NUMA nodes x {RESOURCES} resources, {outcome}"

    def hints(self) -> ResourceHints:
        """The same for every resource."""
        masks = range(1, 1 << self.nodes)
        found = [Hint(mask, self.is_agreed and mask.bit_count() == 1) for mask in masks]
        return {f"example.com/{number}": found for number in range(RESOURCES)}

    def document(self) -> dict[str, Any]:
        """For the peer, which knows it from its merge cases."""
        hints: dict[str, Sequence[object]] = {
            name: [list(hint) for hint in found or ()] for name, found in self.hints().items()
        }
        return {
            "name": self.name,
            "nodes": list(range(self.nodes)),
            "policy": BEST_EFFORT,
            "scope": "container",
            "pod": {"uid": "pod", "containers": [{"name": "main"}]},
            "providers": [{"containers": {"main": hints}}],
        }


def merges(sizes: Sizes) -> Iterator[MergeCase]:
    """One for each number of nodes, and the easy one of the largest machine."""
    for nodes in range(1, sizes.most_nodes + 1):
        yield MergeCase(nodes)
    yield MergeCase(sizes.most_nodes, is_agreed=True)
