"""Reasons for people and for programs: the funnel of devices, near misses, and what would make it fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dray.cli.manifests import shown_nodes
from dray.cli.tables import BOLD, YELLOW, columns, painted

if TYPE_CHECKING:
    from dray.allocation.explanation.explain import NodeGroup, Reasons
    from dray.allocation.explanation.nearest import Miss
    from dray.allocation.explanation.refusal import Check, Refusal, RequestRefusal

_MOST_HOLDERS = 8
_MOST_LACKS = 3


def reasons_lines(reasons: Reasons, *, colour: bool) -> list[str]:
    """The table of what each check removed, then why, by whom, and the way out."""
    lines = funnel_lines(reasons.groups)
    for title, more in (
        ("Nearest miss:", _miss_lines(reasons.misses)),
        ("Taints:", _taint_lines(reasons.groups)),
        ("In use:", _holder_lines(reasons)),
        ("What would make it fit (each was tried):", _change_lines(reasons)),
    ):
        if more:
            lines += ["", painted(title, BOLD, colour=colour), *(f"  {line}" for line in more)]
    if reasons.is_cut_off:
        text = (
            "Not every change was tried to the end, for that took too long (--timeout): there may be others."
        )
        lines += ["", painted(text, YELLOW, colour=colour)]
    elif not reasons.changes and any(group.refusal.requests for group in reasons.groups):
        lines += [
            "",
            painted("No change of one thing or two was found that makes it fit.", YELLOW, colour=colour),
        ]
    return lines


def funnel_lines(groups: Sequence[NodeGroup]) -> list[str]:
    """How many devices each check removed, and what was against whole nodes or pools."""
    lines = _funnel(groups)
    for group in groups:
        where = shown_nodes(group.nodes)
        if group.refusal.reason:
            lines.append(f"{where}: {group.refusal.reason}")
        elif text := _together(group.refusal):
            lines += [f"{where}: {text}", *(f"  {line}" for line in group.refusal.obstacles)]
        for pool, why in sorted((group.refusal.unusable_pools or {}).items()):
            lines.append(f"{where}: pool {pool} cannot be used: {why}")
    return lines


def _together(refusal: Refusal) -> str:
    """What to say where devices are left for each request; "" where some request is short with all its alternatives."""
    able: dict[tuple[str, str], bool] = {}
    for one in refusal.requests:
        key = (one.claim, one.request.partition("/")[0])
        able[key] = able.get(key, False) or not one.is_short
    if not able or not all(able.values()):
        return ""
    if len(able) > 1:
        return "enough is left for each request alone, but not for all together"
    why = "" if refusal.obstacles else ": constraints or counters that they share stand against it"
    return f"enough devices are left one by one, but they do not go together{why}"


def _taint_lines(groups: Sequence[NodeGroup]) -> list[str]:
    """The same taint on several nodes is one line."""
    kept: dict[tuple[str, str], int] = {}
    for group in groups:
        for one in group.refusal.requests:
            for taint, count in one.taints.items():
                key = (taint, f"request {one.request} of claim {one.claim}")
                kept[key] = kept.get(key, 0) + count * len(group.nodes)
    lines = [
        f"{taint} keeps {count} {'device' if count == 1 else 'devices'} from {place}"
        for (taint, place), count in kept.items()
    ]
    more = len(lines) - _MOST_HOLDERS
    return lines[:_MOST_HOLDERS] + ([f"and {more} more (-o json has them all)"] if more > 0 else [])


def _funnel(groups: Sequence[NodeGroup]) -> list[str]:
    """Checks that removed nothing anywhere have no column; devices of other nodes are not counted."""
    from dray.allocation.explanation.refusal import Check

    requests = [one for group in groups for one in group.refusal.requests]
    if not requests:
        return []
    seen = [
        check
        for check in Check
        if check is not Check.NODE and any(one.removed.get(check) for one in requests)
    ]
    rows = [["NODES", "CLAIM", "REQUEST", "WANTS", "DEVICES", *(check.upper() for check in seen), "LEFT"]]
    for group in groups:
        for number, one in enumerate(group.refusal.requests):
            rows.append(_funnel_row("" if number else shown_nodes(group.nodes), one, seen))
    return columns(rows)


def _funnel_row(nodes: str, one: RequestRefusal, seen: Sequence[Check]) -> list[str]:
    from dray.allocation.explanation.refusal import Check

    removed = [f"-{one.removed[check]}" if check in one.removed else "" for check in seen]
    wants = "all" if one.is_all else str(one.wanted)
    here = one.total - one.removed.get(Check.NODE, 0)
    return [nodes, one.claim, one.request, wants, str(here), *removed, str(one.left)]


def _miss_lines(misses: Sequence[Miss]) -> list[str]:
    lines: list[str] = []
    for miss in misses:
        many = len({(one.claim, one.request) for one in misses}) > 1
        request = f" for request {miss.request}" + (f" of claim {miss.claim}" if many else "")
        lines.append(f"{miss.candidate.id} on {miss.node}{request}")
        lines += (f"  {line}" for line in _obstacles(miss))
    return lines


def _obstacles(miss: Miss) -> Iterable[str]:
    yield from map(str, miss.false_terms)
    if miss.error:
        yield miss.error
    for taint in miss.taints:
        yield f"taint: {taint} is not tolerated"
    told = {"class", "selector", "selector error", "taint"}
    for check in miss.checks:
        if check in told:
            continue
        by = f": {'; '.join(map(str, miss.held_by))}" if check in ("in use", "capacity", "counters") else ""
        yield f"{check}{by if miss.held_by else ''}"
    for lack in miss.lacks[:_MOST_LACKS]:
        yield f"short of {lack}"
    if len(miss.lacks) > _MOST_LACKS:
        yield f"and of {len(miss.lacks) - _MOST_LACKS} more (-o json has them all)"


def _holder_lines(reasons: Reasons) -> list[str]:
    held = sorted(
        {holder for group in reasons.groups for one in group.refusal.requests for holder in one.held_by}
    )
    lines = [str(holder) for holder in held[:_MOST_HOLDERS]]
    if len(held) > _MOST_HOLDERS:
        lines.append(f"and {len(held) - _MOST_HOLDERS} more (-o json has them all)")
    return lines


def _change_lines(reasons: Reasons) -> list[str]:
    """The same change on several nodes is one line."""
    likes = {group.nodes[0]: len(group.nodes) for group in reasons.groups}
    by_text: dict[str, list[str]] = {}
    for change in reasons.changes:
        more = likes.get(change.node, 1)
        node = change.node if more == 1 else f"{change.node} (one of {more} alike)"
        by_text.setdefault(str(change), []).append(node)
    return [f"on {', '.join(nodes)}: {text}" for text, nodes in by_text.items()]
