"""Why a workload does not fit a cluster: every node is asked, equal ones are told together, and changes are tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dray.allocation.cluster.situation import Situation
from dray.allocation.cluster.workloads import Workload
from dray.allocation.explanation.alike import Alike, AlikeRefusals
from dray.allocation.explanation.difference import find_causes
from dray.allocation.explanation.nearest import Miss, NearestMisses
from dray.allocation.explanation.refusal import (
    Explainer,
    Refusal,
    RequestRefusal,
    holders_of,
    with_request,
)
from dray.allocation.explanation.sight import Sight
from dray.allocation.explanation.what_if import Change, WhatIf
from dray.allocation.faults import AllocationError, NodeAllocationError, StepLimitError
from dray.allocation.features import Tier
from dray.api.core.node import Node

_MOST_GROUPS: Final = 3
"""So many kinds of nodes, the closest first, are looked at for near misses and changes."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that refuse for the same reasons, first that where the fewest claims must go. The refusal is its own,
    with the holders of all."""

    nodes: tuple[str, ...]
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Reasons:
    """Why some or all nodes refuse. `misses` are of the closest node; `changes` make it fit, each on its node."""

    groups: tuple[NodeGroup, ...] = ()
    misses: tuple[Miss, ...] = ()
    changes: tuple[Change, ...] = ()
    is_cut_off: bool = False
    """Changes were not all tried to the end, for it took too long: there may be others."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which nodes fit; `error` is what ends the attempt on all of them. Of those it was `stopped_on` nobody knows."""

    fits_on: tuple[str, ...] = ()
    error: str = ""
    stopped_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """Another profile decides otherwise. `causes` are switches and features of which each alone makes the difference."""

    profile: str
    verdict: Verdict
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """All about one workload. `tried` is the number of nodes that were asked."""

    workload: Workload
    profile: str
    tier: Tier
    tried: int
    verdict: Verdict
    reasons: Reasons = Reasons()
    difference: Difference | None = None


def explain_workload(
    situation: Situation, workload: Workload, nodes: Sequence[Node], other: Situation | None = None
) -> Explanation:
    """Asks every node. Changes are looked for where it fits nowhere. With `other`, says where that one decides otherwise."""
    sight = Sight(workload.pending, (situation,) if other is None else (situation, other))
    alike = _alike(situation, sight)
    asked = _ask(situation, workload, nodes, alike)
    explanation = Explanation(
        workload, situation.profile.name, situation.allocator.tier, len(nodes), asked.verdict
    )
    if asked.verdict.fits_on:
        groups = group_refusals(situation, workload, asked.refusing, alike)
        explanation = replace(explanation, reasons=Reasons(groups))
    elif not asked.verdict.error:
        reasons = find_reasons(situation, workload, asked.refusing, alike)
        explanation = replace(explanation, reasons=reasons)
    if other is not None and not workload.problem:
        alike = alike if alike.is_for(other.allocator) else _alike(other, sight)
        verdict = _ask(other, workload, nodes, alike).verdict
        is_known = not asked.verdict.stopped_on and not verdict.stopped_on
        if is_known and (verdict.fits_on, bool(verdict.error)) != (
            asked.verdict.fits_on,
            bool(asked.verdict.error),
        ):
            where = _differing(asked.verdict, verdict, nodes)
            causes = find_causes(situation, other, workload, where) if where is not None else ()
            explanation = replace(explanation, difference=Difference(other.profile.name, verdict, causes))
    return explanation


def _differing(one: Verdict, other: Verdict, nodes: Sequence[Node]) -> Node | None:
    """The first node on which they disagree."""
    names = set(one.fits_on) ^ set(other.fits_on)
    return next((node for node in nodes if not names or node.metadata.name in names), None)


@dataclass(frozen=True, slots=True)
class _Asked:
    verdict: Verdict
    refusing: tuple[tuple[Node, str], ...] = ()


def _alike(situation: Situation, sight: Sight) -> Alike:
    return Alike(situation.allocator, sight, holders_of(situation.cluster.claims))


def _ask(situation: Situation, workload: Workload, nodes: Sequence[Node], alike: Alike) -> _Asked:
    """Who fits, and who does not with what the allocator said to it, if anything."""
    if workload.problem:
        return _Asked(Verdict(error=workload.problem))
    known: dict[Hashable, bool | str] = {}
    fits_on: list[str] = []
    stopped_on: list[str] = []
    refusing: list[tuple[Node, str]] = []
    for node in nodes:
        answer: bool | str = workload.barred_from(node)
        if not answer:
            likeness = alike.of(node)
            try:
                answer = known[likeness.key] if likeness.key in known else _answer(situation, workload, node)
            except AllocationError as error:
                return _Asked(
                    Verdict(error=with_request(situation.allocator, (node,), workload.pending, error))
                )
            if isinstance(answer, bool) or not likeness.is_named_in(answer):
                known[likeness.key] = answer
        if answer is True:
            fits_on.append(node.metadata.name)
        else:
            refusing.append((node, answer or ""))
            if isinstance(answer, _Stopped):
                stopped_on.append(node.metadata.name)
    return _Asked(Verdict(tuple(fits_on), stopped_on=tuple(stopped_on)), tuple(refusing))


class _Stopped(str):
    """What a search says that was stopped."""

    __slots__ = ()


def _answer(situation: Situation, workload: Workload, node: Node) -> bool | str:
    """Whether it fits on the node, or why that cannot be judged there."""
    try:
        return situation.allocator.allocate(node, workload.pending) is not None
    except StepLimitError as error:
        return _Stopped(error)
    except NodeAllocationError as error:
        return str(error)


def refuse(situation: Situation, workload: Workload, nodes: Sequence[Node]) -> Reasons:
    """The reasons of nodes that were found not to fit."""
    alike = _alike(situation, Sight(workload.pending, (situation,)))
    return find_reasons(situation, workload, _ask(situation, workload, nodes, alike).refusing, alike)


def find_reasons(
    situation: Situation,
    workload: Workload,
    refusing: Sequence[tuple[Node, str]],
    alike: Alike | None = None,
) -> Reasons:
    """For nodes that refuse, each with what is known against it already ("" if nothing)."""
    groups = group_refusals(situation, workload, refusing, alike)
    by_name = {node.metadata.name: node for node, _ in refusing}
    allocator, claims = situation.allocator, workload.pending
    explainer = Explainer(allocator, holders_of(situation.cluster.claims))
    nearest = NearestMisses(allocator, situation.selectors, situation.features, explainer)
    what_if = WhatIf(allocator, situation.cluster.claims)
    found = Reasons(groups)
    for group in groups[:_MOST_GROUPS]:
        node = by_name[group.nodes[0]]
        if workload.barred_from(node):
            continue
        refusal = explainer.explain(node, claims)
        misses = nearest.find(node, claims, refusal)
        changes = what_if.changes(node, claims, refusal, misses)
        found = replace(found, misses=found.misses or misses, changes=found.changes + changes)
    return replace(found, is_cut_off=what_if.is_cut_off)


def group_refusals(
    situation: Situation,
    workload: Workload,
    refusing: Iterable[tuple[Node, str]],
    alike: Alike | None = None,
) -> tuple[NodeGroup, ...]:
    """The counts of every node, equal ones together, those that lack least first. `alike` is for the same question."""
    holders = holders_of(situation.cluster.claims)
    explainer = Explainer(situation.allocator, holders)
    alike = alike or _alike(situation, Sight(workload.pending, (situation,)))
    refusals = AlikeRefusals(explainer, holders, alike)
    groups: dict[Hashable, list[Refusal]] = {}
    for node, reason in refusing:
        refusal = refusals.of(node, workload.pending)
        if reason and not refusal.reason:
            refusal = replace(refusal, reason=reason)
        groups.setdefault(_likeness(refusal), []).append(refusal)
    easiest_first = (sorted(group, key=_to_free) for group in groups.values())
    ordered = sorted(easiest_first, key=lambda group: (_shortage(group[0]), group[0].node))
    return tuple(NodeGroup(tuple(one.node for one in group), _merged(group)) for group in ordered)


def _likeness(refusal: Refusal) -> Hashable:
    """Nodes are alike where all counts are; who holds the devices differs of course."""
    requests = tuple(
        (
            (one.claim, one.request, one.wanted, one.total, one.left),
            tuple(one.removed.items()),
            tuple(one.taints.items()),
        )
        for one in refusal.requests
    )
    return requests, refusal.reason, refusal.obstacles, tuple((refusal.unusable_pools or {}).values())


def _shortage(refusal: Refusal) -> tuple[int, int, int]:
    """How far a node is from fitting: devices that are missing, and how few its selectors would accept at all."""
    missing = sum(max(_needed(one) - one.left, 0) for one in refusal.requests)
    return (
        (1 if refusal.reason and not refusal.requests else 0),
        missing,
        -sum(map(_reached, refusal.requests)),
    )


def _needed(one: RequestRefusal) -> int:
    return max(one.wanted, 1) if one.is_all else one.wanted


def _reached(one: RequestRefusal) -> int:
    """Devices of the right kind, be they free or not."""
    early = ("node", "pool", "feature", "class", "selector", "selector error")
    return one.left + sum(count for check, count in one.removed.items() if check not in early)


def _to_free(refusal: Refusal) -> tuple[int, int]:
    """About how many claims must give devices back, and how many hold any: changes are looked for where these are few."""
    fewest, every = 0, set[str]()
    for one in refusal.requests:
        held = Counter(holder.claim for holder in one.held_by)
        missing, number = _needed(one) - one.left, 0
        for _, count in held.most_common():
            if missing <= 0:
                break
            missing, number = missing - count, number + 1
        fewest, every = max(fewest, number), every | held.keys()
    return fewest, len(every)


def _merged(group: Sequence[Refusal]) -> Refusal:
    first = group[0]
    requests = tuple(
        replace(
            request,
            held_by=tuple(sorted({holder for one in group for holder in one.requests[number].held_by})),
        )
        for number, request in enumerate(first.requests)
    )
    pools = {pool: why for one in group for pool, why in (one.unusable_pools or {}).items()}
    return replace(first, requests=requests, unusable_pools=pools)
