"""`dray allocate`: run the allocator over manifests or recorded cases, without a cluster."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from dray.cli import exit_codes
from dray.cli.manifests import (
    GREEN,
    RED,
    add_file_arguments,
    columns,
    has_colour,
    painted,
    read_situation,
    read_text,
)
from dray.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dray.allocation.explanation.explain import Reasons
    from dray.allocation.policies import Placement
    from dray.allocation.situation import Situation
    from dray.allocation.workloads import Workload
    from dray.api.core import Node


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_file_arguments(parser)
    parser.add_argument("--node", metavar="N", help="on this node only (default: the first that fits)")
    parser.add_argument(
        "--policy",
        choices=["first-fit", "best-fit"],
        default="first-fit",
        help="first-fit is Kubernetes' order (default); best-fit leaves the most for others",
    )
    parser.add_argument(
        "--cases",
        metavar="FILE",
        help="answer the cases of a JSON Lines file (- for stdin), one line for each",
    )
    parser.add_argument(
        "-o", "--output", choices=["table", "json"], default="table", help="how to show it (default table)"
    )


def run(arguments: argparse.Namespace) -> int:
    """0 where the claims fit, 1 where they do not or the allocator fails, 2 where the files are wrong."""
    if bool(arguments.filename) == (arguments.cases is not None):
        raise InvalidError("give objects with -f FILE, or --cases FILE", field="-f")
    if arguments.cases is not None:
        return _run_cases(arguments.cases)
    return _run_files(arguments)


def _run_files(arguments: argparse.Namespace) -> int:
    from dray.allocation.faults import AllocationError
    from dray.allocation.policies import Policy, place
    from dray.allocation.workloads import all_pending

    situation = read_situation(arguments)
    cluster = situation.cluster
    workload = all_pending(cluster)
    if not workload.pending:
        raise InvalidError("no ResourceClaim without an allocation in the files", field="-f")
    nodes = (cluster.node(arguments.node),) if arguments.node else cluster.nodes
    if not nodes:
        raise InvalidError("no nodes: give Node objects, slices with a nodeName, or --node N", field="-f")
    try:
        found = place(situation.allocator, nodes, workload.pending, Policy(arguments.policy))
    except AllocationError as error:
        return _failed(arguments, error)
    if found is None:
        return _refused(arguments, situation, workload, nodes)
    return _done(arguments, workload, found)


def _done(arguments: argparse.Namespace, workload: Workload, found: Placement) -> int:
    from dray.api.codec import to_raw

    node = found.node.metadata.name
    if arguments.output == "json":
        _print_json(node, [to_raw(result) for result in found.allocation.results])
    else:
        print(painted(f"Fits on {node}", GREEN, colour=has_colour()) + "\n")
        print("\n".join(_table(workload, found)))
    return exit_codes.DONE


def _table(workload: Workload, found: Placement) -> list[str]:
    from dray.allocation.requests import claim_name

    rows = [["CLAIM", "REQUEST", "DEVICE", "SHARE"]]
    for claim, result in zip(workload.pending, found.allocation.results, strict=True):
        for one in result.devices.results:
            amounts = ", ".join(f"{name} {amount}" for name, amount in sorted(one.consumed_capacity.items()))
            share = "admin access" if one.admin_access else amounts or "-"
            device = f"{one.driver}/{one.pool}/{one.device}"
            rows.append([claim_name(claim), one.request, device, share])
    return columns(rows)


def _failed(arguments: argparse.Namespace, error: InvalidError) -> int:
    """The claims cannot be worked with on any node: an answer of the allocator, not a fault of the files."""
    if arguments.output == "json":
        _print_json(arguments.node, error=str(error))
    else:
        print(f"dray: {error}", file=sys.stderr)
    return exit_codes.REFUSED


def _refused(
    arguments: argparse.Namespace, situation: Situation, workload: Workload, nodes: Sequence[Node]
) -> int:
    from dray.allocation.explanation.explain import refuse
    from dray.cli.refusal_view import reasons_document, reasons_lines

    reasons: Reasons = refuse(situation, workload, nodes)
    profile, tier = situation.profile.name, str(situation.allocator.tier)
    if arguments.output == "json":
        _print_json(arguments.node, refusal=reasons_document(reasons, profile, tier))
    else:
        where = f"on {arguments.node}" if arguments.node else f"on any of {len(nodes)} nodes"
        head = painted(f"Does not fit {where}", RED, colour=has_colour())
        print(f"{head} (profile {profile}, {tier} allocator)\n")
        print("\n".join(reasons_lines(reasons, colour=has_colour())))
    return exit_codes.REFUSED


def _print_json(
    node: str | None,
    results: list[Any] | None = None,
    refusal: dict[str, Any] | None = None,
    error: str | None = None,
) -> None:
    import json

    document = {"node": node, "results": results or [], "refusal": refusal, "error": error}
    print(json.dumps(document, indent=2, ensure_ascii=False))


def _run_cases(name: str) -> int:
    """A line in, a line out, as it comes: the file may be long."""
    import msgspec

    from dray.allocation.cases import run_case
    from dray.allocation.selector import CompiledSelectors

    for number, line in enumerate(read_text(name).splitlines(), 1):
        if not line.strip():
            continue
        try:
            case = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise InvalidError(f"{name}:{number}: not a case: {error}", field=f"{name}:{number}") from None
        sys.stdout.write(msgspec.json.encode(run_case(case, CompiledSelectors)).decode() + "\n")
    return exit_codes.DONE
