"""`dray bench`: take the figures of one benchmark, or of all, and show them beside their peers."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dray.errors import InvalidError

if TYPE_CHECKING:
    from dray.bench.measure import Figure

BENCHMARKS = {"api": "Decoding, quantities, watch events, idle memory and start time"}
"""Name and meaning; the code is in `dray.bench.<name>` and its `figures()` yields one figure after the other."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    names = "; ".join(f"{name}: {text}" for name, text in BENCHMARKS.items())
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"which one (all, if none is named). {names}")
    parser.add_argument(
        "-o", "--output", choices=["table", "json"], default="table", help="how to show the figures"
    )


def run(arguments: argparse.Namespace) -> int:
    """Take and show the figures; progress goes to stderr."""
    import importlib

    if arguments.name is not None and arguments.name not in BENCHMARKS:
        raise InvalidError(
            f"there is no benchmark {arguments.name!r}; choose from: {', '.join(BENCHMARKS)}", field="NAME"
        )
    taken: list[Figure] = []
    for name in [arguments.name] if arguments.name else BENCHMARKS:
        for figure in importlib.import_module(f"dray.bench.{name}").figures():
            taken.append(figure)
            print(f"{name}: {figure.name}", file=sys.stderr)
    print(as_json(taken) if arguments.output == "json" else as_table(taken))
    return 0


def as_json(figures: list[Figure]) -> str:
    """The figures and the machine they were taken on."""
    import json
    import os
    import platform

    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
    rows = [
        {
            "name": figure.name,
            "unit": figure.unit,
            "dray": figure.dray,
            "peer": figure.peer_name or None,
            "peerFigure": figure.peer,
            "ratio": figure.ratio,
        }
        for figure in figures
    ]
    return json.dumps({"machine": machine, "figures": rows}, indent=2)


def as_table(figures: list[Figure]) -> str:
    """Columns for people; a ratio above 1 means that Dray is better."""
    rows = [("WHAT", "UNIT", "DRAY", "PEER", "PEER'S", "RATIO")]
    for figure in figures:
        peer = "-" if figure.peer is None else f"{figure.peer:.4g}"
        ratio = "-" if figure.ratio is None else f"{figure.ratio:.2f}x"
        rows.append((figure.name, figure.unit, f"{figure.dray:.4g}", figure.peer_name or "-", peer, ratio))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
