"""What commands that decide on a cluster share: their flags, and how files or a server become that cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli.cluster import add_cluster_arguments
from dray.cli.feature_flags import add_feature_gates
from dray.cli.tables import progress
from dray.errors import InvalidError
from dray.runtime.clock import SystemClock

if TYPE_CHECKING:
    from dray.allocation.cluster.cluster_dump import Cluster
    from dray.allocation.cluster.situation import Situation
    from dray.allocation.features import Features
    from dray.allocation.profiles import Profile
    from dray.api.codec import Manifest
    from dray.api.field_errors import FieldError
    from dray.api.field_errors import Path as FieldPath
    from dray.semantics.features import GateSwitches


@dataclass(frozen=True, slots=True)
class Source:
    """The objects to decide on. `files` are those that lie over a live cluster: then only they are asked about.

    `server` and `version` are empty without a server; `namespace` is where names are looked for.
    """

    situation: Situation
    switches: GateSwitches
    namespace: str
    files: Cluster | None = None
    server: str = ""
    version: str = ""
    notes: tuple[str, ...] = ()


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """-f, --kubeconfig, --context, --data-dir, -n, --profile and --feature-gates."""
    parser.add_argument(
        "-f",
        "--filename",
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        help="slices, classes, claims, pods, nodes and taint rules (YAML or JSON, - for stdin); "
        "without it a cluster is read and never written, with it and --kubeconfig or --data-dir the files lie over that cluster",
    )
    add_cluster_arguments(parser)
    parser.add_argument(
        "--profile",
        metavar="P",
        help="whose decisions: correct, k8s-1.36 or k8s-1.37 (default: the server's version; for files correct)",
    )
    add_feature_gates(parser)
    parser.add_argument(
        "--timeout",
        type=seconds_above_zero,
        default=10.0,
        metavar="SECONDS",
        help="stop the search for devices on a node after so long, as kube-scheduler does (default 10)",
    )


def seconds_above_zero(text: str) -> float:
    """The type of `--timeout` where it is a plain number."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def read_text(name: str) -> bytes:
    """A file, or stdin for `-`."""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise InvalidError(f"cannot read {name}: {error.strerror}", field=name) from None


def read_source(arguments: argparse.Namespace) -> Source:
    """The cluster as the profile's scheduler sees it. Faults in files name file, line and field; notes go to stderr."""
    from dray.allocation.cluster.situation import Situation
    from dray.allocation.features import features_for
    from dray.allocation.profiles import profile_named
    from dray.semantics.features import parse_feature_gates

    switches = parse_feature_gates(arguments.feature_gates)
    if arguments.filename and not (arguments.kubeconfig or arguments.context or arguments.data_dir):
        profile = profile_named(arguments.profile or "correct")
        features = features_for(profile, switches)
        namespace = arguments.namespace or "default"
        files = _cluster(arguments.filename, features, "default")
        notes = (*files.notes, *_on_rules(files, profile, features))
        say_notes(notes)
        situation = Situation.of(files, profile, features).within(arguments.timeout, SystemClock().monotonic)
        return Source(situation, switches, namespace, notes=notes)
    return _read_server(arguments, switches)


def _on_rules(cluster: Cluster, profile: Profile, features: Features) -> Iterator[str]:
    """Whether taint rules count, where that may surprise."""
    number = len(cluster.taint_rules)
    if cluster.taint_rules and not features.device_taint_rules:
        yield (
            f"DeviceTaintRules in {cluster.source} do not count ({number} found): DRADeviceTaintRules is off, as it is in Kubernetes 1.36; "
            "--feature-gates DRADeviceTaintRules=true lets them count"
        )


def _read_server(arguments: argparse.Namespace, switches: GateSwitches) -> Source:
    import asyncio

    from dray.allocation.cluster.situation import Situation
    from dray.allocation.features import features_for
    from dray.allocation.profiles import profile_named, profile_of_server
    from dray.cli.cluster import find_cluster
    from dray.cli.live_cluster import read_live

    chosen = profile_named(arguments.profile) if arguments.profile else None
    access = find_cluster(arguments.kubeconfig, arguments.context, arguments.data_dir, files=True)
    with progress() as say:
        live = asyncio.run(read_live(access, arguments.namespace, say))
    profile, guess = profile_of_server(live.version.major, live.version.minor)
    notes = (*live.notes, *([guess] if guess and chosen is None else []))
    profile = chosen or profile
    has_rules = live.cluster.has_served_rules
    features = features_for(profile, switches, has_served_rules=has_rules)
    files = _cluster(arguments.filename, features, live.namespace) if arguments.filename else None
    cluster = live.cluster if files is None else live.cluster.under(files)
    notes += (*cluster.notes, *_on_rules(cluster, profile, features))
    say_notes(notes)
    situation = Situation.of(cluster, profile, features).within(arguments.timeout, SystemClock().monotonic)
    return Source(situation, switches, live.namespace, files, live.server, live.version.git_version, notes)


def _cluster(names: Iterable[str], features: Features, namespace: str) -> Cluster:
    from dray.allocation.cluster.cluster_dump import read_cluster
    from dray.allocation.selector import check_selector

    def check(expression: str, path: FieldPath, stored: bool) -> list[FieldError]:
        return check_selector(expression, path, stored, features)

    return read_cluster(read_manifests(names), check, namespace)


def read_manifests(names: Iterable[str]) -> Iterator[Manifest]:
    """The objects of all files, in order."""
    from dray.api.codec import load_documents

    for name in names:
        yield from load_documents(read_text(name), "<stdin>" if name == "-" else name)


def say_notes(notes: Iterable[str]) -> None:
    """What does not count, and what was guessed, to stderr."""
    for note in notes:
        print(f"dray: note: {note}", file=sys.stderr)


def any_of(number: int) -> str:
    """Where nothing fits."""
    return "the one node" if number == 1 else f"any of {number} nodes"


def some_of(number: int, every: int) -> str:
    """Where something fits."""
    return "the one node" if every == 1 and number == 1 else f"{number} of {every} nodes"


def shown_nodes(names: Sequence[str]) -> str:
    """One node by its name, several by their number."""
    return names[0] if len(names) == 1 else f"{len(names)} nodes"
