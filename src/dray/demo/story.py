"""What a demonstration tells: roads of stages of steps. Frozen values, one after the other as things happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dray.allocation.explanation.documents import workload_document
from dray.allocation.explanation.extended import Explained


class Road(msgspec.Struct, frozen=True):
    """One way to a device, or the end of one."""

    name: str
    title: str


class Stage(msgspec.Struct, frozen=True):
    """Numbers start at 1 on each road."""

    number: int
    title: str


class Step(msgspec.Struct, frozen=True):
    """Who did what, and why so. `ms` since the step before; None for what was found done already, at no known time."""

    by: str
    what: str
    why: str = ""
    ms: float | None = None


class Output(msgspec.Struct, frozen=True):
    """What a container wrote by itself."""

    pod: str
    lines: tuple[str, ...]


class Refused(msgspec.Struct, frozen=True):
    """Why a pod gets nothing: the scheduler's own words, and the explanation."""

    pod: str
    said: str
    explained: Explained


Word = Road | Stage | Step | Output | Refused


class Story:
    """Passes each word on and keeps it. Times are those of one monotonic clock, when a thing was seen."""

    def __init__(self, tell: Callable[[Word], None], started: float) -> None:
        self._tell = tell
        self._last = started
        self.words: list[Word] = []

    def road(self, name: str, title: str) -> None:
        """The stages after it belong to it."""
        self._add(Road(name, title))

    def stage(self, title: str) -> None:
        """The next of its road; the steps after it belong to it."""
        number = 1
        for word in reversed(self.words):
            if isinstance(word, Road):
                break
            number += isinstance(word, Stage)
        self._add(Stage(number, title))

    def step(self, by: str, what: str, why: str = "", *, at: float | None = None) -> None:
        """`at` is when it was seen; without it, or where that was before the step before, it was done already."""
        if at is None or at < self._last:
            self._add(Step(by, what, why))
            return
        took, self._last = at - self._last, at
        self._add(Step(by, what, why, round(took * 1000, 1)))

    def output(self, pod: str, lines: tuple[str, ...]) -> None:
        """What a container wrote."""
        self._add(Output(pod, lines))

    def refused(self, pod: str, said: str, explained: Explained) -> None:
        """Why a pod gets nothing."""
        self._add(Refused(pod, said, explained))

    @property
    def where(self) -> str:
        """The stage that is being told; for who asks what failed."""
        road, stage = "", "the start"
        for word in self.words:
            if isinstance(word, Road):
                road, stage = word.title, "its first stage"
            elif isinstance(word, Stage):
                stage = f"stage {word.number} ({word.title})"
        return f"{road}, {stage}" if road else stage

    def document(self) -> dict[str, Any]:
        """All of it for programs. Keys stay; others may join."""
        roads: list[dict[str, Any]] = []
        refusal: dict[str, Any] | None = None
        for word in self.words:
            if isinstance(word, Road):
                roads.append({"name": word.name, "title": word.title, "stages": []})
            elif isinstance(word, Stage):
                roads[-1]["stages"].append(msgspec.to_builtins(word) | {"steps": [], "output": None})
            elif isinstance(word, Step):
                roads[-1]["stages"][-1]["steps"].append(msgspec.to_builtins(word))
            elif isinstance(word, Output):
                roads[-1]["stages"][-1]["output"] = list(word.lines)
            else:
                refusal = {"pod": word.pod, "said": word.said, **workload_document(word.explained)}
        return {"roads": [one for one in roads if one["stages"]], "refusal": refusal}

    def _add(self, word: Word) -> None:
        self.words.append(word)
        self._tell(word)
