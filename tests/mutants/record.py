"""Which tests run which line of a room, and how long each takes: found out once, before any mutant."""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import coverage
import pytest

from tests.mutants.mutations import Mutant
from tests.mutants.rooms import Room

BUILD = Path("build/mutants")
LONGEST = 5.0
"""Seconds: a test that takes longer is not run for mutants."""
QUICK = 0.5
"""Seconds: a slower test of the module's own file must not take the time of all others."""
BUDGET = 10.0
"""Seconds of tests, in all, that are run for one mutant."""
ARGUMENTS = ("-q", "-p", "no:cacheprovider", "-W", "ignore::SyntaxWarning", "-o", "faulthandler_timeout=0")


@dataclass(frozen=True)
class Record:
    """`lines` has the tests of each line of each file, by their number in `tests`."""

    tests: list[str]
    seconds: list[float]
    lines: dict[str, dict[str, list[int]]]

    @cached_property
    def duration(self) -> dict[str, float]:
        """Seconds by test."""
        return dict(zip(self.tests, self.seconds, strict=True))

    def of(self, mutant: Mutant, first: str = "") -> list[str]:
        """The tests that run the changed line: `first`, then quick ones of the module's own file, then the fastest.

        A line that runs at import is met by every test of its module, and by those in the module's own file.
        """
        module = self.lines.get(mutant.path.as_posix(), {})
        own = f"/test_{mutant.path.stem}.py::"
        numbers = {one for line in _statement(mutant) for one in module.get(str(line), ())}
        if not numbers:
            numbers = {one for tests in module.values() for one in tests}
            numbers |= {number for number, test in enumerate(self.tests) if own in test}
        found = sorted(
            (self.tests[one] for one in numbers if self.seconds[one] <= LONGEST),
            key=lambda test: (
                test != first,
                own not in test or self.duration[test] > QUICK,
                self.duration[test],
                test,
            ),
        )
        total, chosen = 0.0, []
        for test in found:
            total += self.duration[test]
            if total > BUDGET:
                break
            chosen.append(test)
        return chosen


def _statement(mutant: Mutant) -> Iterable[int]:
    """The lines of the innermost statement at the place; of a block, its head alone."""
    best = range(mutant.line, mutant.line + 1)
    for node in ast.walk(ast.parse(mutant.path.read_text())):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            if node.lineno <= mutant.line <= max(end, node.lineno):
                best = range(node.lineno, max(end, node.lineno) + 1)
    return best


class Calm:
    """A plugin: Hypothesis draws the same cases each time and asserts no time."""

    def pytest_configure(self) -> None:
        """Called when pytest has loaded Hypothesis' own plugin; before that it must not be imported."""
        from hypothesis import settings

        settings.register_profile("mutants", deadline=None, derandomize=True, database=None)
        settings.load_profile("mutants")


class _Recorder:
    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured
        self.seconds: dict[str, float] = {}
        self.bad: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._measured.switch_context(item.nodeid)
        start = time.monotonic()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.monotonic() - start
            self._measured.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.bad.add(report.nodeid)


def record(room: Room, *, only_newer: bool = False) -> None:
    """Run the room's tests and keep what they run. Those that fail or are skipped here are left out.

    `only_newer`: run only files that were changed since the last record, and keep the rest of it.
    """
    BUILD.mkdir(parents=True, exist_ok=True)
    places = [Path("tests", one) for one in room.tests]
    files = sorted({file for one in places for file in (one.rglob("test_*.py") if one.is_dir() else [one])})
    seconds: dict[str, float] = {}
    runs: dict[str, dict[str, set[str]]] = {}
    if only_newer and record_file(room).exists():
        made = record_file(room).stat().st_mtime
        files = [one for one in files if one.stat().st_mtime > made]
        seconds, runs = _kept(read_record(room), [one.as_posix() for one in files])
    if files:
        _run(room, [str(one) for one in files], seconds, runs)
    tests = sorted(seconds)
    number = {test: place for place, test in enumerate(tests)}
    lines = {
        module: {line: sorted(number[test] for test in found) for line, found in sorted(by_line.items())}
        for module, by_line in sorted(runs.items())
    }
    kept = {"tests": tests, "seconds": [seconds[test] for test in tests], "lines": lines}
    record_file(room).write_text(json.dumps(kept))


def _kept(before: Record, changed: Iterable[str]) -> tuple[dict[str, float], dict[str, dict[str, set[str]]]]:
    """A record without the tests of these files."""
    starts = tuple(f"{one}::" for one in changed)
    seconds = {test: one for test, one in before.duration.items() if not test.startswith(starts)}
    runs = {
        module: {
            line: {before.tests[one] for one in numbers if before.tests[one] in seconds}
            for line, numbers in by_line.items()
        }
        for module, by_line in before.lines.items()
    }
    return seconds, runs


def _run(
    room: Room, places: Iterable[str], seconds: dict[str, float], runs: dict[str, dict[str, set[str]]]
) -> None:
    """Run tests, and add how long they take and what they run."""
    modules = [str(path.resolve()) for path in room.modules()]
    measured = coverage.Coverage(data_file=None, include=modules, config_file=False, messages=False)
    recorder = _Recorder(measured)
    measured.start()
    pytest.main([*ARGUMENTS, *places], plugins=[Calm(), recorder])
    measured.stop()
    good = set(recorder.seconds) - recorder.bad
    seconds |= {test: recorder.seconds[test] for test in good}
    for path in room.modules():
        by_line = runs.setdefault(path.as_posix(), {})
        for line, contexts in measured.get_data().contexts_by_lineno(str(path.resolve())).items():
            by_line.setdefault(str(line), set()).update(good.intersection(contexts))


def record_file(room: Room) -> Path:
    """Where the record of a room is."""
    return BUILD / f"{room.name}.json"


def read_record(room: Room) -> Record:
    """The record that was made last."""
    return Record(**json.loads(record_file(room).read_text()))
