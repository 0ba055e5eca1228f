"""Which of the free devices sit where the topology manager wants them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dray.kubelet.devices.known import DeviceList
from dray.kubelet.topology.hints import Hint


@dataclass(frozen=True, slots=True)
class Split:
    """Free devices: on a wanted NUMA node, on others only, on none at all."""

    aligned: frozenset[str]
    unaligned: frozenset[str]
    unbound: frozenset[str]


def split_by_affinity(available: frozenset[str], devices: DeviceList, hint: Hint) -> Split:
    """`devices` are all of the resource, free or not; where none of them names a node, a hint means nothing."""
    if not devices.has_nodes or hint.nodes is None:
        return Split(frozenset(), frozenset(), available)
    aligned: list[frozenset[str]] = []
    unaligned: list[frozenset[str]] = []
    for place, ids in devices.places.items():
        if is_on(place.nodes, hint.nodes):
            aligned.append(available & ids)
        elif any(node != -1 for node in place.nodes):
            unaligned.append(available & ids)
    is_all = sum(map(len, (*aligned, *unaligned))) == len(available)  # no device is in two places
    unbound = frozenset() if is_all else available.difference(*aligned, *unaligned)
    return Split(_union(aligned), _union(unaligned), unbound)


def _union(parts: Sequence[frozenset[str]]) -> frozenset[str]:
    return parts[0] if len(parts) == 1 else frozenset().union(*parts)


def is_on(nodes: Iterable[int], mask: int) -> bool:
    """Whether one of the nodes is in the mask. Plugins send what they like: negative ones are in none."""
    return any(node >= 0 and mask >> node & 1 for node in nodes)
