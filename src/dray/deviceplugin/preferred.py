"""Which of the free devices a container should get: near each other, and without breaking up what others may need whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from dray.errors import InvalidError
from dray.semantics.device_names import natural_order


class Spot(NamedTuple):
    """Where a device sits; -1 and "" where the host does not say."""

    numa_node: int = -1
    pcie_root: str = ""


_NOWHERE = Spot()


def prefer(
    available: Iterable[str], must_include: Sequence[str], size: int, spots: Mapping[str, Spot]
) -> list[str]:
    """`size` ids out of `available`, all of `must_include` among them; the same question gets the same answer.

    Near what must be included first. Then the smallest PCIe root that has enough, so that larger ones stay whole; else
    the smallest NUMA node that has enough, from its fullest roots; else the fullest nodes.
    """
    free = sorted({*available} - {*must_include}, key=natural_order)
    chosen = list(dict.fromkeys(must_include))
    if size < len(chosen) or len(free) + len(chosen) < size:
        raise InvalidError(
            f"cannot choose {size} devices: {len(chosen)} must be included and {len(free)} others are available",
            field="allocation_size",
        )
    while len(chosen) < size:
        picked = _pack(_near(chosen, free, spots) or free, size - len(chosen), spots)
        chosen += picked
        gone = set(picked)
        free = [name for name in free if name not in gone]
    return chosen


def _near(chosen: Sequence[str], free: Sequence[str], spots: Mapping[str, Spot]) -> Sequence[str]:
    """Those at the roots of the chosen ones, else those on their nodes; none where nothing is chosen yet."""
    if not chosen:
        return ()
    near = {spots.get(name, _NOWHERE) for name in chosen}
    nodes = {spot.numa_node for spot in near}
    here = [name for name in free if spots.get(name, _NOWHERE) in near]
    return here or [name for name in free if spots.get(name, _NOWHERE).numa_node in nodes]


def _pack(names: Sequence[str], need: int, spots: Mapping[str, Spot]) -> list[str]:
    """Up to `need` of `names`: from one root if one has enough, else from one node, else the fullest node there is."""
    roots = _grouped(names, lambda name: spots.get(name, _NOWHERE))
    enough = [group for group in roots if len(group) >= need]
    if enough:
        return min(enough, key=len)[:need]
    nodes = _grouped(names, lambda name: Spot(spots.get(name, _NOWHERE).numa_node))
    enough = [group for group in nodes if len(group) >= need]
    node = min(enough, key=len) if enough else max(nodes, key=len)
    fullest = max(_grouped(node, lambda name: spots.get(name, _NOWHERE)), key=len)
    return fullest[:need]


def _grouped(names: Sequence[str], key: Callable[[str], Spot]) -> list[list[str]]:
    groups: dict[Spot, list[str]] = {}
    for name in names:
        groups.setdefault(key(name), []).append(name)
    return [groups[spot] for spot in sorted(groups)]
