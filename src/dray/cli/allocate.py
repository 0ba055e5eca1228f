"""`dray allocate`: run the allocator over manifests, a live cluster or recorded cases. Nothing is written anywhere."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from dray.cli import exit_codes
from dray.cli.manifests import add_source_arguments, any_of, read_source, read_text
from dray.cli.tables import GREEN, RED, columns, has_colour, painted, progress
from dray.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dray.allocation.cluster.situation import Situation
    from dray.allocation.cluster.workloads import Workload
    from dray.allocation.policies import Placement
    from dray.api.core import Node
    from dray.cli.manifests import Source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "names",
        nargs="*",
        metavar="CLAIM|pod/NAME",
        help="only these, together (default: all claims that wait)",
    )
    add_source_arguments(parser)
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
    if arguments.cases is None:
        return _run_cluster(arguments)
    if arguments.filename or arguments.names:
        raise InvalidError("give objects with -f FILE, or --cases FILE", field="-f")
    return _run_cases(arguments.cases)


def _run_cluster(arguments: argparse.Namespace) -> int:
    from dray.allocation.explanation.refusal import with_request
    from dray.allocation.faults import AllocationError

    source = read_source(arguments)
    situation = source.situation
    cluster = situation.cluster
    workload = _workload(arguments.names, source)
    nodes = (cluster.node(arguments.node),) if arguments.node else cluster.nodes
    if not nodes:
        raise InvalidError(
            f"no nodes in {cluster.source}: give Node objects, slices with a nodeName, or --node N",
            field="-f",
        )
    try:
        with progress() as say:
            say(f"placing {workload} on {len(nodes)} nodes")
            found = _place(situation, workload, nodes, arguments.policy)
    except AllocationError as error:
        return _failed(arguments, with_request(situation.allocator, nodes, workload.pending, error))
    if found is None:
        return _refused(arguments, situation, workload, nodes)
    return _done(arguments, *found)


def _workload(names: Sequence[str], source: Source) -> Workload:
    from dray.allocation.cluster.workloads import all_pending, find_workload, together

    cluster = source.situation.cluster
    if not names:
        found = all_pending(cluster, source.files)
    else:
        found = together(find_workload(cluster, name, source.namespace) for name in names)
    if found.pending or (found.waits and found.resources):
        return found
    what = f"{found} has its devices already" if names else "no ResourceClaim without an allocation"
    raise InvalidError(f"{what} in {cluster.source}", field="-f")


def _place(
    situation: Situation, workload: Workload, nodes: Sequence[Node], policy: str
) -> tuple[Workload, Placement] | None:
    """With the workload as the chosen node sees it. Pods keep off nodes that have too little of other resources."""
    from dray.allocation.explanation.extended import use_of, variants
    from dray.allocation.policies import Policy, place

    cluster = situation.cluster
    use = use_of(cluster.pods) if workload.pod is not None else {}
    order = {node.metadata.name: number for number, node in enumerate(nodes)}
    found = []
    for variant, its_nodes in variants(workload, cluster, nodes, use):
        open_nodes = [node for node in its_nodes if not variant.barred_from(node)]
        placed = place(situation.allocator, open_nodes, variant.pending, Policy(policy))
        if placed is not None:
            found.append((variant, placed))
    return max(found, key=lambda one: (one[1].rank, -order[one[1].node.metadata.name]), default=None)


def _done(arguments: argparse.Namespace, workload: Workload, found: Placement) -> int:
    from dray.api.codec import to_raw

    node = found.node.metadata.name
    if arguments.output == "json":
        _print_json(node, [to_raw(result) for result in found.allocation.results])
    else:
        print(painted(f"Fits on {node}", GREEN, colour=has_colour()))
        if workload.pending:
            print("\n" + "\n".join(_table(workload, found)))
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


def _failed(arguments: argparse.Namespace, error: str) -> int:
    """The claims cannot be worked with on any node: an answer of the allocator, not a fault of the files."""
    if arguments.output == "json":
        _print_json(arguments.node, error=error)
    else:
        print(f"dray: {error}", file=sys.stderr)
    return exit_codes.REFUSED


def _refused(
    arguments: argparse.Namespace, situation: Situation, workload: Workload, nodes: Sequence[Node]
) -> int:
    from dray.allocation.explanation.documents import reasons_document
    from dray.allocation.explanation.extended import explain_pod, use_of
    from dray.cli.refusal_view import reasons_lines

    use = use_of(situation.cluster.pods) if workload.pod is not None else {}
    with progress() as say:
        say(f"explaining {workload} on {len(nodes)} nodes")
        explanation = explain_pod(situation, workload, nodes, use).explanation
    reasons, stopped = explanation.reasons, explanation.verdict.stopped_on
    profile, tier = situation.profile.name, str(situation.allocator.tier)
    if arguments.output == "json":
        _print_json(arguments.node, refusal=reasons_document(reasons, profile, tier))
    else:
        where = f"on {arguments.node}" if arguments.node else f"on {any_of(len(nodes))}"
        what = (
            f"Not decided {where}: the search for devices was stopped" if stopped else f"Does not fit {where}"
        )
        head = painted(what, RED, colour=has_colour())
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
