"""`dray apiserver`: the Kubernetes API for this machine, kept in one directory."""

from __future__ import annotations

import argparse
from pathlib import Path

LISTEN = "127.0.0.1:6473"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=Path("/var/lib/dray/apiserver"),
        metavar="D",
        help="objects, certificates, tokens and admin.kubeconfig (default /var/lib/dray/apiserver)",
    )
    parser.add_argument(
        "--listen",
        default=LISTEN,
        metavar="A",
        help=f"HOST:PORT (default {LISTEN}; port 0: one that is free); another address than loopback opens it to the network",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    from dray.apiserver.http.server import Address
    from dray.cli.agent import parse_address
    from dray.errors import InvalidError
    from dray.processes.apiserver import ApiServerOptions, run_apiserver
    from dray.runtime.tasks import run_until_signalled

    found = parse_address(arguments.listen, "--listen")
    if found is None:
        raise InvalidError(f"--listen must be HOST:PORT, like {LISTEN}", field="--listen")
    options = ApiServerOptions(arguments.data_dir.absolute(), Address(*found))
    run_until_signalled(lambda: run_apiserver(options))
    return 0
