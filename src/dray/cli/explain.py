"""`dray explain`: why claims and pods do not fit, were not admitted or do not start; per node and request or resource."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dray.cli import exit_codes
from dray.cli.manifests import add_source_arguments, any_of, read_source, some_of
from dray.cli.tables import GREEN, RED, YELLOW, has_colour, painted, progress
from dray.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dray.allocation.cluster.workloads import Workload
    from dray.allocation.explanation.explain import Difference, Explanation, Reasons, Verdict
    from dray.allocation.explanation.extended import Explained
    from dray.cli.manifests import Source

_MOST_NODES = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "name", nargs="?", metavar="CLAIM|pod/NAME", help="only this claim or pod (default: all that wait)"
    )
    add_source_arguments(parser)
    parser.add_argument(
        "-o", "--output", choices=["table", "json"], default="table", help="how to show it (default table)"
    )


def run(arguments: argparse.Namespace) -> int:
    """0 where there is an explanation, also of a refusal; 1 where the name is not there; 2 where the files are wrong."""
    source = read_source(arguments)
    workloads = _workloads(arguments, source)
    asked = [one for one in workloads if one.waits or one.not_started or arguments.name]
    explained = _explain(arguments, source, asked)
    left_out = [one for one in workloads if one.not_admitted and one not in asked]
    if arguments.output == "json":
        import json

        print(json.dumps(as_document(source, explained, left_out), indent=2, ensure_ascii=False))
        return exit_codes.DONE
    colour = has_colour()
    blocks = ["\n".join(as_lines(one, colour=colour)) for one in explained]
    print("\n\n".join(blocks) or f"Nothing waits for devices in {source.situation.cluster.source}")
    if left_out:
        print(f"\n{_not_admitted(left_out)}")
    return exit_codes.DONE


def _workloads(arguments: argparse.Namespace, source: Source) -> Sequence[Workload]:
    from dray.allocation.cluster.workloads import asked_for, find_workload

    cluster = source.situation.cluster
    if arguments.name:
        return [find_workload(cluster, arguments.name, source.namespace)]
    return asked_for(cluster, source.files)


def _explain(arguments: argparse.Namespace, source: Source, workloads: Sequence[Workload]) -> list[Explained]:
    from dray.allocation.explanation.extended import explain_pod, use_of

    situation = source.situation
    cluster = situation.cluster
    if workloads and not cluster.nodes:
        raise InvalidError(
            f"no nodes in {cluster.source}: give Node objects, or slices with a nodeName", field="-f"
        )
    other = situation.other(source.switches)
    use = use_of(cluster.pods) if workloads else {}
    found = []
    with progress() as say:
        for number, one in enumerate(workloads, 1):
            say(f"explaining {one} ({number} of {len(workloads)}) on {len(cluster.nodes)} nodes")
            found.append(explain_pod(situation, one, cluster.nodes, use, other))
    return found


def _not_admitted(workloads: Sequence[Workload]) -> str:
    names = [one.name for one in workloads[:_MOST_NODES]]
    more = len(workloads) - len(names)
    listed = ", ".join(names) + (f" and {more} more" if more else "")
    return f"Not admitted by their kubelets (`dray explain pod/NAME` says why): {listed}"


def as_lines(found: Explained, *, colour: bool) -> list[str]:
    """A head line with the verdict, then the reasons of nodes that refuse."""
    from dray.cli.refusal_view import funnel_lines, reasons_lines
    from dray.cli.resource_view import resource_lines

    one = found.explanation
    lines = [f"{_head(one, colour=colour)} (profile {one.profile}, {one.tier} allocator)"]
    if said := one.verdict.error or one.workload.not_admitted or one.workload.not_started:
        lines.append(f"  {said}")
    if one.difference is not None:
        lines.append(painted(_otherwise(one.difference, one.tried), YELLOW, colour=colour))
    lines += resource_lines(found, colour=colour)
    reasons = _without_told(found)
    if one.verdict.fits_on and reasons.groups:
        lines += ["", *funnel_lines(reasons.groups)]
    elif reasons.groups:
        lines += ["", *reasons_lines(reasons, colour=colour)]
    return lines


def _otherwise(other: Difference, tried: int) -> str:
    text = f"Note: profile {other.profile} decides otherwise: {_shown(other.verdict, tried)}"
    if other.verdict.error:
        text += f": {other.verdict.error}"
    return f"{text} (because of {' or '.join(other.causes)})" if other.causes else text


def _without_told(found: Explained) -> Reasons:
    """The reasons without those that are in the table of resources already."""
    from dray.cli.resource_view import told_in_table

    told = told_in_table(found)
    reasons = found.explanation.reasons
    groups = tuple(
        group
        for group in reasons.groups
        if group.refusal.requests or group.refusal.reason != told.get(group.nodes[0])
    )
    return replace(reasons, groups=groups)


def _head(one: Explanation, *, colour: bool) -> str:
    workload = one.workload
    name = f"{workload.kind.capitalize()} {workload.name}"
    if workload.not_admitted:
        return painted(f"{name} was not admitted by the kubelet of {workload.node_name}", RED, colour=colour)
    if workload.is_leaving:
        return painted(f"{name} is being deleted", YELLOW, colour=colour)
    if workload.not_started and not one.verdict.error:
        text = f"{name} has its devices, but {_does_not(workload)} on {workload.node_name}"
        return painted(text, RED, colour=colour)
    if not workload.waits and not one.verdict.error:
        return painted(f"{name} has its devices already", GREEN, colour=colour)
    paint = GREEN if one.verdict.fits_on else RED
    return painted(f"{name} {_shown(one.verdict, one.tried)}", paint, colour=colour)


def _does_not(workload: Workload) -> str:
    from dray.allocation.cluster.workloads import is_starting

    return "does not start" if workload.pod is None or is_starting(workload.pod) else "does not keep running"


def _shown(verdict: Verdict, tried: int) -> str:
    if verdict.error:
        return f"cannot be decided on {'the one node' if tried == 1 else 'any node'}"
    stopped = len(verdict.stopped_on)
    if stopped and stopped == tried:
        return f"was not decided on {any_of(tried)}: the search for devices was stopped"
    if not verdict.fits_on and stopped:
        return f"was not decided on {stopped} of {tried} nodes, where the search for devices was stopped, and fits on none of the others"
    if not verdict.fits_on:
        return f"does not fit on {any_of(tried)}"
    names = list(verdict.fits_on[:_MOST_NODES])
    more = len(verdict.fits_on) - len(names)
    listed = ", ".join(names) + (f" and {more} more" if more else "")
    return f"fits on {some_of(len(verdict.fits_on), tried)}: {listed}"


def as_document(
    source: Source, explained: Sequence[Explained], left_out: Sequence[Workload] = ()
) -> dict[str, Any]:
    """The same for programs."""
    from dray.allocation.explanation.documents import explanation_document

    server = (source.server, source.version) if source.server else None
    return explanation_document(source.situation, explained, left_out, server=server, notes=source.notes)
