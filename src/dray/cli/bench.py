"""`dray bench`: take the figures of one benchmark, or of all, and show them beside their peers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dray.errors import InvalidError

if TYPE_CHECKING:
    from dray.bench.left_out import LeftOut
    from dray.bench.measure import Figure

BENCHMARKS = {
    "api": "Decoding, quantities, watch events, idle memory and start time",
    "agent": "The node agent beside a device plugin in Go: memory, idle CPU, unplug and Allocate times, pod starts",
    "allocation": "The allocator with its index beside Kubernetes' own, in Go: pods placed a second, single nodes, memory",
    "scheduler": "The scheduler beside kube-scheduler on a real API server: pods bound a second, CPU, 500 and 5,000 nodes",
    "driver": "The DRA driver beside the Go test-driver: NodePrepareResources, unplug to slice, start, memory, pods with claims",
    "kubelet": "The kubelet's devices and topology beside Kubernetes' own, in Go: admissions a second, p99, memory, merges",
    "apiserver": "The API server beside kube-apiserver with etcd: durable writes, 1,000 watchers, lists of 50,000 objects, memory",
    "up": "`dray up` with a simulated fleet of 1,000 nodes x 8 GPUs: start, 1,000 claims at once, memory, idle CPU",
}
"""Name and meaning; the code is in `dray.bench.<name>` and its `figures()` yields one figure after the other."""
_WITH_CLUSTER = ("agent", "driver")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    names = "; ".join(f"{name}: {text}" for name, text in BENCHMARKS.items())
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"which one (all, if none is named). {names}")
    parser.add_argument(
        "-o",
        "--output",
        choices=["table", "json"],
        default="table",
        help="how to show the figures (default table)",
    )
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="agent, driver: start pods on a real Kubernetes too (as root, with what `make e2e` installs; some minutes)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Take and show the figures; progress goes to stderr."""
    from dray.bench.measure import Figure

    if arguments.name is not None and arguments.name not in BENCHMARKS:
        raise InvalidError(
            f"there is no benchmark {arguments.name!r}; choose from: {', '.join(BENCHMARKS)}", field="NAME"
        )
    taken: list[Figure] = []
    left_out: list[LeftOut] = []
    for name in [arguments.name] if arguments.name else BENCHMARKS:
        for one in _figures(name, arguments.cluster):
            if isinstance(one, Figure):
                taken.append(one)
                print(f"{name}: {one.name}", file=sys.stderr)
            else:
                left_out.append(one)
    print(as_json(taken, left_out) if arguments.output == "json" else as_table(taken, left_out))
    return 0


def _figures(name: str, cluster: bool) -> Iterator[Figure | LeftOut]:
    from importlib import import_module

    figures = import_module(f"dray.bench.{name}").figures
    options: dict[str, object] = {"cluster": cluster} if name in _WITH_CLUSTER else {}
    if name != "api":
        options["say"] = lambda text: print(f"{name}: {text}", file=sys.stderr)
    found: Iterator[Figure | LeftOut] = figures(**options)
    return found


def as_json(figures: Sequence[Figure], left_out: Sequence[LeftOut] = ()) -> str:
    """The figures, what was not measured, and the machine they were taken on."""
    import json
    import os
    import platform

    machine = {
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "system": platform.platform(),
    }
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
    missing = [{"name": one.name, "why": one.why} for one in left_out]
    return json.dumps({"machine": machine, "figures": rows, "leftOut": missing}, indent=2)


def as_table(figures: Sequence[Figure], left_out: Sequence[LeftOut] = ()) -> str:
    """Columns for people; a ratio above 1 means that Dray is better. What was not measured stands below."""
    rows = [("WHAT", "UNIT", "DRAY", "PEER", "PEER'S", "RATIO")]
    for figure in figures:
        peer = "-" if figure.peer is None else f"{figure.peer:.4g}"
        ratio = "-" if figure.ratio is None else f"{figure.ratio:.2f}x"
        rows.append((figure.name, figure.unit, f"{figure.dray:.4g}", figure.peer_name or "-", peer, ratio))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([*lines, *(f"left out: {one.name}: {one.why}" for one in left_out)])
