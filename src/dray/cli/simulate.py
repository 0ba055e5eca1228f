"""`dray simulate`: how many more of these claims fit, where, and what runs out first."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dray.cli import exit_codes
from dray.cli.manifests import add_source_arguments, read_source, shown_nodes, some_of
from dray.cli.tables import BOLD, columns, has_colour, painted
from dray.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dray.allocation.cluster.simulate import NodeOutcome, Simulation
    from dray.allocation.cluster.situation import Situation
    from dray.allocation.cluster.workloads import Workload
    from dray.allocation.faults import AllocationError
    from dray.cli.manifests import Source

_EVERY = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "names",
        nargs="*",
        metavar="CLAIM|pod/NAME|template/NAME",
        help="copies of these, each as one pod (default: all claims that wait, else one of each template)",
    )
    add_source_arguments(parser)
    parser.add_argument(
        "--claims", type=int, required=True, metavar="N", help="how many more of the claims to try"
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
    if arguments.claims < 1:
        raise InvalidError("--claims must be at least 1", field="--claims")
    from dray.allocation.faults import AllocationError

    source = read_source(arguments)
    situation = source.situation
    workload = _workload(arguments.names, source)
    try:
        simulation = _simulate(arguments, situation, workload)
    except AllocationError as error:
        return _failed(arguments, source, workload, error)
    if arguments.output == "json":
        import json

        from dray.allocation.cluster.simulation_documents import simulation_document

        document = simulation_document(simulation, situation, arguments.policy)
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print("\n".join(as_lines(simulation, workload, colour=has_colour())))
    return exit_codes.DONE


def _failed(arguments: argparse.Namespace, source: Source, workload: Workload, error: AllocationError) -> int:
    from dray.allocation.cluster.simulation_documents import failed_document

    document = failed_document(source.situation, workload, arguments.policy, arguments.claims, error)
    if arguments.output == "json":
        import json

        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(f"dray: {document['error']}", file=sys.stderr)
    return exit_codes.REFUSED


def _workload(names: Sequence[str], source: Source) -> Workload:
    from dray.allocation.cluster.workloads import find_workload, to_copy, together

    cluster = source.situation.cluster
    if names:
        workload = together(find_workload(cluster, name, source.namespace) for name in names)
    else:
        workload = to_copy(cluster, source.files)
    if not workload.pending:
        raise InvalidError(
            f"no ResourceClaim without an allocation and no ResourceClaimTemplate in {cluster.source}",
            field="-f",
        )
    if not cluster.nodes:
        raise InvalidError(
            f"no nodes in {cluster.source}: give Node objects, or slices with a nodeName", field="-f"
        )
    return workload


def _simulate(arguments: argparse.Namespace, situation: Situation, workload: Workload) -> Simulation:
    from dray.allocation.cluster.simulate import simulate
    from dray.allocation.policies import Policy

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
    head = f"{more} of {asked} more fit, on {some_of(used, len(simulation.nodes))}"
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
