"""Where a process under test may kill itself: at named steps, and before whatever it does to files and processes.

The test writes a `Target` to a file, at any time; the process looks there at every point that it comes to, so one that
has run for long can still be told where to die. Nothing sleeps and nothing is patched: steps are told by the product
(`KubeletOptions.reached`), the rest by Python's own audit events.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ANY = "*"
DEVICE_STEPS = ("picked", "allocated", "granted")
POD_STEPS = (
    "admitted",
    "recorded",
    "prepared",
    "sandboxed",
    "configured",
    "created",
    "started",
    "stopped",
    "sandbox stopped",
    "unprepared",
    "end recorded",
    "ended",
    "removed",
    "forgotten",
)
CLAIM_STEPS = (
    "claims read",
    "claims noted",
    "prepare answered",
    "prepare kept",
    "unprepare noted",
    "unprepare answered",
    "claims forgotten",
)
STATUS_STEPS = ("told", "deleted")
STEPS = (*DEVICE_STEPS, *POD_STEPS, *CLAIM_STEPS, *STATUS_STEPS)
"""All that the kubelet tells; a test compares them with its source."""

EFFECTS = (
    "before os.rename kubelet_internal_checkpoint",
    "before os.rename dra_manager_state",
    "before os.rename N.json",  # the record of a pod
    "before os.remove N.json",
    "before os.rename sandbox.json",
    "before os.rename container.json",
    "before os.rename N",  # a sandbox or container is made
    "before os.rename stopped",
    "before os.rename N.N",  # and goes
)
"""The writes that count; the others are hit by chance."""

_EFFECTS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "subprocess.Popen"}
_NUMBERS = re.compile(r"[0-9a-f]{8,}(-[0-9a-f]{4,})*|[0-9]+")
DIES = "dies at "
"""So begins the line in the log, then comes the place."""


@dataclass(frozen=True, slots=True)
class Target:
    """Die at the `count`-th point called `name`; ANY: of all points."""

    name: str
    count: int = 1

    def write(self, path: Path) -> None:
        """From now on it counts."""
        fresh = path.with_suffix(".new")
        fresh.write_text(f"{self.name}\n{self.count}")
        fresh.rename(path)


def die(place: str) -> None:
    """Say where, on stdout, and end this process at once."""
    os.write(1, f"{DIES}{place}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)


class FaultPoints:
    """In the process that dies, or in one that kills it. `reached` is for named steps; `watch_effects` adds the others."""

    def __init__(self, file: Path, strike: Callable[[str], None] = die) -> None:
        self._file = file
        self._strike = strike
        self._text = ""
        self._left = 0

    def watch_effects(self) -> None:
        """For the rest of the process."""
        sys.addaudithook(self._audit)

    def reached(self, place: str) -> None:
        """Die here, if it is the place."""
        try:
            text = self._file.read_text()
        except FileNotFoundError:
            return
        name, count = text.split("\n")
        if text != self._text:
            self._text, self._left = text, int(count)
        if name in (ANY, place):
            self._left -= 1
            if self._left == 0:
                self._strike(place)

    def _audit(self, event: str, args: tuple[object, ...]) -> None:
        if event in _EFFECTS and not any(isinstance(one, str) and ".pyc" in one for one in args):
            what = args[1] if event in ("os.rename", "os.link") else args[0]
            self.reached(f"before {event} {_kind(str(what))}")


def _kind(what: str) -> str:
    """The name of a file without what differs from pod to pod."""
    return _NUMBERS.sub("N", what.rpartition("/")[2])


def write_death(log: Path, place: str) -> None:
    """For who kills another one: as if that one had said it."""
    with log.open("a") as file:
        file.write(f"{DIES}{place}\n")


def deaths(log: Path) -> list[str]:
    """The places where processes that wrote to this log have died, in order."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return [line.removeprefix(DIES) for line in text.splitlines() if line.startswith(DIES)]


def rarest(names: Iterable[str], seen: Iterable[str]) -> list[str]:
    """Those of the names that were hit least often so far."""
    hits = dict.fromkeys(names, 0)
    for one in seen:
        if one in hits:
            hits[one] += 1
    least = min(hits.values())
    return [name for name, count in hits.items() if count == least]
