"""`dray explain`: why claims, or pods with claims, do not fit; per node and request."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dray.cli import exit_codes
from dray.cli.manifests import (
    GREEN,
    RED,
    YELLOW,
    add_file_arguments,
    has_colour,
    painted,
    read_situation,
)
from dray.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dray.allocation.explanation.explain import Explanation, Verdict
    from dray.allocation.situation import Situation
    from dray.allocation.workloads import Workload

_MOST_NODES = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "name",
        nargs="?",
        metavar="CLAIM|pod/NAME",
        help="only this claim or pod of the files (default: all that wait)",
    )
    parser.add_argument(
        "-n", "--namespace", default="default", metavar="NS", help="where it is (default: default)"
    )
    add_file_arguments(parser)
    parser.add_argument(
        "-o", "--output", choices=["table", "json"], default="table", help="how to show it (default table)"
    )


def run(arguments: argparse.Namespace) -> int:
    """0 where there is an explanation, also of a refusal; 2 where the files are wrong."""
    if not arguments.filename:
        what = f"{arguments.name}: " if arguments.name else ""
        raise InvalidError(
            f"{what}live clusters are not read yet: give the objects with -f FILE, for example from "
            "`kubectl get nodes,pods,resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates -A -o yaml`",
            field="-f",
        )
    situation = read_situation(arguments)
    explanations = _explain(arguments, situation)
    if arguments.output == "json":
        import json

        print(json.dumps(as_document(situation, explanations), indent=2, ensure_ascii=False))
    else:
        colour = has_colour()
        blocks = ["\n".join(as_lines(one, colour=colour)) for one in explanations]
        print("\n\n".join(blocks) or "Nothing waits for devices in these files")
    return exit_codes.DONE


def _explain(arguments: argparse.Namespace, situation: Situation) -> list[Explanation]:
    from dray.allocation.explanation.explain import explain_workload
    from dray.allocation.workloads import find_workload, workloads_of

    cluster = situation.cluster
    workloads: Sequence[Workload] = workloads_of(cluster)
    if arguments.name:
        workloads = [find_workload(tuple(workloads), arguments.name, arguments.namespace)]
    else:
        workloads = [one for one in workloads if one.pending or one.problem]
    if workloads and not cluster.nodes:
        raise InvalidError("no nodes: give Node objects, or slices with a nodeName", field="-f")
    other = situation.other(arguments.feature_gates)
    return [explain_workload(situation, one, cluster.nodes, other) for one in workloads]


def as_lines(one: Explanation, *, colour: bool) -> list[str]:
    """A head line with the verdict, then the reasons of nodes that refuse."""
    from dray.cli.refusal_view import funnel_lines, reasons_lines

    verdict = one.verdict
    lines = [f"{_head(one, colour=colour)} (profile {one.profile}, {one.tier} allocator)"]
    if verdict.error:
        lines.append(f"  {verdict.error}")
    if one.difference is not None:
        other = one.difference
        text = f"Note: profile {other.profile} decides otherwise: {_shown(other.verdict, one.tried)}"
        lines.append(painted(text, YELLOW, colour=colour))
    if verdict.fits_on and one.reasons.groups:
        lines += ["", *funnel_lines(one.reasons.groups)]
    elif one.reasons.groups:
        lines += ["", *reasons_lines(one.reasons, colour=colour)]
    return lines


def _head(one: Explanation, *, colour: bool) -> str:
    name = f"{one.workload.kind.capitalize()} {one.workload.name}"
    if not one.workload.pending and not one.verdict.error:
        return painted(f"{name} has its devices already", GREEN, colour=colour)
    paint = GREEN if one.verdict.fits_on else RED
    return painted(f"{name} {_shown(one.verdict, one.tried)}", paint, colour=colour)


def _shown(verdict: Verdict, tried: int) -> str:
    if verdict.error:
        return "cannot be decided on any node"
    if not verdict.fits_on:
        return "does not fit on the one node" if tried == 1 else f"does not fit on any of {tried} nodes"
    names = list(verdict.fits_on[:_MOST_NODES])
    more = len(verdict.fits_on) - len(names)
    listed = ", ".join(names) + (f" and {more} more" if more else "")
    return f"fits on {len(verdict.fits_on)} of {tried} nodes: {listed}"


def as_document(situation: Situation, explanations: Sequence[Explanation]) -> dict[str, Any]:
    """The same for programs. Keys stay; others may join."""
    return {
        "profile": situation.profile.name,
        "tier": str(situation.allocator.tier),
        "workloads": [_document(one) for one in explanations],
    }


def _document(one: Explanation) -> dict[str, Any]:
    from dray.allocation.requests import claim_name
    from dray.cli.refusal_view import reasons_document

    difference = one.difference
    return {
        "kind": one.workload.kind,
        "name": one.workload.name,
        "claims": [claim_name(claim) for claim in one.workload.pending],
        "allocatedClaims": [claim_name(claim) for claim in one.workload.allocated],
        "nodesTried": one.tried,
        "fitsOn": list(one.verdict.fits_on),
        "error": one.verdict.error or None,
        "refusal": reasons_document(one.reasons, one.profile, str(one.tier)) if one.reasons.groups else None,
        "differs": difference
        and {
            "profile": difference.profile,
            "fitsOn": list(difference.verdict.fits_on),
            "error": difference.verdict.error or None,
        },
    }
