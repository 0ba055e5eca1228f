"""`dray up`: everything on this machine. For now it shows what the machine has; the serving parts follow."""

from __future__ import annotations

import argparse
from pathlib import Path

import dray
from dray.cli import devices


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--host-root", default="/", metavar="R", help="where the host's /sys, /proc and /dev are (default /)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Show the devices."""
    print(f"Dray {dray.__version__}: devices of this machine\n")
    code = devices.run(
        argparse.Namespace(
            host_root=arguments.host_root, config=None, kubelet_dir=Path("/var/lib/kubelet"), output="table"
        )
    )
    print(
        "\nThis command shows devices; `dray agent` serves them to a kubelet. `dray devices -o json` gives the same to a program."
    )
    return code
