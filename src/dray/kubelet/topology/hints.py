"""Where a container's share of a resource can sit: the parcel between the managers and the topology manager."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple


class Hint(NamedTuple):
    """`nodes` is a bit mask of NUMA ids; None has no preference. `preferred`: no smaller set of nodes would do."""

    nodes: int | None
    preferred: bool


ResourceHints = Mapping[str, Sequence[Hint] | None]
"""By resource. None does not care; no hint at all is impossible: no set of NUMA nodes has what was asked."""


def mask_of(ids: Iterable[int]) -> int:
    """The bit mask of these NUMA ids."""
    mask = 0
    for node in ids:
        mask |= 1 << node
    return mask


def ids_of(mask: int) -> Iterator[int]:
    """The NUMA ids of a bit mask, in ascending order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
