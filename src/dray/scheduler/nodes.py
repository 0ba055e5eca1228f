"""The nodes with their pods, kept up to date change by change: nothing is built anew for a pod that is tried.

Decisions are made without a pause between them, so they read these live objects; nobody copies 5,000 nodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dray.allocation.cluster.workloads import has_ended
from dray.api.core import Node, Pod
from dray.errors import InvalidError, InvariantError
from dray.scheduler.fit.existing_terms import ExistingTerms
from dray.scheduler.fit.ports import HostPort, UsedPorts, host_ports
from dray.scheduler.fit.terms import PodTerm, anti_affinity_terms
from dray.scheduler.kinds import Kinds
from dray.scheduler.requests import NOTHING, PODS, Amounts, ScoredUse, amounts, resizing, scored_use, taken


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod on a node, with what it takes there: worked out once, so that it is given back exactly."""

    pod: Pod
    takes: Amounts
    scored: ScoredUse
    ports: tuple[HostPort, ...]
    far: tuple[PodTerm, ...] = ()

    @staticmethod
    def of(pod: Pod) -> PlacedPod:
        """Reads the pod's status: a running one may be changing its size. Its wish to be alone counts while it is there."""
        try:
            far = anti_affinity_terms(pod)
        except InvalidError:
            far = ()
        return PlacedPod(pod, taken(pod), scored_use(pod), host_ports(pod), far)


@dataclass(slots=True, eq=False)
class NodeInfo:
    """One node and what is left of it. Only `Nodes` changes it.

    `generation` grows with each change, over all nodes: who remembers a result about a node compares it.
    """

    node: Node
    allocatable: Amounts
    pods: dict[str, PlacedPod] = field(default_factory=dict)
    requested: dict[str, int] = field(default_factory=dict)
    scored: ScoredUse = NOTHING
    ports: UsedPorts = field(default_factory=UsedPorts)
    generation: int = 0

    @staticmethod
    def of(node: Node) -> NodeInfo:
        """A node without pods."""
        return NodeInfo(node, amounts(node.status.allocatable))

    @property
    def name(self) -> str:
        """Of the node."""
        return self.node.metadata.name

    @property
    def allowed_pods(self) -> int:
        """How many pods the node takes in all."""
        return self.allocatable.get(PODS, 0)

    def free(self, resource: str) -> int:
        """What is left; less than nothing where pods got there past the scheduler or the node shrank."""
        return self.allocatable.get(resource, 0) - self.requested.get(resource, 0)

    def put(self, placed: PlacedPod) -> None:
        """Count a pod that is not counted yet."""
        self.pods[placed.pod.metadata.uid] = placed
        self._count(placed, 1)
        for port in placed.ports:
            self.ports.add(port)

    def take(self, uid: str) -> None:
        """No longer count a pod."""
        placed = self.pods.pop(uid)
        self._count(placed, -1)
        for port in placed.ports:
            self.ports.remove(port)

    def _count(self, placed: PlacedPod, sign: int) -> None:
        for name, amount in placed.takes.items():
            self.requested[name] = self.requested.get(name, 0) + sign * amount
        cpu, memory = placed.scored
        self.scored = ScoredUse(self.scored.cpu + sign * cpu, self.scored.memory + sign * memory)


class Nodes:
    """All nodes and the pods on them. Changes may come in any order, twice, and pods before their node.

    A pod that is about to be bound is put in with its node's name set; when its binding is seen, or when it turns out
    to be on another node, the same call sets that right.
    """

    def __init__(self) -> None:
        self._infos: dict[str, NodeInfo] = {}
        self._without: dict[str, NodeInfo] = {}
        self._where: dict[str, str] = {}
        self._kinds: Kinds | None = None
        self.existing_terms = ExistingTerms(self._labels_of)
        """Which of the pods that are there want to be far from others."""
        self._order: tuple[NodeInfo, ...] | None = None
        self._generation = 0

    def __len__(self) -> int:
        return len(self._infos)

    def __iter__(self) -> Iterator[NodeInfo]:
        return iter(self.order)

    @property
    def generation(self) -> int:
        """Grows with every change."""
        return self._generation

    @property
    def order(self) -> Sequence[NodeInfo]:
        """All nodes, zones taking turns, so that a search that stops early has seen every zone.

        Made anew only after nodes came, went or moved to another zone.
        """
        if self._order is None:
            self._order = tuple(_by_turns(self._infos))
        return self._order

    def get(self, name: str) -> NodeInfo | None:
        """The node of this name, if it is there."""
        return self._infos.get(name)

    def pod(self, uid: str) -> Pod | None:
        """A pod that is counted on some node, as it was last seen."""
        placed = self._placed(uid)
        return None if placed is None else placed.pod

    def _placed(self, uid: str) -> PlacedPod | None:
        name = self._where.get(uid)
        return None if name is None else self._home(name).pods[uid]

    @property
    def kinds(self) -> Kinds:
        """All pods that are placed, by kind. Kept from the first time that somebody asks: many clusters have no such pods."""
        if self._kinds is None:
            self._kinds = Kinds(
                (placed.pod, name)
                for infos in (self._infos, self._without)
                for name, info in infos.items()
                for placed in info.pods.values()
            )
        return self._kinds

    def _labels_of(self, name: str) -> Mapping[str, str]:
        info = self._infos.get(name)
        return {} if info is None else info.node.metadata.labels

    def put_node(self, node: Node) -> None:
        """A node came or changed. A change that matters to no pod, such as a heartbeat, is not taken up."""
        name = node.metadata.name
        info = self._infos.get(name)
        if info is not None and _is_same(info.node, node):
            return
        if info is None:
            info = self._without.pop(name) if name in self._without else NodeInfo.of(node)
            self._infos[name] = info
            self._order = None
        elif _zone(info.node) != _zone(node):
            self._order = None
        info.node, info.allocatable = node, amounts(node.status.allocatable)
        self.existing_terms.relabelled()
        self._touch(info)

    def remove_node(self, name: str) -> None:
        """A node went. Its pods stay counted, should it come back, until they go themselves."""
        info = self._infos.pop(name, None)
        if info is None:
            return
        self._order = None
        self.existing_terms.relabelled()
        self._touch(info)
        if info.pods:
            self._without[name] = info

    def put_pod(self, pod: Pod) -> None:
        """A pod came, changed, or is about to be bound. One that is on no node or has ended is not counted (any more)."""
        uid, name = pod.metadata.uid, pod.spec.node_name
        if not uid:
            raise InvariantError(f"pod {pod.metadata.namespace}/{pod.metadata.name} has no uid")
        known = self._placed(uid)
        if known is not None and _takes_the_same(known.pod, pod):
            self._home(name).pods[uid] = replace(known, pod=pod)
            return
        self.remove_pod(uid)
        if name and not has_ended(pod):
            self.place(PlacedPod.of(pod))

    def place(self, placed: PlacedPod) -> None:
        """As `put_pod`, for a pod that is not counted yet and has its node's name set."""
        uid, name = placed.pod.metadata.uid, placed.pod.spec.node_name
        home = self._home(name)
        home.put(placed)
        self._where[uid] = name
        if placed.far:
            self.existing_terms.put(placed.pod, name, placed.far)
        if self._kinds is not None:
            self._kinds.put(placed.pod, name)
        self._touch(home)

    def remove_pod(self, uid: str) -> None:
        """A pod went, or its binding failed. A no-op for one that is not counted."""
        name = self._where.pop(uid, None)
        if name is None:
            return
        home = self._home(name)
        placed = home.pods[uid]
        if placed.far:
            self.existing_terms.remove(placed.pod)
        if self._kinds is not None:
            self._kinds.remove(placed.pod, name)
        home.take(uid)
        self._touch(home)
        if not home.pods:
            self._without.pop(name, None)

    def _home(self, name: str) -> NodeInfo:
        """The node, or a stand-in for one that was not seen yet or is gone."""
        info = self._infos.get(name) or self._without.get(name)
        if info is None:
            info = self._without[name] = NodeInfo.of(Node())
        return info

    def _touch(self, info: NodeInfo) -> None:
        self._generation += 1
        info.generation = self._generation


def _is_same(old: Node, new: Node) -> bool:
    """Whether nothing is different that a check, a score or a device selector reads."""
    before, after = old.metadata, new.metadata
    return (
        (before.uid, before.labels) == (after.uid, after.labels)
        and old.spec == new.spec
        and old.status.allocatable == new.status.allocatable
        and old.status.declared_features == new.status.declared_features
    )


def _takes_the_same(old: Pod, new: Pod) -> bool:
    """Whether a pod that is counted need not be counted anew; its labels may matter to others, so they must be the same."""
    if old.spec is not new.spec and old.spec != new.spec:
        return False
    before, after = old.metadata, new.metadata
    return (
        not has_ended(new)
        and before.labels == after.labels
        and before.deletion_timestamp == after.deletion_timestamp
        and resizing(old) == resizing(new)
    )


def _zone(node: Node) -> tuple[str, str]:
    labels = node.metadata.labels
    return labels.get("topology.kubernetes.io/region", ""), labels.get("topology.kubernetes.io/zone", "")


def _by_turns(infos: dict[str, NodeInfo]) -> Iterator[NodeInfo]:
    zones: dict[tuple[str, str], deque[NodeInfo]] = {}
    for info in infos.values():
        zones.setdefault(_zone(info.node), deque()).append(info)
    waiting = deque(zones.values())
    while waiting:
        zone = waiting.popleft()
        yield zone.popleft()
        if zone:
            waiting.append(zone)
