"""Find the command, load only its module, run it, and turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Protocol, cast

import dray
from dray.cli import exit_codes
from dray.errors import Error, InvalidError, InvariantError

GROUPS = {
    "on this machine": {
        "demo": "See a device on its way into a container, stage by stage",
        "up": "Start everything here: API server, scheduler, kubelet, agent, dashboard",
        "down": "End what `dray up` started; with --purge, all that it kept",
        "status": "Whether `dray up` runs here, and how its parts are",
        "devices": "What this machine has, with health, NUMA node and holder",
        "doctor": "What is wrong with this node or laptop, and how to mend it",
    },
    "look at a cluster": {
        "get": "Nodes, pods, claims, devices, plugins and all else, as tables",
        "describe": "One object with its devices, holders and events",
        "explain": "Why claims and pods get no devices, and what would help",
        "events": "What happened to pods, claims and nodes, the newest last",
        "logs": "What the containers of a pod wrote",
        "top": "The fleet at a glance, live",
        "dashboard": "The fleet in a browser",
    },
    "change a cluster": {
        "apply": "Make objects as files say; what is missing is created",
        "delete": "Delete objects by file or by name",
        "taint": "Keep pods off devices; says first who would have to go",
        "untaint": "Take such a taint back",
    },
    "try before you do": {
        "allocate": "Which devices claims would get, of files or a live cluster",
        "simulate": "How many more claims fit, where, and what runs out first",
        "cel": "Try a device selector: errors, cost, what it matches",
        "cdi": "Check CDI files, and put CDI devices into an OCI spec",
        "check": "Whether a plugin or driver keeps to the kubelet's contract",
    },
    "the parts alone": {
        "agent": "Offers this machine's devices to its kubelet",
        "kubelet": "Gives devices to pods and runs their containers",
        "apiserver": "The Kubernetes API for this machine",
        "scheduler": "Puts pods on nodes, with their devices",
        "controllers": "Makes, frees and removes claims, enforces taints, guards",
    },
    "for developers": {
        "new": "Write the skeleton of a driver of your own, with tests",
        "bench": "The benchmarks, with peers side by side",
        "completion": "Print what makes a shell complete dray's words",
    },
}
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
"""Name and help of each command; its code is in `dray.cli.<name>` and is imported only when it is called."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["__complete"]:  # asked by a shell at every Tab
        from dray.cli.complete import complete

        return complete(words[1:])
    if words and not words[0].startswith("-"):
        _check_command(make_parser([]), words[0])
    arguments = make_parser(words).parse_args(words)
    if arguments.command is None:
        make_parser(words).print_help()
        return exit_codes.BAD_INPUT
    return exit_code_of(lambda: _run(arguments))


def exit_code_of(run: Callable[[], int]) -> int:
    """What `run` returns, or what stands for its error, which is said on stderr."""
    try:
        return run()
    except Error as error:
        _report(error)
        return exit_codes.exit_code(error)
    except InvariantError as bug:
        import traceback

        traceback.print_exception(bug)
        print(f"dray: internal error: {bug}; please report it with the lines above", file=sys.stderr)
        return exit_codes.exit_code(bug)
    except BrokenPipeError:
        # The reader went away (`dray devices | head`): not our fault, and nothing more to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.DONE
    except KeyboardInterrupt:
        return 130


class _Parser(argparse.ArgumentParser):
    """Lists commands by what they are for, and says which one was probably meant."""

    def format_help(self) -> str:
        """Usage and description, the commands by group, then what is the same for all."""
        width = max(map(len, COMMANDS)) + 2
        lines = [self.format_usage(), str(self.description)]
        for title, group in GROUPS.items():
            lines += ["", f"{title}:", *(f"  {name:{width}}{text}" for name, text in group.items())]
        return "\n".join([*lines, "", str(self.epilog), ""])


def _check_command(parser: argparse.ArgumentParser, word: str) -> None:
    if word in COMMANDS:
        return
    from difflib import get_close_matches

    near = get_close_matches(word, COMMANDS, 1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    parser.exit(exit_codes.BAD_INPUT, f"dray: no command {word!r}: {meant}`dray --help` lists them\n")


def make_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for these words: all commands by name, arguments only of the one that is called."""
    parser = _Parser(
        prog="dray",
        description="Finds the devices of a machine, tells Kubernetes about them, and hands them to containers.",
        epilog="`dray COMMAND --help` tells more; `dray --version` the version.\n"
        "Exit codes: 0 done, 1 refused or failed, 2 bad input, 3 a peer is away.",
    )
    parser.add_argument("--version", action="version", version=f"dray {dray.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=argparse.ArgumentParser)
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
