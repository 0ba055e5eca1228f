"""What all providers can agree on: the best NUMA mask of all ways to take one hint for each resource.

The ways are never listed: with 8 nodes and 5 resources they would be 10^12. Only what they lead to is followed, one resource
after another: a preferred outcome is a mask that every resource prefers, and any other outcome is known by its mask alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dray.kubelet.topology.hints import Hint, ResourceHints
from dray.kubelet.topology.nodes import NumaNodes

Choices = Sequence[Sequence[Hint]]
"""For each resource, the hints of which one is taken."""

_SPARSE = 8
"""Pairs of masks are tried, up to so many for each step that counting all masks of the machine at once would take."""
_DENSE_NODES = 20


def choices_of(providers: Iterable[ResourceHints]) -> list[Sequence[Hint]]:
    """Who does not care takes any node gladly; what is impossible takes any node too, but never as preferred."""
    choices: list[Sequence[Hint]] = []
    for resources in providers:
        if not resources:
            choices.append((Hint(None, True),))
        for name in sorted(resources):
            hints = resources[name]
            choices.append(hints or (Hint(None, hints is None),))
    return choices


def merge(nodes: NumaNodes, choices: Choices, *, prefer_closest: bool = False) -> Hint:
    """The best outcome: a preferred one where there is any; all nodes, not preferred, where nothing overlaps."""
    preferred = _agreements(choices, nodes.mask)
    if preferred:
        fewest = min(mask.bit_count() for mask in preferred)
        masks = [mask for mask in preferred if mask.bit_count() == fewest]
        return Hint(_fittest(nodes, masks, prefer_closest), True)
    others: set[int] = set()
    for others in overlaps(choices, nodes.mask):
        if not others:
            break
    if not others:
        return Hint(nodes.mask, False)
    wanted = wanted_count(choices)
    best = min(rank(mask.bit_count(), wanted) for mask in others)
    masks = [mask for mask in others if rank(mask.bit_count(), wanted) == best]
    return Hint(_fittest(nodes, masks, prefer_closest), False)


def overlaps(choices: Choices, machine: int) -> Iterator[set[int]]:
    """The non-empty masks that hints of the resources so far have in common; one set after each resource."""
    reached = {machine}
    yield reached
    for hints in choices:
        offered = {machine if hint.nodes is None else hint.nodes & machine for hint in hints}
        reached = _in_common(reached, offered, machine)
        yield reached


def _in_common(some: set[int], others: set[int], machine: int) -> set[int]:
    nodes = machine.bit_length()
    is_dense = not machine & (machine + 1) and nodes <= _DENSE_NODES
    if is_dense and len(some) * len(others) > _SPARSE * nodes << nodes:
        return counted_in_common(some, others, machine)
    masks = {one & other for one in some for other in others}
    masks.discard(0)
    return masks


def counted_in_common(some: set[int], others: set[int], machine: int) -> set[int]:
    """As in `_in_common`, through the number of pairs whose masks both contain a mask: that is a product."""
    first = [int(mask in some) for mask in range(machine + 1)]
    second = [int(mask in others) for mask in range(machine + 1)]
    _add_supersets(first, machine, 1)
    _add_supersets(second, machine, 1)
    pairs = [one * other for one, other in zip(first, second, strict=True)]
    _add_supersets(pairs, machine, -1)
    return {mask for mask in range(1, machine + 1) if pairs[mask]}


def _add_supersets(counts: list[int], machine: int, sign: int) -> None:
    """Each mask's count becomes the sum over all masks that contain it; with sign -1, this is undone."""
    bit = 1
    while bit <= machine:
        for start in range(0, machine + 1, 2 * bit):
            for mask in range(start, start + bit):
                counts[mask] += sign * counts[mask + bit]
        bit *= 2


def _agreements(choices: Choices, machine: int) -> set[int]:
    """The non-empty masks that are preferred for all resources; None among the agreed: nobody has said anything yet."""
    agreed: set[int | None] = {None}
    for hints in choices:
        preferred = {hint.nodes for hint in hints if hint.preferred}
        agreed = {
            mask
            for mask in agreed | preferred
            if (mask in preferred or None in preferred) and (mask in agreed or None in agreed)
        }
    masks = {machine if mask is None else mask & machine for mask in agreed}
    masks.discard(0)
    return masks


def wanted_count(choices: Choices) -> int:
    """How many nodes the resource that needs the most of them needs at least."""
    counts = (
        min((hint.nodes.bit_count() for hint in hints if hint.nodes is not None), default=0)
        for hints in choices
    )
    return max(counts, default=0)


def rank(count: int, wanted: int) -> tuple[int, int]:
    """Of outcomes that are not preferred: as many nodes as wanted; else fewer, but not by much; else the fewest."""
    if count == wanted:
        return 0, 0
    return (1, -count) if count < wanted else (2, count)


def _fittest(nodes: NumaNodes, masks: Sequence[int], prefer_closest: bool) -> int:
    """Of masks with as many nodes each: nearest to each other where that counts, then those with the lowest ids."""
    if prefer_closest:
        return min(masks, key=lambda mask: (nodes.spread(mask), mask))
    return min(masks)
