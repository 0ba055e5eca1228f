"""`python -m dray.testing.browser install`: install the browser, and what checks a page with it."""

from __future__ import annotations

import argparse
import sys

from dray.errors import Error
from dray.testing.browser.install import install
from dray.testing.browser.parts import locate


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m dray.testing.browser", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install", help="fetch what is missing")
    parser.parse_args(argv)
    try:
        install(locate(), say)
    except Error as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
