"""Who listens on a socket, for people: the process that has a name which should be ours."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.errors import Error
from dray.wire.sockets import dial, peer_of

_DIAL_SECONDS: Final = 0.2
_COMMAND_CHARACTERS: Final = 120


@dataclass(frozen=True, slots=True, order=True)
class Neighbour:
    """A process that listens. `pid` is 0 where it is not visible from our PID namespace, or did not accept."""

    socket: str
    pid: int = 0
    command: str = ""

    def __str__(self) -> str:
        if not self.pid:
            return self.command or "a process not visible from here"
        return f"{self.command or 'a process'} (pid {self.pid})"


async def who_listens(path: Path) -> Neighbour | None:
    """The process behind a socket; None where nobody listens. One that does not accept in time counts as listening."""
    try:
        async with asyncio.timeout(_DIAL_SECONDS):
            connection = await dial(path)
    except TimeoutError:
        return Neighbour(path.name, command="a process that does not answer")
    except Error:
        return None
    with connection:
        pid = peer_of(connection).pid
    return Neighbour(path.name, pid, _command(pid))


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    text = " ".join(word.decode(errors="replace") for word in words if word)
    return "".join(sign if sign.isprintable() else "?" for sign in text)[:_COMMAND_CHARACTERS]
