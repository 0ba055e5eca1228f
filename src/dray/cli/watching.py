"""`--watch`: follow objects and show what changed. On a terminal the table is drawn anew, elsewhere changed rows are added."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from dray.api.kinds import Resource
from dray.cli.cluster import Asked
from dray.cli.tables import Row, Table, has_colour, terminal_width
from dray.cli.views.objects import Objects, objects_of
from dray.client.informers import Informers
from dray.client.requests import Selection
from dray.client.store import Change, Deleted
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.tasks import wait_first

_PAUSE: Final = 0.2
"""Seconds in which changes are taken together."""
_REFRESH: Final = 5.0
"""Seconds after which ages are shown anew on a terminal."""

Followed = Mapping[Resource[Any], Selection]
Make = Callable[[Objects], Awaitable[Table]]


class Shown:
    """What is on the screen, or was printed so far."""

    def __init__(self, *, wide: bool, write: Callable[[str], object] = sys.stdout.write) -> None:
        self._wide = wide
        self._write = write
        self._is_terminal = sys.stdout.isatty()
        self._before: dict[tuple[str, ...], Row] | None = None

    def show(self, table: Table) -> None:
        """The newest state."""
        if self._is_terminal:
            self._redraw(table)
        else:
            self._add(table)
        sys.stdout.flush()

    def _redraw(self, table: Table) -> None:
        lines = table.lines(wide=self._wide, colour=has_colour(), width=terminal_width())
        room = max(shutil.get_terminal_size().lines - 1, 2)
        if len(lines) > room:
            lines = [*lines[: room - 1], f"… {len(lines) - room + 1} more rows"]
        self._write("\033[H\033[J" + "\n".join(lines) + "\n")

    def _add(self, table: Table) -> None:
        before, self._before = self._before, {row.key: row for row in table.rows}
        changed = [
            row for row in table.rows if before is None or _has_changed(table, before.get(row.key), row)
        ]
        gone = [] if before is None else [row for key, row in before.items() if key not in self._before]
        head, *lines = table.lines(wide=self._wide)
        texts = dict(zip((row.key for row in table.rows), lines, strict=True))
        shown = [head] if before is None else []
        shown += [texts[row.key] for row in changed]
        shown += [f"{'/'.join(filter(None, row.key))} is gone" for row in gone]
        self._write("".join(f"{line}\n" for line in shown))


def _has_changed(table: Table, old: Row | None, new: Row) -> bool:
    if old is None:
        return True
    pairs = zip(table.columns, old.cells, new.cells, strict=True)
    return any(before != after for column, before, after in pairs if not column.moves)


async def watch_table(
    asked: Asked, followed: Followed, make: Make, shown: Shown, clock: Clock | None = None
) -> None:
    """Until cancelled. `make` gets all objects each time, so a row may depend on any of them."""
    clock = clock or SystemClock()
    informers = Informers(asked.client, clock=clock)
    each = {resource: informers.of(resource, selection) for resource, selection in followed.items()}
    changed = asyncio.Event()
    async with informers:
        asked.say("")
        for one in each.values():
            one.on_change(lambda _: changed.set())
        while True:
            changed.clear()
            found = {resource: tuple(one.values()) for resource, one in each.items()}
            shown.show(await make(objects_of(clock.now(), found)))
            await wait_first(changed.wait(), clock.sleep(_REFRESH))
            await clock.sleep(_PAUSE)


async def watch_changes(
    asked: Asked,
    resource: Resource[Any],
    selection: Selection,
    changed: Callable[[str, str], Awaitable[None]],
) -> None:
    """Until cancelled: `changed(namespace, name)` for each object that is there and then for each that changed."""
    keys: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def note(change: Change[Any]) -> None:
        if not isinstance(change, Deleted):
            keys.put_nowait(change.key)

    informers = Informers(asked.client)
    informer = informers.of(resource, selection)
    async with informers:
        asked.say("")
        informer.on_change(note)
        while True:
            await changed(*(await keys.get()))
