"""`dray describe`: one object in full, with its devices, its holders, why it waits, and what happened to it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from dray.cli import exit_codes
from dray.cli.cluster import add_cluster_arguments, ask
from dray.errors import DeniedError, Error, InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dray.api.kinds import Resource
    from dray.cli.cluster import Asked
    from dray.cli.kind_names import Kind, Target
    from dray.cli.views.sections import Paper

_FIRST_LINES = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "words",
        nargs="+",
        metavar="KIND[/NAME]",
        help="node, pod, claim, device, class, slice or template, then names (none: all); other kinds are shown as YAML",
    )
    parser.add_argument(
        "-l", "--selector", default="", metavar="L", help="only with these labels (key=value,…)"
    )
    parser.add_argument(
        "--no-explain",
        action="store_true",
        help="leave out why a pod or claim does not fit, which takes longer",
    )
    add_cluster_arguments(parser, everywhere=True)


def run(arguments: argparse.Namespace) -> int:
    """1 where a name is not there."""
    ask(arguments, lambda asked: _describe(arguments, asked))
    return exit_codes.DONE


async def _describe(arguments: argparse.Namespace, asked: Asked) -> None:
    from dray.cli.kind_names import PLUGINS, read_targets
    from dray.cli.tables import has_colour, terminal_width
    from dray.cli.views.sections import Paper

    paper = Paper(has_colour(), terminal_width())
    blocks: list[str] = []
    for target in await read_targets(arguments.words, asked.client):
        if target.kind.view == PLUGINS:
            raise InvalidError(
                "plugins have no description; `dray get plugins -o wide` shows all of them", field="KIND"
            )
        blocks += await _blocks(arguments, asked, target, paper)
    asked.say("")
    if not blocks:
        print("Nothing to describe", file=sys.stderr)
    print("\n\n\n".join(blocks), end="\n" if blocks else "")


async def _blocks(arguments: argparse.Namespace, asked: Asked, target: Target, paper: Paper) -> list[str]:
    from dray.api.codec import dump_yaml, view
    from dray.cli.views.chosen import choose_devices, read_documents
    from dray.cli.views.describe_fleet import describe_device
    from dray.cli.views.fleet import fleet
    from dray.cli.views.objects import read_related
    from dray.runtime.clock import SystemClock

    kind = target.kind
    if kind.resource is None:
        around = await read_related(asked, _needed(kind), SystemClock().now)
        devices = choose_devices(fleet(around.slices, around.claims, around.rules), target.names)
        return ["\n".join(describe_device(one, around, paper)) for one in devices]
    documents = await read_documents(asked, target, arguments.selector)
    draw = _drawings().get(kind.view)
    if draw is None:
        return [dump_yaml(_short(one)).rstrip() for one in documents]
    around = await read_related(asked, _needed(kind), SystemClock().now)
    blocks = []
    for document in documents:
        found = view(document, kind.resource.type)
        explanation = [] if arguments.no_explain else await _explained(asked, kind, found)
        more = {"explanation": explanation} if kind.view in ("pods", "claims") else {}
        blocks.append("\n".join(draw(found, around, paper, **more)))
    return blocks


def _drawings() -> dict[str, Callable[..., list[str]]]:
    from dray.cli.views import describe_fleet, describe_workloads

    return {
        "nodes": describe_fleet.describe_node,
        "classes": describe_fleet.describe_class,
        "slices": describe_fleet.describe_slice,
        "pods": describe_workloads.describe_pod,
        "claims": describe_workloads.describe_claim,
        "claimtemplates": describe_workloads.describe_template,
    }


def _needed(kind: Kind) -> Sequence[Resource[Any]]:
    from dray.api.kinds import (
        DEVICE_CLASSES,
        DEVICE_TAINT_RULES,
        EVENTS,
        PODS,
        RESOURCE_CLAIMS,
        RESOURCE_SLICES,
    )

    held = (RESOURCE_SLICES, RESOURCE_CLAIMS, DEVICE_TAINT_RULES)
    return {
        "nodes": (*held, PODS, EVENTS),
        "devices": (*held, EVENTS),
        "slices": held,
        "classes": (RESOURCE_CLAIMS,),
        "pods": (RESOURCE_CLAIMS, EVENTS),
        "claims": (PODS, DEVICE_CLASSES, EVENTS),
        "claimtemplates": (PODS,),
    }[kind.view]


def _short(document: dict[str, Any]) -> dict[str, Any]:
    """Without who set which field, which is long and for machines."""
    metadata = {key: value for key, value in document["metadata"].items() if key != "managedFields"}
    return {**document, "metadata": metadata}


async def _explained(asked: Asked, kind: Kind, found: Any) -> list[str]:
    """The first lines of `dray explain` for a pod or claim that waits for devices; none where that cannot be read."""
    from dray.cli.views.claim_words import why_pod_waits

    if kind.view == "pods":
        waits = bool(not found.spec.node_name and why_pod_waits(found))
        name = f"pod/{found.metadata.name}"
    elif kind.view == "claims":
        waits, name = found.status.allocation is None, found.metadata.name
    else:
        return []
    if not waits or found.metadata.deletion_timestamp is not None:
        return []
    try:
        lines = await _first_lines(asked, name, found.metadata.namespace)
    except DeniedError as error:
        return [f"cannot be told: {error}"]
    except Error as error:
        return [f"cannot be told: {error}"]
    return lines[:_FIRST_LINES] + (["…"] if len(lines) > _FIRST_LINES else [])


async def _first_lines(asked: Asked, name: str, namespace: str) -> list[str]:
    from dray.allocation.budget import FILTER_SECONDS
    from dray.allocation.cluster.situation import Situation
    from dray.allocation.cluster.workloads import find_workload
    from dray.allocation.explanation.extended import explain_pod, use_of
    from dray.allocation.features import features_for
    from dray.allocation.profiles import profile_of_server
    from dray.cli.explain import as_lines
    from dray.cli.live_cluster import read_live
    from dray.runtime.clock import SystemClock

    live = await read_live(asked.client.access, namespace, asked.say)
    profile, _ = profile_of_server(live.version.major, live.version.minor)
    features = features_for(profile, has_served_rules=live.cluster.has_served_rules)
    workload = find_workload(live.cluster, name, namespace)
    if not live.cluster.nodes or not (workload.waits or workload.pending):
        return []
    asked.say(f"explaining {workload}")
    situation = Situation.of(live.cluster, profile, features).within(FILTER_SECONDS, SystemClock().monotonic)
    explained = explain_pod(situation, workload, live.cluster.nodes, use_of(live.cluster.pods))
    return as_lines(explained, colour=False)
