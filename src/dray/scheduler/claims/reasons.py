"""Why a pod's claims fit no node, in one line, for the event. `dray explain` has the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.allocation.budget import UNLIMITED, Budget
from dray.allocation.explanation.refusal import Check, Explainer, Refusal, RequestRefusal, holders_of
from dray.api.core.node import Node
from dray.scheduler.claims.filter import Filter

_MOST_NODES: Final = 20
"""So many nodes are looked at: each costs a walk over its devices."""
_MOST_TEXTS: Final = 3
_SHOWN: Final = {
    Check.POOL: "in a pool that cannot be used",
    Check.FEATURE: "barred by a feature gate",
    Check.CLASS: "not of the class",
    Check.SELECTOR: "not selected",
    Check.ERROR: "with a selector error",
    Check.TAINT: "tainted",
    Check.IN_USE: "in use",
    Check.CAPACITY: "short of capacity",
    Check.COUNTERS: "short of counters",
    Check.CONSTRAINT: "against a constraint",
}


def why_nowhere(asked: Filter, nodes: Sequence[Node], budget: Budget | None = None) -> str:
    """For nodes that said "cannot allocate all claims": their reasons, the most frequent first.

    It looks at all slices and claims, so it is asked once for a pod that found no node. Of nodes that the budget does not
    suffice for nothing is said.
    """
    tracker, budget = asked.tracker, budget or UNLIMITED
    allocator = tracker.index.allocator()
    explainer = Explainer(allocator.within(allocator.seconds, budget), holders_of(tracker.claims))
    counts: dict[str, int] = {}
    for node in nodes[:_MOST_NODES]:
        if budget.is_over:
            break
        text = one_line(explainer.explain(node, asked.claims_for(node)))
        counts[text] = counts.get(text, 0) + 1
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    parts = [f"{count} {text}" if len(nodes) > 1 else text for text, count in ordered[:_MOST_TEXTS]]
    if more := len(nodes) - sum(count for _, count in ordered[:_MOST_TEXTS]):
        parts.append(f"{more} more")
    return "; ".join(parts)


def one_line(refusal: Refusal) -> str:
    """What stands against one node."""
    if refusal.reason:
        return refusal.reason
    short = _short(refusal)
    if short is not None:
        return _of_request(short)
    if refusal.obstacles:
        return refusal.obstacles[0]
    return "enough devices are left for each request, but they do not go together"


def _short(refusal: Refusal) -> RequestRefusal | None:
    """The first request for which too few devices are left, with all of its alternatives; of those the first."""
    alternatives: dict[tuple[str, str], list[RequestRefusal]] = {}
    for one in refusal.requests:
        alternatives.setdefault((one.claim, one.request.partition("/")[0]), []).append(one)
    return next(
        (many[0] for many in alternatives.values() if all(one.is_short for one in many)),
        None,
    )


def _of_request(one: RequestRefusal) -> str:
    here = one.total - one.removed.get(Check.NODE, 0)
    wanted = "all" if one.is_all else str(one.wanted)
    start = f"claim {one.claim}, request {one.request} wants {wanted}"
    if not here:
        return f"{start}: no devices"
    parts = [f"{one.removed[check]} {text}" for check, text in _SHOWN.items() if one.removed.get(check)]
    return f"{start} of {here}: {', '.join((*parts, f'{one.left} left'))}"
