"""The building blocks of `dray describe`: facts in two columns, tables below a title, events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from dray.api.core import Event
from dray.api.meta import ObjectMeta
from dray.apiserver.http.showing.ages import age
from dray.cli.tables import BOLD, NOTHING, Column, Row, Table, clean, painted, painted_state, visible
from dray.cli.views.claim_words import told_by

_MOST_EVENTS: Final = 20
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
Fact = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Paper:
    """How it is drawn: with colours, and how wide the terminal is."""

    colour: bool = False
    width: int | None = None

    def facts(self, facts: Iterable[Fact]) -> list[str]:
        """`Name:  value`, without those that are empty; states have their colours."""
        shown = [(name, clean(value)) for name, value in facts if value]
        room = max((len(name) for name, _ in shown), default=0) + 3
        return [
            f"{name}:".ljust(room) + (painted_state(value) if self.colour and name in _STATES else value)
            for name, value in shown
        ]

    def block(self, title: str, table: Table, nothing: str = "") -> list[str]:
        """A titled table below an empty line; the title alone says that there is nothing."""
        if not table.rows:
            return ["", f"{title}: {nothing}"] if nothing else []
        width = self.width - 2 if self.width else None
        lines = table.lines(colour=self.colour, width=width)
        return ["", self.title(title), *(f"  {line}" for line in lines)]

    def lines(self, title: str, lines: Sequence[str]) -> list[str]:
        """A titled list of lines; nothing for none."""
        return ["", self.title(title), *(f"  {visible(line)}".rstrip() for line in lines)] if lines else []

    def title(self, text: str) -> str:
        """The head of a block."""
        return painted(f"{text}:", BOLD, colour=self.colour)


_STATES: Final = ("Status", "State", "Health")


def meta_facts(meta: ObjectMeta, now: datetime) -> list[Fact]:
    """What every object has."""
    going = meta.deletion_timestamp
    return [
        ("Name", meta.name),
        ("Namespace", meta.namespace),
        ("Age", age(meta.creation_timestamp, now)),
        ("Deleted", f"{age(going, now)} ago" if going is not None else ""),
        ("Labels", pairs_text(meta.labels)),
        ("Finalizers", ", ".join(meta.finalizers)),
        ("Owner", ", ".join(f"{one.kind.lower()}/{one.name}" for one in meta.owner_references)),
    ]


def pairs_text(pairs: Mapping[str, str]) -> str:
    """`a=b, c=d`."""
    return ", ".join(f"{key}={value}" for key, value in sorted(pairs.items()))


def table_of(names: Sequence[str], rows: Iterable[Sequence[str]], *, states: Iterable[str] = ()) -> Table:
    """A plain table; the last column may be cut."""
    columns = tuple(
        Column(name, state=name in set(states), cut=place == len(names) - 1)
        for place, name in enumerate(names)
    )
    return Table(columns, tuple(Row((str(number),), tuple(row)) for number, row in enumerate(rows)))


def events_block(paper: Paper, events: Sequence[Event], now: datetime, title: str = "Events") -> list[str]:
    """The newest ones, oldest first."""
    ordered = sorted(events, key=lambda one: (one.last_seen or _LONG_AGO, one.metadata.name))
    left_out = len(ordered) - _MOST_EVENTS
    rows = []
    for one in ordered[-_MOST_EVENTS:]:
        count = one.series.count if one.series is not None else one.count
        text = one.message.strip() + (f" (x{count})" if count > 1 else "")
        rows.append((age(one.last_seen, now), one.type, one.reason, told_by(one) or NOTHING, text))
    named = f"{title} (the last {_MOST_EVENTS} of {len(ordered)})" if left_out > 0 else title
    table = table_of(("LAST SEEN", "TYPE", "REASON", "BY", "MESSAGE"), rows, states=["TYPE"])
    return paper.block(named, table, nothing="none")


def events_about(events: Iterable[Event], kind: str, meta: ObjectMeta) -> list[Event]:
    """Those of one object: by uid where both have one, for a name may be used again."""
    found = []
    for one in events:
        about = one.involved_object
        if about.kind != kind or about.name != meta.name:
            continue
        if meta.namespace and about.namespace not in ("", meta.namespace):
            continue
        # A Node's events carry its name as uid, as kubelets write them.
        if about.uid in ("", meta.uid, meta.name) or not meta.uid:
            found.append(one)
    return found
