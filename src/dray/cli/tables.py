"""How the command line shows things: tables, colours, documents, and a line of progress. Pure but for the last.

Text of objects is shown with its control characters made visible: whoever may write an event must not write to the terminal
of whoever reads it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

GREEN, RED, YELLOW, BOLD, PLAIN = "\033[32m", "\033[31m", "\033[33m", "\033[1m", "\033[0m"
NOTHING: Final = "-"
"""In a cell that has nothing to say."""
OUTPUTS: Final = ("table", "wide", "json", "yaml", "name")
_GAP: Final = "   "
_PAINTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "Ready", "Running", "Succeeded", "Completed", "Active", "True", "healthy", "Healthy", "reserved", "allocated",
            "connected", "free", "created", "configured",
        ),
        GREEN,
    ),
    **dict.fromkeys(
        (
            "NotReady", "Failed", "Error", "CrashLoopBackOff", "Unknown", "unhealthy", "Unhealthy", "UnexpectedAdmissionError",
            "TopologyAffinityError", "gone", "refused", "lost",
        ),
        RED,
    ),
    **dict.fromkeys(
        ("Pending", "pending", "ContainerCreating", "Terminating", "deleting", "tainted", "Warning", "away", "SchedulingGated"),
        YELLOW,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """`wide`: shown with `-o wide` only. `state`: its words have colours. `cut`: may be shortened to the terminal's width.

    `moves`: changes with the time alone, which is no change for `--watch`.
    """

    name: str
    wide: bool = False
    state: bool = False
    cut: bool = False
    moves: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """`key` stays the same while the cells change, for `--watch`; there is a cell for every column."""

    key: tuple[str, ...]
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows in the order in which they are shown."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = ()

    def without(self, *names: str) -> Table:
        """The same, less these columns."""
        kept = [place for place, column in enumerate(self.columns) if column.name not in names]
        rows = tuple(Row(row.key, tuple(row.cells[place] for place in kept)) for row in self.rows)
        return Table(tuple(self.columns[place] for place in kept), rows)

    def lines(
        self, *, wide: bool = False, colour: bool = False, width: int | None = None, header: bool = True
    ) -> list[str]:
        """One for the head and one for each row; `width` is that of the terminal, None for as wide as it must be."""
        shown = [place for place, column in enumerate(self.columns) if wide or not column.wide]
        columns_shown = [self.columns[place] for place in shown]
        body = [[clean(row.cells[place]) or NOTHING for place in shown] for row in self.rows]
        head = [column.name for column in columns_shown]
        widths = [
            max([len(head[place]) * header, *(len(row[place]) for row in body)])
            for place in range(len(columns_shown))
        ]
        if width is not None and not wide:
            _shrink(columns_shown, widths, width)
        lines = [_line(head, widths)] if header else []
        states = [column.state for column in columns_shown] if colour else [False] * len(columns_shown)
        return lines + [_line(row, widths, states) for row in body]


def _shrink(shown: Sequence[Column], widths: list[int], width: int) -> None:
    """Take from the columns that may be cut, the widest first, until the line fits or they are as narrow as their heads."""
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while over > 0:
        places = [
            place for place, one in enumerate(shown) if one.cut and widths[place] > max(12, len(one.name))
        ]
        if not places:
            return
        widest = max(places, key=lambda place: widths[place])
        less = min(over, widths[widest] - max(12, len(shown[widest].name)))
        widths[widest] -= less
        over -= less


def _line(cells: Sequence[str], widths: Sequence[int], states: Sequence[bool] = ()) -> str:
    parts = []
    for place, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        text = cell if len(cell) <= width else f"{cell[: width - 1]}…"
        padded = text.ljust(width) if place < len(cells) - 1 else text
        parts.append(painted_state(text, padded) if states and states[place] else padded)
    return _GAP.join(parts).rstrip()


def painted_state(word: str, text: str = "") -> str:
    """The text (or the word itself) in the colour of a state; words without one stay plain."""
    paint = _PAINTS.get(word) or _PAINTS.get(word.split(",")[0].split(":")[0])
    return f"{paint}{text or word}{PLAIN}" if paint else text or word


def clean(text: str) -> str:
    """Text of others on one line, with what would steer a terminal made visible."""
    return visible(" ".join(text.split()))


def visible(text: str) -> str:
    """The same for a line whose spaces matter."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else "\ufffd" for sign in text)


def has_colour() -> bool:
    """Whether stdout takes colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width() -> int | None:
    """Of stdout; None where that is no terminal, so that nothing is cut in files and pipes."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_table(table: Table, *, wide: bool = False, header: bool = True) -> None:
    """To stdout, as that takes it."""
    for line in table.lines(wide=wide, colour=has_colour(), width=terminal_width(), header=header):
        print(line)


def print_documents(documents: Sequence[Mapping[str, Any]], output: str, *, single: bool = False) -> None:
    """As JSON or YAML: one object alone where `single`, else a List as kubectl writes it."""
    whole: Mapping[str, Any] = (
        documents[0]
        if single and len(documents) == 1
        else {
            "apiVersion": "v1",
            "kind": "List",
            "items": list(documents),
            "metadata": {"resourceVersion": ""},
        }
    )
    print_document(whole, output)


def print_document(document: Any, output: str) -> None:
    """One value as `json` or `yaml`."""
    if output == "json":
        import json

        print(json.dumps(document, indent=2, ensure_ascii=False))
        return
    from dray.api.codec import dump_yaml

    sys.stdout.write(dump_yaml(document))


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table, as wide as it must be."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [_line(row, widths) for row in rows]


def painted(text: str, paint: str, *, colour: bool) -> str:
    """The text in a colour, where there are colours."""
    return f"{paint}{text}{PLAIN}" if colour else text


def listed(names: Iterable[str], most: int = 3) -> str:
    """`a, b, c and 4 more`; NOTHING for none."""
    every = list(names)
    more = len(every) - most
    return ", ".join(every[:most]) + (f" and {more} more" if more > 0 else "") if every else NOTHING


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """What is going on, as one line on stderr that goes away at the end; nothing where that is no terminal."""
    shows = sys.stderr.isatty()

    def say(text: str) -> None:
        if shows:
            print(f"\r\033[K{clean(text)}…", end="", file=sys.stderr, flush=True)

    try:
        yield say
    finally:
        if shows:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
