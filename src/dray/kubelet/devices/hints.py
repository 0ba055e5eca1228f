"""Which sets of NUMA nodes could serve a request. Pure; devices are counted by node first, then by set of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from dray.kubelet.devices.known import Device
from dray.kubelet.topology.hints import Hint, ids_of, mask_of


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of one resource, for a container or for a whole pod; `existing` is what it holds already."""

    request: int
    existing: frozenset[str]
    free: frozenset[str]
    reusable: frozenset[str] = frozenset()


def resource_hints(
    ask: Ask, devices: Mapping[str, Device], machine: Sequence[int], *, has_nodes: bool
) -> list[Hint] | None:
    """None where no device names a node. Empty where the request cannot be met, or differs from what is held already."""
    if not has_nodes:
        return None
    if ask.existing:
        if len(ask.existing) != ask.request:
            return []
        return generate(ask.request, devices, machine, ask.existing, frozenset())
    if len(ask.free | ask.reusable) < ask.request:
        return []
    return generate(ask.request, devices, machine, ask.free, ask.reusable)


def generate(
    request: int,
    devices: Mapping[str, Device],
    machine: Sequence[int],
    available: Collection[str],
    reusable: Collection[str],
) -> list[Hint]:
    """All sets of nodes with enough devices, by size and then by node. Preferred: no smaller set could ever do.

    Only nodes that have devices of the resource are looked at, so a machine with many others costs nothing. A device
    without a node never counts, and nodes that the machine does not have are left out.
    """
    known = mask_of(node for node in machine if node >= 0)
    everywhere = _count(devices.values(), known)
    nodes = sorted(ids_of(_union(everywhere) or known))
    free = _count((devices[one] for one in available if one in devices), known)
    fixed = [_mask(devices[one], known) for one in reusable if one in devices and devices[one].has_topology]
    smallest = len(nodes)
    found: list[int] = []
    for size in range(1, len(nodes) + 1):
        for combination in combinations(nodes, size):
            mask = mask_of(combination)
            if size < smallest and _touching(everywhere, mask) >= request:
                smallest = size
            if all(one & mask for one in fixed) and len(fixed) + _touching(free, mask) >= request:
                found.append(mask)
    return [Hint(mask, mask.bit_count() == smallest) for mask in found]


def _count(devices: Iterable[Device], known: int) -> Counter[int]:
    return Counter(_mask(one, known) for one in devices)


def _mask(device: Device, known: int) -> int:
    """Its nodes that the machine has. Shifting is by the machine's nodes: a plugin may name node 2**60."""
    return mask_of(node for node in device.nodes if 0 <= node < known.bit_length()) & known


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


def _touching(counts: Mapping[int, int], mask: int) -> int:
    return sum(count for one, count in counts.items() if one & mask)
