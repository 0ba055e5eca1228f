"""Which of the free devices sit where the topology manager wants them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dray.kubelet.devices.known import Device
from dray.kubelet.topology.hints import Hint


@dataclass(frozen=True, slots=True)
class Split:
    """Free devices: on a wanted NUMA node, on others only, on none at all."""

    aligned: frozenset[str]
    unaligned: frozenset[str]
    unbound: frozenset[str]


def split_by_affinity(
    available: frozenset[str], devices: Mapping[str, Device], hint: Hint, *, has_nodes: bool
) -> Split:
    """`has_nodes`: whether any device of the resource, free or not, names a node; without that a hint means nothing."""
    if not has_nodes or hint.nodes is None:
        return Split(frozenset(), frozenset(), available)
    aligned: list[str] = []
    unaligned: list[str] = []
    for one in available:
        nodes = devices[one].nodes if one in devices else ()
        if is_on(nodes, hint.nodes):
            aligned.append(one)
        elif any(node != -1 for node in nodes):
            unaligned.append(one)
    sided = frozenset(aligned)
    others = frozenset(unaligned)
    return Split(sided, others, available - sided - others)


def is_on(nodes: Iterable[int], mask: int) -> bool:
    """Whether one of the nodes is in the mask. Plugins send what they like: negative ones are in none."""
    return any(node >= 0 and mask >> node & 1 for node in nodes)
