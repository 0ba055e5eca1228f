"""`run(driver)`: a driver as a program of its own, which serves until SIGTERM. The flags are those of `dray agent`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dray.agent.flags import add_cluster, add_host, read_options
from dray.errors import Error, InvalidError, UnavailableError
from dray.sdk.driver import Driver, check_driver

if TYPE_CHECKING:
    from dray.agent.options import AgentOptions

_FAILED: Final = 1
_BAD_INPUT: Final = 2
_UNREACHABLE: Final = 3


def run(driver: Driver, argv: Sequence[str] | None = None) -> None:
    """Offer the driver's devices to this machine's kubelet until SIGINT or SIGTERM. `argv` is the command line's.

    Ends the process with one line on stderr where it cannot: exit code 2 for bad input, 3 for a peer that is away, else 1.
    """
    from dray.runtime.logs import setup_logs

    try:
        check_driver(driver)
        arguments = _parser(driver).parse_args(argv)
        setup_logs(arguments.log_format, arguments.log_level)
        if arguments.list:
            _list(driver, arguments.host_root)
        else:
            _serve(driver, arguments)
    except Error as error:
        name = getattr(driver, "name", "") or "driver"
        sys.stderr.write(f"{name}: {error}\n")
        sys.exit(_exit_code(error))


def _exit_code(error: Error) -> int:
    if isinstance(error, InvalidError):
        return _BAD_INPUT
    return _UNREACHABLE if isinstance(error, UnavailableError) else _FAILED


def _serve(driver: Driver, arguments: argparse.Namespace) -> None:
    from dray.inventory.doors import Offered
    from dray.processes.agent import run_agent
    from dray.runtime.tasks import run_until_signalled
    from dray.sdk.adapter import own_kind

    kind = own_kind(driver, Offered(arguments.doors))
    options = _options(driver, arguments)
    run_until_signalled(lambda: run_agent(options, own=(kind,)))


def _options(driver: Driver, arguments: argparse.Namespace) -> AgentOptions:
    shared = read_options(arguments)
    state_dir: Path = arguments.state_dir or shared.kubelet_dir / "plugins" / driver.name / "state"
    return replace(shared, state_dir=state_dir.absolute())


def _list(driver: Driver, host_root: str) -> None:
    """What there is now, once: for authors, and for whoever wonders why a device is not there."""
    from dray.hardware.host_root import open_host_root
    from dray.sdk.adapter import adapt

    found = adapt(driver).discover(open_host_root(host_root))
    rows = [("DEVICE", "HEALTH", "ATTRIBUTES")]
    rows += [
        (one.id, one.reason or "healthy", " ".join(f"{key}={value}" for key, value in one.attributes.items()))
        for one in found.devices
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for row in rows:
        line = "  ".join((row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2]))
        sys.stdout.write(f"{line.rstrip()}\n")
    for problem in found.problems:
        sys.stderr.write(f"{problem.path}: {problem.message}\n")


def _parser(driver: Driver) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=f"Offers the devices of {driver.name} to this machine's kubelet."
    )
    parser.add_argument("--list", action="store_true", help="show the devices of this machine, and end")
    choices = ["plugin", "dra", "both"] if driver.resource else ["dra"]
    parser.add_argument(
        "--doors",
        choices=choices,
        default=choices[-1],
        help=f"as a device plugin, through DRA, or both (default {choices[-1]})",
    )
    add_host(parser, metrics="none", reads_environment=True)
    parser.add_argument(
        "--state-dir",
        type=Path,
        metavar="D",
        help="what must be known after a restart (default: with the driver, in the kubelet's directory)",
    )
    add_cluster(parser.add_argument_group("the API server, for DRA"), reads_environment=True)
    _add_logs(parser.add_argument_group("logs"))
    return parser


def _add_logs(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--log-format", choices=["text", "json"], default="text")
    group.add_argument("--log-level", choices=["debug", "info", "warning", "error"], default="info")
