"""`python -m dray.testing.machine install|run`: install the parts; run one command in a guest of its own."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dray.errors import Error
from dray.testing.machine.install import install
from dray.testing.machine.parts import locate


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m dray.testing.machine", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install", help="fetch and build what is missing")
    run = commands.add_parser("run", help="boot, run a command in the guest, show what it printed")
    run.add_argument("--timeout", type=float, default=60.0, help="seconds (default: %(default)s)")
    run.add_argument("argv", nargs="+", metavar="COMMAND")
    args = parser.parse_args(argv)
    try:
        if args.command == "install":
            install(locate(), say)
            return 0
        return _run(args.argv, args.timeout)
    except Error as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _run(argv: list[str], timeout: float) -> int:
    from dray.testing.machine.machine import Machine

    with Machine(locate(), save_logs=Path("build/e2e-logs")) as machine:
        done = machine.run(argv, timeout=timeout)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
