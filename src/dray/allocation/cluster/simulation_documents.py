"""Answers to what-if questions for programs: the JSON that `dray simulate -o json` prints. Keys stay; others may join."""

from __future__ import annotations

from typing import Any

from dray.allocation.cluster.simulate import Shortage, Simulation
from dray.allocation.cluster.situation import Situation
from dray.allocation.cluster.workloads import Workload
from dray.allocation.explanation.refusal import with_request
from dray.allocation.faults import AllocationError


def simulation_document(simulation: Simulation, situation: Situation, policy: str) -> dict[str, Any]:
    """How many fit, where, and what runs out first."""
    first = simulation.first
    return {
        **_head(situation, policy, simulation.asked),
        "fits": simulation.fits,
        "nodes": [
            {"node": one.node, "fits": one.fits, "shortage": _shortage(one.shortage)}
            for one in simulation.nodes
        ],
        "runsOutFirst": first and {"node": first.node, **(_shortage(first.shortage) or {})},
        "error": None,
    }


def failed_document(
    situation: Situation, workload: Workload, policy: str, asked: int, error: AllocationError
) -> dict[str, Any]:
    """Where the allocator cannot decide at all."""
    text = with_request(situation.allocator, situation.cluster.nodes, workload.pending, error)
    return {
        **_head(situation, policy, asked),
        "fits": 0,
        "nodes": [],
        "runsOutFirst": None,
        "error": text,
    }


def _head(situation: Situation, policy: str, asked: int) -> dict[str, Any]:
    return {
        "profile": situation.profile.name,
        "tier": str(situation.allocator.tier),
        "policy": policy,
        "asked": asked,
    }


def _shortage(shortage: Shortage | None) -> dict[str, Any] | None:
    if shortage is None:
        return None
    return {
        "claim": shortage.claim,
        "request": shortage.request,
        "wanted": shortage.wanted,
        "left": shortage.left,
        "check": str(shortage.check) if shortage.check is not None else None,
        "removed": shortage.removed,
        "text": str(shortage),
    }
