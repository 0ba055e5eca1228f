"""What plugins and drivers have in common when they are checked: how they come, run and end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from dray.runtime.clock import Clock
from dray.testing.check.program import Program, Room, is_socket, wait_until
from dray.testing.check.rules import Outcome, Pace, failed, passed, skipped


class Started(Protocol):
    """What there is where the program was started by us."""

    @property
    def room(self) -> Room:
        """The directories it works in."""
        ...

    @property
    def program(self) -> Program:
        """Its process."""
        ...


P = TypeVar("P", bound=Started)


@dataclass(kw_only=True)
class ProgramSubject(ABC, Generic[P]):
    """A program on its live socket (`private` is None), or started for the check."""

    word: ClassVar[str]
    """What stands in a command for the directory it registers in."""

    clock: Clock
    pace: Pace
    private: P | None = None
    left: tuple[str, ...] | None = None
    """Sockets that were there after it ended by itself."""

    @property
    def is_live(self) -> bool:
        """Nobody started it for us."""
        return self.private is None

    @property
    def own(self) -> P:
        """For rules that are not for live sockets."""
        assert self.private is not None
        return self.private

    def death(self) -> str:
        """How the process ended."""
        return self.private.program.death() if self.private else ""

    async def wait_ended(self) -> None:
        """For as long as it also gets to register."""
        if self.private is not None:
            program = self.private.program
            await wait_until(lambda: not program.is_running, self.pace.settle, self.clock)

    @abstractmethod
    async def wait_ready(self) -> str:
        """Registered, by a process that runs; else why not."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """What has registered."""

    @abstractmethod
    def sockets(self) -> Sequence[Path]:
        """Those of what has registered."""


async def registers(subject: ProgramSubject[Any]) -> Outcome:
    """Starts the program."""
    started = subject.clock.monotonic()
    if reason := await subject.wait_ready():
        if subject.own.room.is_isolated:
            return failed(reason)
        own = "without root its own directories cannot stand in for the kubelet's"
        return failed(f"{reason} (run as root if the command does not use {subject.word}; {own})")
    return passed(f"{', '.join(subject.names())} after {subject.clock.monotonic() - started:.1f} s")


async def stops(subject: ProgramSubject[Any]) -> Outcome:
    """SIGTERM, as the container runtime sends it. What is left then is for the next rule."""
    paths = subject.sockets()
    took = await subject.own.program.terminate(subject.pace.within)
    if took is None:
        await subject.own.program.kill()
        return failed(f"still runs {subject.pace.within:g} s after SIGTERM")
    subject.left = tuple(sorted({path.name for path in paths if is_socket(path)}))
    return passed(f"{took:.2f} s after SIGTERM; {subject.death().partition(';')[0]}")


async def cleans_up(subject: ProgramSubject[Any]) -> Outcome:
    """Only where the process ended by itself."""
    if subject.left is None:
        return skipped("it did not end by itself")
    return failed(f"left behind: {', '.join(subject.left)}") if subject.left else passed()
