"""What a write to a file of the tree does, what was written, and what a test wants to go wrong.

A plain file takes every write: `EEXIST` or `EBUSY`, which a kernel would answer at once, cannot be returned to the
writer. The write is then without effect and the log says why (`Write.result`).
"""

from __future__ import annotations

import errno
import fnmatch
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dray.runtime.clock import Clock, SystemClock
from dray.testing.host.tree import Tree

Act = Callable[[str], None]
IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class Write:
    """One write that was seen: the file below the root, the text without its newline, and how the kernel took it.

    `result` is empty where the write acted, an errno name (`EEXIST`) where a kernel would have refused it, and
    `ignored` where the test asked for that.
    """

    path: str
    text: str
    result: str = ""


@dataclass(slots=True)
class _Rule:
    """A fault: writes to matching files are ignored, or act `seconds` later (never, while held)."""

    pattern: str
    ignore: bool
    seconds: float
    left: float

    def takes(self, path: str) -> bool:
        if self.left <= 0 or not fnmatch.fnmatchcase(f"/{path}", self.pattern):
            return False
        self.left -= 1
        return True


@dataclass(slots=True)
class _Waiting:
    due: float
    write: Write
    rule: _Rule


def refusal(code: int) -> OSError:
    """What an action raises where the kernel's handler returns `-code`."""
    return OSError(code, os.strerror(code))


class Actions:
    """The files that act, by path. Verbs of devices register them before they place the file, and forget them after."""

    def __init__(self, tree: Tree, clock: Clock | None = None) -> None:
        self.tree = tree
        self.log: list[Write] = []
        self._clock = clock or SystemClock()
        self._acts: dict[str, Act] = {}
        self._rules: list[_Rule] = []
        self._waiting: list[_Waiting] = []

    def register(self, directory: str, acts: dict[str, Act]) -> None:
        """Say what writes to these files of one directory do."""
        for name, act in acts.items():
            self._acts[f"{directory}/{name}"] = act

    def forget(self, directory: str) -> None:
        """The directory is gone, and everything below it."""
        for path in [path for path in self._acts if path.startswith(f"{directory}/")]:
            del self._acts[path]

    def paths(self) -> list[str]:
        """All files that act, in order."""
        return sorted(self._acts)

    def __contains__(self, path: str) -> bool:
        return path in self._acts

    def accept(self, path: str, text: str) -> None:
        """Take one write that was seen in the tree: act, put it off, or drop it.

        The text ends at its first newline: what follows is the file's old text, under a writer without O_TRUNC.
        """
        write = Write(path, text.split("\n", 1)[0])
        with self.tree.lock:
            rule = next((rule for rule in self._rules if rule.takes(path)), None)
            if rule is None:
                self._perform(write)
            elif rule.ignore:
                self.log.append(Write(path, write.text, IGNORED))
            else:
                self._waiting.append(_Waiting(self._clock.monotonic() + rule.seconds, write, rule))

    def run_due(self) -> float | None:
        """Act on what was put off and is due; seconds until the next, None when nothing waits."""
        with self.tree.lock:
            now = self._clock.monotonic()
            due = [waiting for waiting in self._waiting if waiting.due <= now]
            self._waiting = [waiting for waiting in self._waiting if waiting.due > now]
            for waiting in due:
                self._perform(waiting.write)
            upcoming = min((waiting.due for waiting in self._waiting), default=math.inf)
            return None if math.isinf(upcoming) else max(0.0, upcoming - now)

    def ignore(self, pattern: str, times: float) -> None:
        """Drop the next writes."""
        with self.tree.lock:
            self._rules.append(_Rule(pattern, ignore=True, seconds=0, left=times))

    def delay(self, pattern: str, seconds: float, times: float) -> None:
        """Act late on the next writes."""
        with self.tree.lock:
            self._rules.append(_Rule(pattern, ignore=False, seconds=seconds, left=times))

    @contextmanager
    def hold(self, pattern: str) -> Iterator[None]:
        """Act on no matching write before the block ends."""
        rule = _Rule(pattern, ignore=False, seconds=math.inf, left=math.inf)
        with self.tree.lock:
            self._rules.append(rule)
        try:
            yield
        finally:
            with self.tree.lock:
                self._rules.remove(rule)
                for waiting in self._waiting:
                    if waiting.rule is rule:
                        waiting.due = self._clock.monotonic()

    def _perform(self, write: Write) -> None:
        act = self._acts.get(write.path)
        try:
            if act is None:  # the device went while the write was under way
                raise refusal(errno.ENODEV)
            act(write.text)
        except OSError as error:
            self.log.append(Write(write.path, write.text, errno.errorcode.get(error.errno or 0, str(error))))
        else:
            self.log.append(write)
