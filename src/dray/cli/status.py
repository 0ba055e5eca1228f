"""`dray status`: whether `dray up` runs here, how its parts are, and what there is."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dray.cli import exit_codes
from dray.cli.tables import BOLD, clean, columns, has_colour, painted, painted_state, print_document
from dray.cli.up import add_data_dir

if TYPE_CHECKING:
    from dray.up.status import Status

_SHOWN = {"devices": "DRA devices"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_data_dir(parser)
    parser.add_argument(
        "-o",
        "--output",
        choices=["table", "json", "yaml"],
        default="table",
        help="how to show it (default table)",
    )


def run(arguments: argparse.Namespace) -> int:
    """0 where it runs and its parts are well, else 1."""
    import asyncio

    from dray.up.place import UpPlace, default_data_dir
    from dray.up.status import read_status

    place = UpPlace((arguments.data_dir or default_data_dir()).absolute())
    found = asyncio.run(read_status(place))
    if arguments.output == "table":
        print("\n".join(as_lines(found, str(place.data_dir), colour=has_colour())))
    else:
        print_document(as_document(found, str(place.data_dir)), arguments.output)
    return exit_codes.DONE if found.is_healthy else exit_codes.REFUSED


def as_document(found: Status, data_dir: str) -> dict[str, Any]:
    """For programs. Keys stay; others may join."""
    from msgspec import to_builtins

    return {
        "state": _state(found),
        "healthy": found.is_healthy,
        "dataDir": data_dir,
        "running": to_builtins(found.running),
        "supervisor": to_builtins(found.supervisor),
        "parts": dict(found.parts),
        "counts": {kind: dict(states) for kind, states in found.counts.items()},
    }


def as_lines(found: Status, data_dir: str, *, colour: bool = False) -> list[str]:
    """For people. Pure."""
    running = found.running
    if running is None:
        return _absent(found, data_dir)
    from dray.cli.up_view import facts

    head = f"Dray {running.version} runs since {running.since} (process {running.pid})."
    page = f"{running.dashboard} (token: {running.data_dir}/dashboard.token)" if running.dashboard else ""
    rows = [*facts(running, page), *_counted(found.counts), ("  supervisor", _supervisor(found))]
    parts = columns([(f"  {name}", clean(told)) for name, told in found.parts.items()])
    shown = (line if not colour or not line.endswith(" ok") else _green(line) for line in parts)
    return [painted(head, BOLD, colour=colour), "", *columns(rows), "", "Parts:", *shown]


def _absent(found: Status, data_dir: str) -> list[str]:
    if found.is_starting:
        return [f"Dray starts on {data_dir}; it is not ready yet."]
    if (known := found.supervisor) is not None:
        last = f" ({known.last})" if known.last else ""
        again = f"its supervisor (process {known.pid}) starts it again; restarts so far: {known.restarts}"
        return [f"Dray is down on {data_dir}{last}, and {again}. Its log: {data_dir}/dray.log"]
    return [f"Dray does not run on {data_dir}; `dray up` starts it."]


def _state(found: Status) -> str:
    if found.running is not None:
        return "running"
    if found.is_starting:
        return "starting"
    return "down" if found.supervisor is None else "restarting"


def _counted(counts: Mapping[str, Mapping[str, int]]) -> list[tuple[str, str]]:
    return [
        (
            f"  {_SHOWN.get(kind, kind)}",
            ", ".join(f"{number} {state}" for state, number in sorted(states.items())) or "none",
        )
        for kind, states in counts.items()
    ]


def _supervisor(found: Status) -> str:
    running, supervisor = found.running, found.supervisor
    if supervisor is not None:
        last = f", the last after {supervisor.last}" if supervisor.last else ""
        return f"process {supervisor.pid}; restarts: {supervisor.restarts}{last}"
    name = running.supervisor if running is not None else ""
    if name == "dray":
        return "gone: nobody starts it again (`dray down`, then `dray up --detach`)"
    return name or "none: it ends with its terminal"


def _green(line: str) -> str:
    return f"{line.removesuffix('ok')}{painted_state('Ready', 'ok')}"
