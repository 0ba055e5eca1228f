"""`python -m dray.testing.kubernetes install|up|clean`: install the parts, start a cluster by hand, clean up."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from dray.errors import Error
from dray.testing.kubernetes import leftovers
from dray.testing.kubernetes.install import check_machine, install
from dray.testing.kubernetes.tools import locate


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m dray.testing.kubernetes", description=__doc__)
    parser.add_argument(
        "--modules",
        type=Path,
        default=Path("tests/e2e/tools"),
        help="the tools modules (default: %(default)s)",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install", help="build and unpack what is missing")
    up = commands.add_parser("up", help="run a cluster until Ctrl-C")
    up.add_argument("--control-plane", action="store_true", help="etcd and API server only")
    up.add_argument("--keep", action="store_true", help="copy the logs to build/e2e-logs at the end")
    commands.add_parser("clean", help="remove what dead clusters left")
    commands.add_parser("reap", help="(internal) clean up after the owner").add_argument(
        "directory", type=Path
    )
    args = parser.parse_args(argv)
    try:
        return _run(args)
    except Error as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _run(args: argparse.Namespace) -> int:
    if args.command == "install":
        install(locate(args.modules), say)
    elif args.command == "up":
        _up(args)
    elif args.command == "clean":
        for directory in leftovers.sweep_dead():
            say(f"removed {directory}")
    else:
        _reap(args.directory)
    return 0


def _up(args: argparse.Namespace) -> None:
    check_machine()
    # Imported here: both need `cryptography`, which `install` can do without.
    from dray.testing.kubernetes.cluster import Cluster
    from dray.testing.kubernetes.control_plane import ControlPlane

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    kind = ControlPlane if args.control_plane else Cluster
    with kind(locate(args.modules), save_logs=Path("build/e2e-logs") if args.keep else None) as cluster:
        cluster.failed = args.keep
        say(f"directory  {cluster.directory}")
        say(f"kubeconfig {cluster.kubeconfig}")
        say(f"kubectl    {cluster.tools.path('kubectl')} --kubeconfig={cluster.kubeconfig}")
        if isinstance(cluster, Cluster):
            say(f"enter      {' '.join(cluster.enter())}")
        say("running; Ctrl-C stops it and removes everything")
        with suppress(KeyboardInterrupt):
            signal.pause()
    if cluster.saved_logs is not None:
        say(f"logs       {cluster.saved_logs}")


def _reap(directory: Path) -> None:
    """Wait for the end of the owner (its end of our stdin closes), then sweep what it left."""
    while os.read(0, 1024):
        pass
    if directory.exists():
        leftovers.sweep(directory)


if __name__ == "__main__":
    sys.exit(main())
