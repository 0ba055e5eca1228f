"""`python -m dray.testing.nvml record`: write down this machine's GPUs. Without this package, run `recorder.py` alone."""

from __future__ import annotations

import argparse
import sys


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m dray.testing.nvml", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("record", help="print a recording of this machine's GPUs; reads only")
    parser.parse_args(argv)
    from dray.testing.nvml import recorder

    return recorder.main()


if __name__ == "__main__":
    sys.exit(main())
