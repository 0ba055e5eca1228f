"""`dray new driver NAME`: the files of a driver for a new kind of device, ready to be tested, run and changed."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    kinds = parser.add_subparsers(dest="kind", metavar="driver", required=True)
    text = "a package with a driver written with dray.sdk"
    about = f"Write {text}: its code, its tests and what it is installed with, ready to run and to change."
    driver = kinds.add_parser("driver", help=text, description=about)
    driver.add_argument(
        "name",
        metavar="NAME",
        help="what the devices are, like lamp; or the whole name of the driver, like lamp.acme.io",
    )
    driver.add_argument(
        "--directory", type=Path, metavar="D", help="where to write it; must not exist (default NAME-driver)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write it all or nothing, and say what to do next."""
    from dray.sdk.skeleton import parse_name, write

    new = parse_name(arguments.name)
    directory: Path = arguments.directory or Path(new.project)
    written = write(new, directory)
    print(f"{directory}: driver {new.words['driver']}, resource {new.words['resource']}")
    for path in written:
        print(f"  {path}")
    print(f"\nNext: change src/{new.module}/__init__.py, and in {directory}")
    print("  python -m pip install -e . pytest")
    print("  python -m pytest")
    print(f"  {new.project} --list")
    return 0
