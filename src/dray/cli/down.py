"""`dray down`: ends what `dray up` started; if asked, with its containers, and with all that it kept."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from dray.cli import exit_codes
from dray.cli.tables import listed, progress
from dray.cli.up import add_data_dir
from dray.errors import InvalidError

if TYPE_CHECKING:
    from dray.up.place import UpPlace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_data_dir(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help="end the containers of its pods, too; without it they go on, and the next `dray up` takes them over",
    )
    parser.add_argument(
        "--purge",
        action="store_true",
        help="delete its pods, end their containers, and remove everything that it kept: objects, certificates, logs",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before --purge removes things")


def run(arguments: argparse.Namespace) -> int:
    """0 also where nothing ran: it is down, as asked."""
    from dray.up.place import UpPlace, default_data_dir

    place = UpPlace((arguments.data_dir or default_data_dir()).absolute())
    if arguments.purge and not _is_sure(arguments, place):
        print("Nothing was done.")
        return exit_codes.REFUSED
    with progress() as say:
        lines = _bring_down(arguments, place, say)
    print("\n".join(lines))
    return exit_codes.DONE


def _is_sure(arguments: argparse.Namespace, place: UpPlace) -> bool:
    if arguments.yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidError(
            "--purge removes everything: give --yes where nobody can be asked", field="--purge"
        )
    answer = input(f"Remove everything in {place.data_dir}: pods, claims, certificates and logs? [y/N] ")
    return answer.strip().lower() in ("y", "yes")


def _bring_down(arguments: argparse.Namespace, place: UpPlace, say: Callable[[str], None]) -> list[str]:
    import asyncio

    return asyncio.run(_down(arguments, place, say))


async def _down(arguments: argparse.Namespace, place: UpPlace, say: Callable[[str], None]) -> list[str]:
    from dray.runtime.clock import SystemClock
    from dray.up.containers import Left, count_containers, end_containers
    from dray.up.stopping import delete_pods, purge, stop

    clock = SystemClock()
    if arguments.purge:
        say("deleting pods")
        await delete_pods(place, clock)
    say("waiting for it to end")
    pid = await stop(place, clock)
    lines = [f"Dray is down (process {pid} ended)." if pid else f"Dray does not run on {place.data_dir}."]
    kept, left = place.read_kept(), Left(0, 0)
    if kept is not None:
        say("looking at its containers")
        ends = arguments.all or arguments.purge
        left = await (
            end_containers(place, kept.runtime, forget=arguments.purge)
            if ends
            else count_containers(place, kept.runtime)
        )
    if left.running:
        lines.append(_containers_told(left.running, ended=arguments.all or arguments.purge))
    if arguments.purge:
        say("removing its data")
        others = purge(place)
        lines.append(f"Removed {place.data_dir}." if not others else _left_there(place, others))
    return lines


def _containers_told(running: int, *, ended: bool) -> str:
    if ended:
        return "1 container was ended." if running == 1 else f"{running} containers were ended."
    many = "1 container goes on" if running == 1 else f"{running} containers go on"
    return f"{many}; the next `dray up` takes over what runs (--all ends it)."


def _left_there(place: UpPlace, others: list[str]) -> str:
    return f"Removed what Dray kept in {place.data_dir}; {listed(others)} is not Dray's and stays."
