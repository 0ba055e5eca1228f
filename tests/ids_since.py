"""`python -m tests.ids_since COMMIT`: which tests are gone and which are new since a commit.

The tests of both are collected by the same Python, those of the commit from a copy, and compared by their ids. A gone test is
shown beside a new one of its name in another file, or of nearly its name in its own: whether that is the same case, a reader
decides. What cannot be imported here (the browser's, before `make tools`) is left out of both and named.
"""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ALIKE = 0.7
"""How much of its name a renamed test keeps."""


@dataclass(frozen=True)
class Collected:
    """The ids of the tests of a checkout, and the files that cannot be collected."""

    ids: frozenset[str]
    failed: frozenset[str]

    def without(self, failed: frozenset[str]) -> frozenset[str]:
        """The ids that lie in none of these files."""
        return frozenset(one for one in self.ids if one.partition("::")[0] not in failed)


def collect(checkout: Path) -> Collected:
    """Ask pytest; nothing is run."""
    command = [sys.executable, "-m", "pytest", "tests", "--collect-only", "-q", "-p", "no:cacheprovider"]
    flags = ["--continue-on-collection-errors", "-o", "addopts=--import-mode=importlib -rE"]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    done = subprocess.run(
        [*command, *flags], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1, 2):
        raise SystemExit(f"pytest cannot collect the tests of {checkout}:\n{done.stdout}{done.stderr}")
    return read(done.stdout)


def read(output: str) -> Collected:
    """Read what pytest prints: an id a line, and `ERROR file - why` for a file that cannot be collected."""
    lines = output.splitlines()
    failed = {line.split(" ")[1] for line in lines if line.startswith("ERROR tests/")}
    ids = {line for line in lines if line.startswith("tests/") and "::" in line}
    return Collected(frozenset(ids), frozenset(failed))


def compare(before: Collected, now: Collected) -> str:
    """Return what to print: the numbers, then what is gone, perhaps renamed, and new, by function."""
    failed = before.failed | now.failed
    old, new = before.without(failed), now.without(failed)
    functions = _Functions(old), _Functions(new)
    gone, come = functions[0].less(functions[1]), functions[1].less(functions[0])
    renamed = _renamed(gone - functions[1].cases.keys(), come - functions[0].cases.keys())
    lines = [f"{len(old)} tests before, {len(new)} now; {len(old - new)} gone, {len(new - old)} new"]
    lines += [f"cannot be imported here: {one}" for one in sorted(failed)]
    lines += [f"gone: {functions[0].told(one, functions[1])}" for one in sorted(gone - renamed.keys())]
    lines += [f"new: {functions[1].told(one, functions[0])}" for one in sorted(come - set(renamed.values()))]
    lines += [
        f"renamed? {functions[0].told(one, functions[1])} -> {functions[1].told(other, functions[0])}"
        for one, other in sorted(renamed.items())
    ]
    return "\n".join(lines)


class _Functions:
    """The tests of one side by function, with the cases of each."""

    def __init__(self, ids: Iterable[str]) -> None:
        self.cases = defaultdict[str, set[str]](set)
        for one in ids:
            function, bracket, case = one.partition("[")
            self.cases[function].add(bracket + case)

    def less(self, other: _Functions) -> set[str]:
        """The functions of which the other side has not all cases."""
        return {one for one, cases in self.cases.items() if cases - other.cases.get(one, set())}

    def told(self, function: str, other: _Functions) -> str:
        """The function and which of its cases are meant: those that the other side has not."""
        cases = self.cases[function]
        only = cases - other.cases.get(function, set())
        if cases == {""}:
            return function
        if only == cases:
            return f"{function} [all {len(cases)} cases]"
        return f"{function} [{len(only)} of {len(cases)} cases]: {' '.join(sorted(only))}"


def _renamed(gone: set[str], new: set[str]) -> dict[str, str]:
    """The new function most like each gone one, each at most once: moved under its old name, or renamed in its file."""
    near = defaultdict[str, set[str]](set)
    for one in new:
        file, _, name = one.partition("::")
        near[name].add(one)
        near[file].add(one)
    pairs = [
        (_likeness(one, other), one, other)
        for one in gone
        for place in one.split("::", 1)
        for other in near.get(place, ())
    ]
    found: dict[str, str] = {}
    for likeness, one, other in sorted(pairs, reverse=True):
        if likeness >= ALIKE and one not in found and other not in found.values():
            found[one] = other
    return found


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one.partition("::")[2], other.partition("::")[2]).ratio()


def main(arguments: list[str]) -> int:
    """Compare the working tree with a commit; the exit status says nothing about what was found."""
    if len(arguments) != 1:
        print(__doc__)
        return 2
    with tempfile.TemporaryDirectory(prefix="ids-") as name:
        archive = subprocess.run(["git", "archive", arguments[0]], check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", name], input=archive.stdout, check=True)
        before = collect(Path(name))
    print(compare(before, collect(Path.cwd())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
