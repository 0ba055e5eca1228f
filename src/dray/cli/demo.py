"""`dray demo`: a device on its way to a container, on both roads, each stage as it happens; then everything is cleaned up."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING, Any

from dray.cli import exit_codes
from dray.cli.tables import has_colour, print_document, progress
from dray.errors import Error

if TYPE_CHECKING:
    from dray.cli.demo_view import View
    from dray.demo.last_lines import LastLines
    from dray.demo.run import Demo
    from dray.up.place import RunningUp

_INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--runtime",
        choices=["auto", "runc", "process"],
        default="auto",
        help="what runs containers (default auto: runc for root where it is installed, else plain processes)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the directory with objects, logs and configuration"
    )
    parser.add_argument(
        "-o", "--output", choices=["text", "json"], default="text", help="how to show it (default text)"
    )
    parser.set_defaults(log_level="error")


def run(arguments: argparse.Namespace) -> int:
    """0 where all of it was seen; 1 where a stage failed; 130 where it was interrupted. Clean in each case."""
    began = monotonic()

    from dray.cli.demo_view import View
    from dray.demo.last_lines import keep_last_lines

    is_document = arguments.output == "json"
    view = View(colour=has_colour(), show=not is_document)
    with keep_last_lines() as log:
        demo, ending = _perform(arguments, view)
    seconds = monotonic() - began
    if is_document:
        print_document(_document(demo, seconds, ending), "json")
    if isinstance(ending, Error):
        return _fail(demo, ending, log)
    if ending is None:
        print("Interrupted; everything was cleaned up.", file=sys.stderr)
        return _INTERRUPTED
    view.end(seconds, demo.place.data_dir if arguments.keep else None)
    return exit_codes.DONE


def _perform(arguments: argparse.Namespace, view: View) -> tuple[Demo, Error | bool | None]:
    """To its end: True, what failed, or None for an interruption. Long waits have a line that goes away."""
    from dray.demo.run import Audience, Demo, DemoOptions
    from dray.runtime.tasks import run_until_signalled

    ended: list[bool] = []
    with ExitStack() as line:

        def busy(text: str) -> None:
            line.close()
            line.enter_context(progress())(text)

        def ready(running: RunningUp) -> None:
            line.close()
            view.ready(running)

        demo = Demo(DemoOptions(arguments.runtime, keep=arguments.keep), Audience(busy, ready, view.word))

        async def whole() -> None:
            await demo.run()
            ended.append(True)

        try:
            run_until_signalled(whole)
        except Error as error:
            return demo, error
    return demo, True if ended else None


def _document(demo: Demo, seconds: float, ending: Error | bool | None) -> dict[str, Any]:
    """Keys stay; others may join. `failure` is null where all of it was seen."""
    up, failure = demo.up, None
    if ending is not True:
        failure = {"where": demo.story.where, "error": str(ending or "interrupted")}
    return {
        "version": up.version if up else None,
        "runtime": up.runtime if up else None,
        "containers": up.containers if up else None,
        "node": up.node if up else None,
        "devices": up.devices if up else None,
        "seconds": round(seconds, 3),
        "failure": failure,
        **demo.story.document(),
    }


def _fail(demo: Demo, failure: Error, log: LastLines) -> int:
    lines = [f"dray: the demonstration failed at {demo.story.where}: {failure}"]
    if log.lines:
        lines += ["The last lines of its log:", *(f"  {line}" for line in log.lines)]
    lines.append(
        "`dray doctor` looks for what is wrong with this machine; `dray demo --keep --log-level debug` shows and keeps more."
    )
    print("\n".join(lines), file=sys.stderr)
    return exit_codes.REFUSED
