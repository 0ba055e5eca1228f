"""`dray dashboard`: the fleet in a browser, against any cluster that may be read."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli.apiserver import add_allow_host
from dray.cli.cluster import access_of, add_cluster_arguments
from dray.errors import InvalidError

if TYPE_CHECKING:
    from dray.processes.dashboard import DashboardOptions

LISTEN = "127.0.0.1:9620"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--listen",
        default=LISTEN,
        metavar="A",
        help=f"where browsers reach it (default {LISTEN}; port 0: any)",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="F",
        help="where the token is, or is kept if there is none yet (default: a new one at each start)",
    )
    parser.add_argument(
        "--state-dir",
        type=Path,
        metavar="D",
        help="note there what is being explained: an object whose explanation ends the dashboard three times is left alone (default: nowhere)",
    )
    add_allow_host(parser, "browsers may call it (behind a proxy or port forwarding)")
    add_cluster_arguments(parser, namespace=False)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    from dray.processes.dashboard import run_dashboard
    from dray.runtime.tasks import run_until_signalled

    options = make_options(arguments)
    run_until_signalled(lambda: run_dashboard(options))
    return 0


def make_options(arguments: argparse.Namespace) -> DashboardOptions:
    """InvalidError names the flag."""
    from dray.processes.dashboard import DashboardOptions
    from dray.runtime.flags import check_allowed, parse_address

    address = parse_address(arguments.listen, "--listen")
    if address is None:
        raise InvalidError("--listen must be HOST:PORT; without an address there is no dashboard", field="--listen")  # fmt: skip
    allowed = check_allowed(arguments.allow_host)
    return DashboardOptions(access_of(arguments), address, arguments.token_file, allowed, arguments.state_dir)
