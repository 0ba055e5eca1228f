"""Find the command, load only its module, run it, and turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Protocol, cast

import dray
from dray.cli import exit_codes
from dray.errors import Error, InvalidError

COMMANDS = {
    "demo": "See a device on its way to a container, stage by stage, on this machine; nothing is left behind",
    "up": "Start everything on this machine: API server, scheduler, controllers, kubelet, agent, dashboard",
    "down": "End what `dray up` started; with --purge, all that it kept",
    "status": "Whether `dray up` runs here, how its parts are, and what there is",
    "kubelet": "Give devices to the pods of this machine and run their containers",
    "agent": "The node agent: offers this machine's devices to its kubelet",
    "apiserver": "The Kubernetes API for this machine: objects, watches, kubectl",
    "scheduler": "Put pods on nodes, with their devices",
    "controllers": "Make, free and remove pods' claims, enforce taints; guard against double allocations",
    "devices": "What this machine has, by kind, with health, NUMA node and IOMMU group",
    "cdi": "Check CDI spec files, and put CDI devices into a container's OCI spec",
    "cel": "Try a device selector: errors, cost, and which devices it matches",
    "allocate": "Run the allocator over manifests or a live cluster: which devices claims get, or why they get none",
    "explain": "Why claims and pods do not fit or were not admitted, node by node, and what would make them fit",
    "simulate": "How many more of these claims fit, where, and what runs out first",
    "get": "Objects of a cluster as tables: nodes, pods, claims, devices, plugins and all else the server has",
    "describe": "One node, pod, claim, device, class or slice with its devices, holders and events",
    "apply": "Make a cluster's objects as files say; what is missing is created",
    "delete": "Delete objects by file or by name",
    "logs": "What the containers of a pod wrote",
    "events": "What happened to pods, claims and nodes, the newest last",
    "top": "The fleet at a glance, live: devices, nodes, waiting claims, last events",
    "dashboard": "The fleet in a browser: devices, who has them, and why somebody has none",
    "taint": "Keep pods off a device or a node's devices; says first who would have to go",
    "untaint": "Take such a taint back",
    "completion": "Print what makes a shell complete dray's words",
    "doctor": "What is wrong with this node or laptop, and how to mend it; support bundle",
    "check": "Whether a device plugin or a DRA driver keeps to the kubelet's contract, rule by rule",
    "new": "Write the skeleton of a driver of your own, with tests",
    "bench": "The benchmarks, with peers side by side",
}
"""Name and help of each command; its code is in `dray.cli.<name>` and is imported only when it is called."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["__complete"]:  # asked by a shell at every Tab
        from dray.cli.complete import complete

        return complete(words[1:])
    arguments = make_parser(words).parse_args(words)
    if arguments.command is None:
        make_parser(words).print_help()
        return exit_codes.BAD_INPUT
    try:
        return _run(arguments)
    except Error as error:
        _report(error)
        return exit_codes.exit_code(error)
    except BrokenPipeError:
        # The reader went away (`dray devices | head`): not our fault, and nothing more to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.DONE
    except KeyboardInterrupt:
        return 130


class _Help(argparse.HelpFormatter):
    """Leaves room for the longest command: argparse forgets that commands are indented."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self._action_max_length = max(map(len, COMMANDS)) + 4


def make_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for these words: all commands by name, arguments only of the one that is called."""
    parser = argparse.ArgumentParser(
        prog="dray",
        formatter_class=_Help,
        description="Finds the devices of a machine, tells Kubernetes about them, and hands them to containers.",
        epilog="`dray COMMAND --help` tells more. Exit codes: 0 done, 1 refused or failed, 2 bad input, 3 a peer is away.",
    )
    parser.add_argument("--version", action="version", version=f"dray {dray.__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    called = next((word for word in words if not word.startswith("-")), None)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=f"{text}.")
        if name == called:
            _module(name).add_arguments(command)
            _add_log_arguments(command)
    return parser


def _add_log_arguments(parser: argparse.ArgumentParser) -> None:
    logs = parser.add_argument_group("logs")
    logs.add_argument(
        "--log-format", choices=["text", "json"], default="text", help="key=value lines or JSON lines"
    )
    logs.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default=parser.get_default("log_level") or "info",
        help="from this level on",
    )


class Command(Protocol):
    """What each module of a command offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its flags."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it; gives the exit code or raises a Dray error."""
        ...


def _module(name: str) -> Command:
    return cast("Command", importlib.import_module(f"dray.cli.{name}"))


def _run(arguments: argparse.Namespace) -> int:
    from dray.runtime.logs import setup_logs

    setup_logs(arguments.log_format, arguments.log_level)
    code = _module(arguments.command).run(arguments)
    sys.stdout.flush()
    return int(code)


def _report(error: Error) -> None:
    causes = error.causes if isinstance(error, InvalidError) else ()
    if len(causes) > 1:
        lines = [f"dray: {len(causes)} faults:", *(f"  {cause}" for cause in causes)]
    else:
        lines = [f"dray: {error}"]
    print("\n".join(lines), file=sys.stderr)
