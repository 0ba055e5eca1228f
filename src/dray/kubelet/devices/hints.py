"""Which sets of NUMA nodes could serve a request. Pure; devices are counted by node first, then by set of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from dray.kubelet.devices.known import DeviceList
from dray.kubelet.topology.hints import Hint, ids_of, mask_of

Counts = Sequence[tuple[int, int]]
"""How many devices sit on exactly the nodes of each mask."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of one resource, for a container or for a whole pod; `existing` is what it holds already."""

    request: int
    existing: frozenset[str]
    free: frozenset[str]
    reusable: frozenset[str] = frozenset()


def resource_hints(ask: Ask, devices: DeviceList, machine: Sequence[int]) -> list[Hint] | None:
    """None where no device names a node. Empty where the request cannot be met, or differs from what is held already."""
    if not devices.has_nodes:
        return None
    if ask.existing:
        if len(ask.existing) != ask.request:
            return []
        return generate(ask.request, devices, machine, ask.existing, frozenset())
    if len(ask.free) + len(ask.reusable - ask.free) < ask.request:
        return []
    return generate(ask.request, devices, machine, ask.free, ask.reusable)


def generate(
    request: int,
    devices: DeviceList,
    machine: Sequence[int],
    available: frozenset[str],
    reusable: frozenset[str],
) -> list[Hint]:
    """All sets of nodes with enough devices, by size and then by node. Preferred: no smaller set could ever do.

    Only nodes that have devices of the resource are looked at, so a machine with many others costs nothing. A device
    without a node never counts, and nodes that the machine does not have are left out.
    """
    known = mask_of(node for node in machine if node >= 0)
    places = [(_mask(place.nodes, known), place, ids) for place, ids in devices.places.items()]
    everywhere = [(mask, len(ids)) for mask, _, ids in places if mask]
    free = [(mask, len(ids & available)) for mask, _, ids in places if mask]
    fixed = [mask for mask, place, ids in places if place.has_topology for _ in ids & reusable]
    bits = [1 << node for node in ids_of(_union(everywhere) or known)]
    smallest = len(bits)
    found: list[int] = []
    for size in range(1, len(bits) + 1):
        for mask in map(sum, combinations(bits, size)):
            if size < smallest and _touching(everywhere, mask) >= request:
                smallest = size
            if all(one & mask for one in fixed) and len(fixed) + _touching(free, mask) >= request:
                found.append(mask)
    return [Hint(mask, mask.bit_count() == smallest) for mask in found]


def _mask(nodes: Iterable[int], known: int) -> int:
    """Those that the machine has. Shifting is by the machine's nodes: a plugin may name node 2**60."""
    return mask_of(node for node in nodes if 0 <= node < known.bit_length()) & known


def _union(counts: Counts) -> int:
    union = 0
    for mask, _ in counts:
        union |= mask
    return union


def _touching(counts: Counts, mask: int) -> int:
    total = 0
    for one, count in counts:
        if one & mask:
            total += count
    return total
