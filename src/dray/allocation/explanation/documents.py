"""Explanations for programs: the JSON that `dray explain -o json` prints and the dashboard draws. Keys stay; others may join."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dray.allocation.cluster.situation import Situation
from dray.allocation.cluster.workloads import Workload
from dray.allocation.explanation.explain import NodeGroup, Reasons
from dray.allocation.explanation.extended import Explained
from dray.allocation.explanation.nearest import Miss
from dray.allocation.explanation.refusal import Holder
from dray.allocation.explanation.what_if import Change
from dray.allocation.explanation.what_if_edits import Edit
from dray.allocation.requests import claim_name


def explanation_document(
    situation: Situation,
    explained: Sequence[Explained],
    left_out: Sequence[Workload] = (),
    *,
    server: tuple[str, str] | None = None,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """All of it. `server` is address and version, None for files; `left_out` were not admitted and not asked about."""
    return {
        "profile": situation.profile.name,
        "tier": str(situation.allocator.tier),
        "server": server and {"address": server[0], "version": server[1]},
        "notes": list(notes),
        "workloads": [workload_document(one) for one in explained],
        "notAdmitted": [one.name for one in left_out],
    }


def workload_document(found: Explained) -> dict[str, Any]:
    """One workload: where it fits, or why nowhere."""
    one = found.explanation
    difference = one.difference
    return {
        "kind": one.workload.kind,
        "name": one.workload.name,
        "claims": [claim_name(claim) for claim in one.workload.pending],
        "allocatedClaims": [claim_name(claim) for claim in one.workload.allocated],
        "nodesTried": one.tried,
        "fitsOn": list(one.verdict.fits_on),
        "stoppedOn": list(one.verdict.stopped_on),
        "error": one.verdict.error or None,
        "notAdmitted": one.workload.not_admitted or None,
        "notStarted": one.workload.not_started or None,
        "refusal": reasons_document(one.reasons, one.profile, str(one.tier)) if one.reasons.groups else None,
        "resources": resource_documents(found),
        "resourceChanges": [{"node": node, "text": text} for node, text in found.ways],
        "differs": difference
        and {
            "profile": difference.profile,
            "fitsOn": list(difference.verdict.fits_on),
            "error": difference.verdict.error or None,
            "causes": list(difference.causes),
        },
    }


def resource_documents(found: Explained) -> list[dict[str, Any]]:
    """What nodes have of the resources that device plugins serve."""
    return [
        {
            "node": one.node,
            "resource": one.name,
            "wanted": str(one.wanted),
            "capacity": str(one.capacity),
            "allocatable": one.allocatable and str(one.allocatable),
            "used": str(one.used),
            "free": str(one.free),
            "short": str(one.short),
            "deviceClass": one.device_class or None,
            "pods": [{"name": name, "amount": str(amount)} for name, amount in one.users],
        }
        for one in found.resources
    ]


def reasons_document(reasons: Reasons, profile: str, tier: str) -> dict[str, Any]:
    """Why it fits nowhere: the funnel of each group of nodes, near misses, and what would make it fit."""
    return {
        "profile": profile,
        "tier": tier,
        "nodes": [_group_document(group) for group in reasons.groups],
        "nearestMisses": [_miss_document(miss) for miss in reasons.misses],
        "changes": [_change_document(change) for change in reasons.changes],
        "changesCutOff": reasons.is_cut_off,
    }


def _group_document(group: NodeGroup) -> dict[str, Any]:
    refusal = group.refusal
    return {
        "nodes": list(group.nodes),
        "reason": refusal.reason,
        "obstacles": list(refusal.obstacles),
        "unusablePools": dict(sorted((refusal.unusable_pools or {}).items())),
        "requests": [
            {
                "claim": one.claim,
                "request": one.request,
                "wanted": one.wanted,
                "all": one.is_all,
                "total": one.total,
                "removed": {str(check): count for check, count in one.removed.items()},
                "left": one.left,
                "taints": dict(one.taints),
                "lacking": dict(one.lacking),
                "heldBy": [_holder_document(holder) for holder in one.held_by],
            }
            for one in refusal.requests
        ],
    }


def _holder_document(holder: Holder) -> dict[str, Any]:
    return {"device": str(holder.device), "claim": holder.claim, "pods": list(holder.pods)}


def _miss_document(miss: Miss) -> dict[str, Any]:
    return {
        "node": miss.node,
        "claim": miss.claim,
        "request": miss.request,
        "device": str(miss.candidate.id),
        "checks": [str(check) for check in miss.checks],
        "falseParts": [
            {
                "of": "class" if term.is_of_class else "request",
                "selector": term.number,
                "text": term.part.text,
                "saw": dict(term.part.saw),
            }
            for term in miss.false_terms
        ],
        "taints": list(miss.taints),
        "heldBy": [_holder_document(holder) for holder in miss.held_by],
        "lacks": [
            {
                "name": one.name,
                "left": None if one.left is None else str(one.left),
                "needed": None if one.needed is None else str(one.needed),
                "why": one.why,
            }
            for one in miss.lacks
        ],
        "error": miss.error,
    }


def _change_document(change: Change) -> dict[str, Any]:
    return {
        "node": change.node,
        "text": str(change),
        "edits": [_edit_document(edit) for edit in change.edits],
        "choices": [_edit_document(edit) for edit in change.choices],
    }


def _edit_document(edit: Edit) -> dict[str, Any]:
    return {
        "kind": str(edit.kind),
        "text": edit.text,
        "claim": edit.claim,
        "request": edit.request,
        "frees": sorted(edit.frees),
        "heldBy": [_holder_document(holder) for holder in edit.holders],
    }
