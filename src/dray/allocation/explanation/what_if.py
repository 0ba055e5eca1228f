"""The smallest changes that would make claims fit on a node. Each is tried with the allocator before it is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice
from typing import Final

from dray.allocation.allocator import Allocator
from dray.allocation.cluster.situation import in_use, with_allocated
from dray.allocation.explanation.nearest import Miss
from dray.allocation.explanation.refusal import Holder, Refusal, RequestRefusal
from dray.allocation.explanation.what_if_edits import (
    Claims,
    Edit,
    Kind,
    free,
    held,
    less_capacity,
    lower,
    relax,
    tolerate,
    tolerate_all,
    unconstrain,
)
from dray.allocation.faults import AllocationError, NodeAllocationError, StepLimitError
from dray.allocation.requests import claim_name
from dray.api.core.node import Node
from dray.api.resource.claim import ResourceClaim

_MOST_PAIRS: Final = 100
_MOST_HOLDERS: Final = 64
_MOST_SHOWN: Final = 4
_MOST_CUT_OFF: Final = 2
"""After so many searches that had to be cut off, no more are begun: each took seconds."""


@dataclass(frozen=True, slots=True)
class Change:
    """Edits that together make the claims fit on the node. For FREE, each of the `choices` does it as well."""

    node: str
    edits: tuple[Edit, ...]
    choices: tuple[Edit, ...] = ()

    def __str__(self) -> str:
        if self.choices:
            shown = "; ".join(held(one) for one in self.choices[:_MOST_SHOWN])
            more = len(self.choices) - _MOST_SHOWN
            return f"free any one of these: {shown}" + (f"; or one of {more} more" if more > 0 else "")
        return ", and ".join(edit.text for edit in self.edits)


class WhatIf:
    """`every` are all claims of the cluster, those that hold devices among them."""

    def __init__(self, allocator: Allocator, every: Sequence[ResourceClaim]) -> None:
        self._allocator = allocator
        self._every = every
        self._cut_off = 0
        self._budget = allocator.budget

    def changes(
        self, node: Node, claims: Claims, refusal: Refusal, misses: Sequence[Miss]
    ) -> tuple[Change, ...]:
        """Single edits that suffice; where none does, pairs. () where nothing tried helps.

        All that is tried for a node together has as long as one search; `is_cut_off` tells that it was not enough.
        """
        self._budget = self._allocator.budget.part(self._allocator.seconds)
        name = node.metadata.name
        frees = [*_frees(refusal, misses)]
        helping = [edit for edit in frees if self._fits(node, claims, (edit,))]
        found = []
        if len(helping) > 1:
            found.append(Change(name, (helping[0],), tuple(helping)))
        elif helping:
            found.append(Change(name, (helping[0],)))
        elif several := self._free_several(node, claims, frees):
            found.append(Change(name, (several,)))
        others = [
            *tolerate(refusal, misses),
            *less_capacity(misses, self._allocator.rules.allocated),
            *relax(misses),
            *unconstrain(claims),
        ]
        found += [Change(name, (edit,)) for edit in others if self._fits(node, claims, (edit,))]
        alone = {
            (one.claim, one.request) for change in found for one in change.edits if one.kind is Kind.TOLERATE
        }
        found += [
            Change(name, (edit,))
            for edit in tolerate_all(refusal, misses)
            if (edit.claim, edit.request) not in alone and self._fits(node, claims, (edit,))
        ]
        found += [Change(name, (edit,)) for edit in self._lower_counts(node, claims, refusal)]
        if not found:
            pairs = combinations([*frees, *others], 2)
            tried = (pair for pair in islice(pairs, _MOST_PAIRS) if self._fits(node, claims, pair))
            found = [Change(name, pair) for pair in islice(tried, 1)]
        return tuple(sorted(found, key=lambda change: [*Kind].index(change.edits[0].kind)))

    @property
    def is_cut_off(self) -> bool:
        """Whether some change was not tried to the end, so that there may be others that help."""
        return self._cut_off > 0

    def _fits(self, node: Node, claims: Claims, edits: Iterable[Edit]) -> bool:
        if self._cut_off >= _MOST_CUT_OFF or self._budget.is_over:
            self._cut_off += self._budget.is_over
            return False
        freed: frozenset[str] = frozenset()
        for edit in edits:
            claims, freed = edit.apply(claims), freed | edit.frees
        allocator = self._allocator
        if freed:
            kept = [one for one in self._every if claim_name(one) not in freed]
            allocator = with_allocated(allocator, in_use(kept, allocator.rules.features))
        try:
            return allocator.allocate(node, claims, self._budget) is not None
        except StepLimitError:
            self._cut_off += 1
        except (AllocationError, NodeAllocationError):
            pass
        return False

    def _free_several(self, node: Node, claims: Claims, frees: Sequence[Edit]) -> Edit | None:
        """The fewest holders that must go: pairs and triples are tried, more are found by keeping whom one can.

        Those that hold most come first, for then fewer must go.
        """
        if len(frees) < 2 or not self._fits(node, claims, frees):
            return None
        ranked = sorted(frees, key=lambda edit: -len(edit.holders))
        few = islice(chain(combinations(ranked, 2), combinations(ranked, 3)), _MOST_PAIRS)
        kept = next((list(some) for some in few if self._fits(node, claims, some)), None)
        if kept is None:
            kept = ranked
            for edit in reversed(ranked):
                without = [one for one in kept if one is not edit]
                if self._fits(node, claims, without):
                    kept = without
        return free([one.claim for one in kept], [holder for one in kept for holder in one.holders])

    def _lower_counts(self, node: Node, claims: Claims, refusal: Refusal) -> Iterator[Edit]:
        for one in refusal.requests:
            if one.is_all:
                continue
            for count in range(one.wanted - 1, 0, -1):
                edit = lower(one, count)
                if self._fits(node, claims, (edit,)):
                    yield edit
                    break


def _frees(refusal: Refusal, misses: Sequence[Miss]) -> Iterator[Edit]:
    """Each claim that holds something of use."""
    by_claim: dict[str, set[Holder]] = {}
    both: Sequence[RequestRefusal | Miss] = (*refusal.requests, *misses)
    for one in both:
        for holder in one.held_by:
            by_claim.setdefault(holder.claim, set()).add(holder)
    for claim, holders in islice(sorted(by_claim.items()), _MOST_HOLDERS):
        yield free([claim], holders)
