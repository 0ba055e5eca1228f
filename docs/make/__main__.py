"""`python -m docs.make [site] [--check]`, called by `make docs`."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from docs.make.made import Made, write
from docs.make.performance import plots
from docs.make.reference import reference


def main() -> int:
    """Write what is stale; with --check only tell, and end with 1."""
    parser = argparse.ArgumentParser(prog="python -m docs.make")
    parser.add_argument("what", nargs="?", choices=["site"], help="the site too, in build/site")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if something is stale")
    arguments = parser.parse_args()
    stale = write(everything(), check=arguments.check)
    verb = "stale: run `make docs`" if arguments.check else "written"
    for path in stale:
        sys.stdout.write(f"{path}: {verb}\n")
    if arguments.what == "site":
        from docs.make.site import build

        logging.basicConfig(format="%(message)s", level=logging.WARNING)
        build(Path("build/site"), Path("build/pages"))
    return 1 if stale and arguments.check else 0


def everything() -> list[Made]:
    """All files as they should be."""
    return [*reference(), *plots()]


if __name__ == "__main__":
    sys.exit(main())
