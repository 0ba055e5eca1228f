"""The NUMA nodes of this machine and how far they are from each other: given to the topology manager, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dray.kubelet.topology.hints import ids_of, mask_of


@dataclass(frozen=True, slots=True)
class NumaNodes:
    """`ids` in ascending order; a machine without NUMA has the node 0.

    `distances` has for each node one number a node, in the order of `ids`, as the kernel's file `distance` has them; None
    where they are not known.
    """

    ids: tuple[int, ...] = (0,)
    distances: Mapping[int, Sequence[int]] | None = None

    def __post_init__(self) -> None:
        if not self.ids:
            object.__setattr__(self, "ids", (0,))

    @property
    def mask(self) -> int:
        """All nodes."""
        return mask_of(self.ids)

    @property
    def has_distances(self) -> bool:
        """Whether every node has a number for every node."""
        known = self.distances or {}
        return all(len(known.get(node, ())) >= len(self.ids) for node in self.ids)

    def spread(self, mask: int) -> int:
        """The sum of the distances between all pairs of the mask's nodes, each with itself too.

        Among masks with as many nodes it orders like the average.
        """
        distances = self.distances or {}
        chosen = [(node, self.ids.index(node)) for node in ids_of(mask)]
        return sum(distances[node][at] for node, _ in chosen for _, at in chosen)
