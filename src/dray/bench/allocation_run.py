"""Our side of a workload: pods placed one after the other, as the Go oracle's `bench` does it."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dray.allocation.allocator import Allocation, Options
from dray.allocation.cases import device_id
from dray.allocation.features import Features, Tier
from dray.allocation.index.index import Index
from dray.allocation.profiles import KUBERNETES_1_36
from dray.allocation.state import AllocatedState
from dray.api.codec.json_codec import to_raw, view
from dray.api.core.node import Node
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import ResourceClaimStatus
from dray.api.resource.device_class import DeviceClass
from dray.api.resource.slice import ResourceSlice
from dray.bench.allocation_workloads import TIER


class Workload(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The oracle's line, typed."""

    name: str
    features: tuple[str, ...]
    nodes: tuple[Node, ...]
    classes: tuple[DeviceClass, ...]
    slices: tuple[ResourceSlice, ...]
    pods: tuple[tuple[ResourceClaim, ...], ...]
    tried: int = 0
    allocated_devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """What became of a pod: the nodes that fit among those tried, the one it got, and its results."""

    feasible: tuple[str, ...]
    node: str
    allocation: Allocation | None

    @property
    def results(self) -> list[Any] | None:
        """As JSON."""
        return None if self.allocation is None else [to_raw(one) for one in self.allocation.results]


@dataclass(frozen=True, slots=True)
class Run:
    """All pods of a workload. `seconds` is by pod, wall time as the peer's is; `loading` what the index took before the first."""

    loading: float
    seconds: list[float] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)


def read(document: dict[str, Any]) -> Workload:
    """The typed workload."""
    return view(document, Workload)


def new_index(load: Workload) -> Index:
    """An index with everything of the workload in it, asked nothing yet."""
    before = AllocatedState(frozenset(map(device_id, load.allocated_devices)))
    options = Options(Features.named(load.features), KUBERNETES_1_36, Tier(TIER))
    return Index(options, classes=load.classes, slices=load.slices, before=before)


def without_input() -> None:
    """Keep the collector from walking over what was only read to be measured with."""
    gc.collect()
    gc.freeze()


def ask_warm(load: Workload) -> Run:
    """The pods, each on a node of its own, when the index was asked about all of them before. Nothing is placed."""
    index = new_index(load)
    for claims in load.pods:
        index.attempt(claims).feasible(load.nodes)
    run = Run(0.0)
    for node, claims in zip(load.nodes, load.pods, strict=True):
        started = time.perf_counter()
        allocation = index.attempt(claims).allocate(node)
        run.seconds.append(time.perf_counter() - started)
        run.placements.append(_placement((node,), allocation))
    return run


def place(load: Workload) -> Run:
    """The whole workload, beginning with an empty index."""
    started = time.perf_counter()
    index = new_index(load)
    index.prepare(load.nodes)
    run = Run(time.perf_counter() - started)
    tried = min(load.tried or len(load.nodes), len(load.nodes))
    first = 0
    around = load.nodes + load.nodes
    for claims in load.pods:
        nodes = around[first : first + tried]
        started = time.perf_counter()
        placement = _place(index, nodes, claims)
        run.seconds.append(time.perf_counter() - started)
        run.placements.append(placement)
        first = (first + tried) % len(load.nodes)
    return run


def _place(index: Index, nodes: Sequence[Node], claims: Sequence[ResourceClaim]) -> Placement:
    attempt = index.attempt(claims)
    feasible = attempt.feasible(nodes)
    allocation = attempt.allocate(feasible[0]) if feasible else None
    for claim, result in zip(claims, allocation.results if allocation else (), strict=allocation is not None):
        status = ResourceClaimStatus(allocation=result)
        index.set_claim(msgspec.structs.replace(claim, status=status))
    return _placement(feasible, allocation)


def _placement(feasible: Sequence[Node], allocation: Allocation | None) -> Placement:
    if allocation is None:
        return Placement((), "", None)
    names = tuple([node.metadata.name for node in feasible])
    return Placement(names, names[0], allocation)


def differences(ours: Run, theirs: dict[str, Any]) -> list[str]:
    """Where the placements of the pods that both had are not the same, in words; empty is good."""
    found = []
    shared = ours.placements[: len(theirs["pods"])]
    for number, (one, other) in enumerate(zip(shared, theirs["pods"], strict=True)):
        if one.feasible != tuple(other["feasible"]):
            found.append(f"pod {number}: other nodes fit")
        elif one.node != other["node"] or one.results != (other["results"] or None):
            found.append(f"pod {number}: another allocation")
    return found
