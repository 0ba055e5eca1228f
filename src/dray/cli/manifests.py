"""What commands that work on files share: which flags they take, and how the files become a cluster."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dray.errors import InvalidError

if TYPE_CHECKING:
    from dray.allocation.cluster_dump import Cluster
    from dray.allocation.features import Features
    from dray.allocation.situation import Situation
    from dray.api.codec import Manifest
    from dray.api.field_errors import FieldError
    from dray.api.field_errors import Path as FieldPath

GREEN, RED, YELLOW, BOLD, PLAIN = "\033[32m", "\033[31m", "\033[33m", "\033[1m", "\033[0m"


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    """-f, --profile and --feature-gates."""
    parser.add_argument(
        "-f",
        "--filename",
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        help="slices, classes, claims, pods, nodes and taint rules (YAML or JSON, - for stdin)",
    )
    parser.add_argument(
        "--profile",
        default="correct",
        metavar="P",
        help="whose decisions: correct (default), k8s-1.36 or k8s-1.37",
    )
    parser.add_argument(
        "--feature-gates",
        default="",
        metavar="GATE=BOOL,…",
        help="Kubernetes' DRA gates where they are not as in 1.36; correct has DRAListTypeAttributes on too",
    )


def read_text(name: str) -> bytes:
    """A file, or stdin for `-`."""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise InvalidError(f"cannot read {name}: {error.strerror}", field=name) from None


def read_situation(arguments: argparse.Namespace) -> Situation:
    """The cluster in the files as the profile's scheduler sees it; faults name file, line and field."""
    from dray.allocation.profiles import profile_named
    from dray.allocation.situation import Situation, features_for

    profile = profile_named(arguments.profile)
    features = features_for(profile, arguments.feature_gates)
    return Situation.of(_cluster(arguments.filename, features), profile, features)


def _cluster(names: Iterable[str], features: Features) -> Cluster:
    from dray.allocation.cluster_dump import read_cluster
    from dray.allocation.selector import check_selector

    def check(expression: str, path: FieldPath, stored: bool) -> list[FieldError]:
        return check_selector(expression, path, stored, features)

    return read_cluster(_manifests(names), check)


def _manifests(names: Iterable[str]) -> Iterator[Manifest]:
    from dray.api.codec import load_documents

    for name in names:
        yield from load_documents(read_text(name), "<stdin>" if name == "-" else name)


def has_colour() -> bool:
    """Whether stdout takes colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table, as wide as it must be."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def painted(text: str, paint: str, *, colour: bool) -> str:
    """The text in a colour, where there are colours."""
    return f"{paint}{text}{PLAIN}" if colour else text


def shown_nodes(names: Sequence[str]) -> str:
    """One node by its name, several by their number."""
    return names[0] if len(names) == 1 else f"{len(names)} nodes"
