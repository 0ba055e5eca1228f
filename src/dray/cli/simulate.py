"""`dray simulate`: how many more of these claims fit, where, and what runs out first."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from dray.cli import exit_codes
from dray.cli.manifests import (
    BOLD,
    add_file_arguments,
    columns,
    has_colour,
    painted,
    read_situation,
    shown_nodes,
)
from dray.errors import InvalidError

if TYPE_CHECKING:
    from dray.allocation.simulate import NodeOutcome, Shortage, Simulation
    from dray.allocation.situation import Situation
    from dray.allocation.workloads import Workload

_EVERY = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_file_arguments(parser)
    parser.add_argument(
        "--claims",
        type=int,
        required=True,
        metavar="N",
        help="how many more of the claims in the files to try",
    )
    parser.add_argument(
        "--policy",
        choices=["first-fit", "best-fit"],
        default="first-fit",
        help="where each goes: Kubernetes' order (default), or what leaves the most for others",
    )
    parser.add_argument(
        "-o", "--output", choices=["table", "json"], default="table", help="how to show it (default table)"
    )


def run(arguments: argparse.Namespace) -> int:
    """0 where there is an answer, also where none fits; 1 where the allocator fails; 2 where the files are wrong."""
    if not arguments.filename:
        raise InvalidError("give the cluster's objects and a claim or template with -f FILE", field="-f")
    if arguments.claims < 1:
        raise InvalidError("--claims must be at least 1", field="--claims")
    from dray.allocation.faults import AllocationError

    situation = read_situation(arguments)
    workload = _workload(situation)
    try:
        simulation = _simulate(arguments, situation, workload)
    except AllocationError as error:
        print(f"dray: {error}", file=sys.stderr)
        return exit_codes.REFUSED
    if arguments.output == "json":
        import json

        print(json.dumps(as_document(simulation, situation, arguments.policy), indent=2, ensure_ascii=False))
    else:
        print("\n".join(as_lines(simulation, workload, colour=has_colour())))
    return exit_codes.DONE


def _workload(situation: Situation) -> Workload:
    from dray.allocation.workloads import all_pending, from_templates

    cluster = situation.cluster
    workload = all_pending(cluster)
    if not workload.pending:
        workload = from_templates(cluster)
    if not workload.pending:
        raise InvalidError(
            "no ResourceClaim without an allocation and no ResourceClaimTemplate in the files", field="-f"
        )
    if not cluster.nodes:
        raise InvalidError("no nodes: give Node objects, or slices with a nodeName", field="-f")
    return workload


def _simulate(arguments: argparse.Namespace, situation: Situation, workload: Workload) -> Simulation:
    from dray.allocation.policies import Policy
    from dray.allocation.simulate import simulate

    shows = sys.stderr.isatty()

    def progress(placed: int) -> None:
        if shows and placed % _EVERY == 0:
            print(f"\r{placed} of {arguments.claims}", end="", file=sys.stderr, flush=True)

    nodes = situation.cluster.nodes
    found = simulate(situation, workload, nodes, arguments.claims, Policy(arguments.policy), progress)
    if shows and found.fits >= _EVERY:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return found


def as_lines(simulation: Simulation, workload: Workload, *, colour: bool) -> list[str]:
    """How many, then where, nodes with the same outcome together, then what ran out first."""
    fits, asked = simulation.fits, simulation.asked
    used = sum(one.fits > 0 for one in simulation.nodes)
    more = "all" if fits == asked else str(fits)
    head = f"{more} of {asked} more fit, on {used} of {len(simulation.nodes)} nodes"
    lines = [f"{painted(head, BOLD, colour=colour)} (each: claim {workload.name})", ""]
    groups: dict[tuple[int, str], list[NodeOutcome]] = {}
    for one in simulation.nodes:
        groups.setdefault((one.fits, str(one.shortage or "-")), []).append(one)
    rows = [["NODES", "FIT", "WHY NOT ONE MORE"]]
    for (number, why), nodes in groups.items():
        each = f"{number} each" if len(nodes) > 1 and number else str(number)
        rows.append([shown_nodes([one.node for one in nodes]), each, why])
    lines += columns(rows)
    if simulation.first is not None:
        lines += ["", f"Runs out first: {simulation.first.shortage} (on {simulation.first.node})"]
    return lines


def as_document(simulation: Simulation, situation: Situation, policy: str) -> dict[str, Any]:
    """The same for programs. Keys stay; others may join."""
    first = simulation.first
    return {
        "profile": situation.profile.name,
        "tier": str(situation.allocator.tier),
        "policy": policy,
        "asked": simulation.asked,
        "fits": simulation.fits,
        "nodes": [
            {"node": one.node, "fits": one.fits, "shortage": _shortage(one.shortage)}
            for one in simulation.nodes
        ],
        "runsOutFirst": first and {"node": first.node, **(_shortage(first.shortage) or {})},
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
