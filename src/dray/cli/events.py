"""`dray events`: what happened to objects, the newest last."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dray.cli.cluster import Asked, add_cluster_arguments, ask
from dray.errors import InvalidError

if TYPE_CHECKING:
    from dray.api.core import Event
    from dray.cli.tables import Table
    from dray.client.requests import Selection

_TYPES = ("Normal", "Warning")
_PAUSE = 0.2
"""Seconds in which events are taken together."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.set_defaults(log_level="warning")
    parser.add_argument(
        "--for", dest="about", metavar="KIND/NAME", help="of one object, like pod/web or claim/gpu"
    )
    parser.add_argument(
        "--types", metavar="T", help="Normal or Warning (default: both)", type=_type, choices=_TYPES
    )
    parser.add_argument("-w", "--watch", action="store_true", help="go on and add what happens")
    parser.add_argument(
        "-o",
        "--output",
        choices=["table", "wide", "json", "yaml"],
        default="table",
        help="how to show them (default table)",
    )
    add_cluster_arguments(parser, everywhere=True)


def _type(text: str) -> str:
    return text.capitalize()


def run(arguments: argparse.Namespace) -> int:
    """Print them."""
    if arguments.watch and arguments.output in ("json", "yaml"):
        raise InvalidError(f"--watch shows tables only, not {arguments.output}", field="--output")
    return ask(arguments, lambda asked: _events(asked, arguments))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which events: by the server where it can, else here."""

    selection: Selection
    everywhere: bool
    wide: bool


async def _events(asked: Asked, arguments: argparse.Namespace) -> int:
    wanted = _Wanted(
        await _selection(asked, arguments.about or "", arguments.types or ""),
        asked.is_everywhere,
        arguments.output == "wide",
    )
    if arguments.watch:
        await _watch(asked, wanted)
    elif arguments.output in ("json", "yaml"):
        await _print_documents(asked, wanted, arguments.output)
    else:
        await _print_table(asked, wanted)
    return 0


async def _selection(asked: Asked, about: str, kind: str) -> Selection:
    """`about` is KIND/NAME. Events of what has no namespace are in whichever their writer chose."""
    from dray.cli.kind_names import Kinds
    from dray.client.requests import Selection

    terms = [f"type={kind}"] if kind else []
    everywhere = asked.is_everywhere
    if about:
        word, _, name = about.partition("/")
        if not word or not name:
            raise InvalidError(f"--for {about!r} must be KIND/NAME, like pod/web", field="--for")
        found = (await Kinds(asked.client).find(word)).resource
        if found is None:
            raise InvalidError(
                f"--for {about!r}: events are about objects; ask for the claim or the pod that uses it",
                field="--for",
            )
        everywhere = everywhere or not found.namespaced
        terms += [f"involvedObject.kind={found.kind}", f"involvedObject.name={name}"]
    return Selection(None if everywhere else asked.namespace, fields=",".join(terms))


async def _print_documents(asked: Asked, wanted: _Wanted, output: str) -> None:
    from dray.api.kinds import EVENTS
    from dray.cli.tables import print_documents
    from dray.cli.views.objects import list_raw

    found: list[dict[str, Any]] = await list_raw(asked.client, EVENTS, wanted.selection)
    asked.say("")
    print_documents(sorted(found, key=_moment), output)


def _moment(document: Mapping[str, Any]) -> str:
    series = document.get("series")
    last = series.get("lastObservedTime") if isinstance(series, Mapping) else None
    return str(last or document.get("lastTimestamp") or document.get("eventTime") or "")


async def _print_table(asked: Asked, wanted: _Wanted) -> None:
    from dray.api.kinds import EVENTS
    from dray.cli.tables import print_table

    found = (await asked.client.list(EVENTS, wanted.selection)).items
    asked.say("")
    if not found:
        where = "" if wanted.selection.namespace is None else f" in namespace {wanted.selection.namespace}"
        print(f"no events{where}", file=sys.stderr)
        return
    print_table(_table(found, wanted), wide=wanted.wide)


def _table(events: Sequence[Event], wanted: _Wanted) -> Table:
    from dray.cli.views.objects import Objects
    from dray.cli.views.rows import events_table
    from dray.runtime.clock import SystemClock

    table = events_table(events, Objects(SystemClock().now()))
    return table if wanted.everywhere else table.without("NAMESPACE")


async def _watch(asked: Asked, wanted: _Wanted) -> None:
    """Until cancelled. An event that is seen again is shown again; one that the server forgets is no news."""
    from dray.api.kinds import EVENTS
    from dray.client.informers import Informers
    from dray.runtime.clock import SystemClock

    informers = Informers(asked.client)
    informer = informers.of(EVENTS, wanted.selection)
    added, clock = _Added(wanted), SystemClock()
    changed = asyncio.Event()
    async with informers:
        asked.say("")
        informer.on_change(lambda _: changed.set())
        while True:
            changed.clear()
            added.show(tuple(informer.values()))
            await changed.wait()
            await clock.sleep(_PAUSE)


class _Added:
    """Prints each event once for each time it was seen."""

    def __init__(self, wanted: _Wanted) -> None:
        self._wanted = wanted
        self._shown: dict[tuple[str, ...], str] = {}
        self._has_head = False

    def show(self, events: Sequence[Event]) -> None:
        """All there are now."""
        from dray.cli.tables import has_colour

        versions: dict[tuple[str, ...], str] = {
            (one.metadata.namespace, one.metadata.name): one.metadata.resource_version for one in events
        }
        table = _table(events, self._wanted)
        head, *lines = table.lines(wide=self._wanted.wide, colour=has_colour())
        if events and not self._has_head:
            print(head)
            self._has_head = True
        for row, line in zip(table.rows, lines, strict=True):
            if self._shown.get(row.key) != versions[row.key]:
                print(line)
        self._shown = versions
        sys.stdout.flush()
