"""`dray check`: does a device plugin or a DRA driver, whoever wrote it, keep to the kubelet's contract?"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dray.cli import exit_codes
from dray.errors import InvalidError

if TYPE_CHECKING:
    from dray.testing.check.rules import Report

WITHIN_SECONDS = 20.0
_EPILOG = """With a SOCKET only the rules are applied that are safe while a kubelet uses it. After -- a COMMAND is started
in private directories, and every rule is applied. In COMMAND these stand for what it should use: {kubelet-dir}
{device-plugin-dir} {registry-dir} {plugins-dir} {cdi-dir} {work-dir} {node-name} {kubeconfig}. As root the directories
are also mounted, for the command alone, over /var/lib/kubelet and /var/run/cdi."""


class _Split(argparse.ArgumentParser):
    """Takes what stands after the first `--` as it is."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(args if args is not None else sys.argv[1:])
        command: list[str] | None = None
        if "--" in words:
            at = words.index("--")
            words, command = words[:at], words[at + 1 :]
        found, left = super().parse_known_args(words, namespace)
        found.program = command
        return found, left


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    kinds = parser.add_subparsers(dest="kind", metavar="plugin|driver", required=True, parser_class=_Split)
    for kind, text in (("plugin", "a device plugin"), ("driver", "a DRA driver")):
        usage = f"dray check {kind} [flags] (SOCKET | -- COMMAND...)"
        about = f"Check whether {text}, whoever wrote it, keeps to the kubelet's contract."
        one = kinds.add_parser(kind, help=f"check {text}", description=about, usage=usage, epilog=_EPILOG)
        one.add_argument("socket", nargs="?", type=Path, metavar="SOCKET", help="the socket it serves")
        one.add_argument(
            "--kubeconfig", type=Path, metavar="K", help="the cluster it uses (none: an API server is played)"
        )
        one.add_argument(
            "--cdi-dir",
            type=Path,
            default=Path("/var/run/cdi"),
            metavar="D",
            help="where a driver on a SOCKET writes its CDI files (default /var/run/cdi)",
        )
        one.add_argument(
            "--within",
            type=float,
            default=WITHIN_SECONDS,
            metavar="S",
            help=f"seconds it gets to register, to come back and to end (default {WITHIN_SECONDS:g})",
        )
        one.add_argument(
            "-o",
            "--output",
            choices=["table", "json"],
            default="table",
            help="how to show it (default table)",
        )


def run(arguments: argparse.Namespace) -> int:
    """Apply the rules and show the report; progress goes to stderr. 1 where a rule is broken."""
    import asyncio

    from dray.testing.check.report import as_json, as_table

    program: Sequence[str] | None = arguments.program
    if (arguments.socket is None) == (program is None):
        raise InvalidError("give either a SOCKET or -- COMMAND", field="SOCKET")
    if not arguments.within > 0:
        raise InvalidError("--within must be more than 0 seconds", field="--within")
    report = asyncio.run(_check(arguments, program))
    if arguments.output == "json":
        print(as_json(report))
    else:
        print(as_table(report, colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR")))
    return exit_codes.DONE if report.is_kept else exit_codes.REFUSED


def _say(text: str) -> None:
    print(text, file=sys.stderr)


async def _check(arguments: argparse.Namespace, program: Sequence[str] | None) -> Report:
    from dray.testing.check.rules import Pace

    # Who gives little time wants an answer in little time.
    pace = Pace(within=arguments.within, stays=min(2.0, arguments.within), away=min(1.5, arguments.within))
    kubeconfig = arguments.kubeconfig and arguments.kubeconfig.absolute()
    if arguments.kind == "plugin":
        from dray.testing.check.plugin import run as plugin

        if program is None:
            return await plugin.check_socket(arguments.socket.absolute(), pace=pace, say=_say)
        return await plugin.check_command(program, pace=pace, say=_say, kubeconfig=kubeconfig)
    from dray.testing.check.driver import run as driver

    if program is None:
        return await driver.check_socket(
            arguments.socket.absolute(),
            pace=pace,
            say=_say,
            kubeconfig=kubeconfig,
            cdi_dir=arguments.cdi_dir,
        )
    return await driver.check_command(program, pace=pace, say=_say, kubeconfig=kubeconfig)
