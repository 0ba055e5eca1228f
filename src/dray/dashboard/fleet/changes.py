"""What changed since when: one log for all who follow, so that a slow one costs no queue of its own. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final, Literal, NamedTuple

Kind = Literal["node", "claim", "pod", "event"]
MOST: Final = 50_000
"""Changes that are remembered. Who comes back later than that starts over."""


class Changed(NamedTuple):
    """One thing that is other than it was, was not there, or is gone."""

    kind: Kind
    key: str


class ChangeLog:
    """Numbers changes. A revision is a text that only the log it comes from understands: another life has another `life`."""

    def __init__(self, life: str, most: int = MOST) -> None:
        self._life = life
        self._number = 0
        self._log: deque[Changed] = deque(maxlen=most)

    @property
    def number(self) -> int:
        """How many changes there were."""
        return self._number

    def note(self, kind: Kind, key: str) -> None:
        """It changed."""
        self._number += 1
        self._log.append(Changed(kind, key))

    def revision(self, number: int | None = None) -> str:
        """The name of a moment, by default of now."""
        return f"{self._life}-{self._number if number is None else number}"

    def parse(self, revision: str) -> int | None:
        """The number of a moment that this log named, None for any other text."""
        life, dash, digits = revision.rpartition("-")
        if not dash or life != self._life or not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
            return None
        number = int(digits)
        return number if number <= self._number else None

    def since(self, number: int) -> frozenset[Changed] | None:
        """All that changed after this moment, each thing once; None where that is forgotten."""
        missed = self._number - number
        if missed > len(self._log):
            return None
        return frozenset(self._last(missed))

    def _last(self, count: int) -> Iterator[Changed]:
        return islice(reversed(self._log), count)
