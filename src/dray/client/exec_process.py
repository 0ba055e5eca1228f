"""Run a small program once and read what it says, inside limits of time and size. Knows nothing of credentials."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_TAIL = 4096
_KILL_WAIT = 5.0


@dataclass(frozen=True, slots=True)
class Said:
    """What the program said. `stderr` is its end, empty where the program had the terminal for it."""

    returncode: int
    stdout: bytes
    stderr: bytes


class TooMuchOutputError(ValueError):
    """The program wrote more than it may; it was killed."""


async def run_program(
    argv: Sequence[str], env: Mapping[str, str], *, on_terminal: bool, seconds: float, limit: int
) -> Said:
    """Run to the end. OSError: it cannot be started. TimeoutError and TooMuchOutputError: killed, with its children.

    `on_terminal` lets it talk to the user: it gets our stdin and stderr and stays in our session, so that then only
    the program itself is killed. Without, stdin is empty. A caller that is cancelled leaves nothing running.
    """
    talk = _Talk(limit)
    start = asyncio.get_running_loop().subprocess_exec(
        lambda: talk,
        *argv,
        env=dict(env),
        stdin=None if on_terminal else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=None if on_terminal else asyncio.subprocess.PIPE,
        start_new_session=not on_terminal,
    )
    try:
        # Shielded: where a start is cancelled, asyncio kills only the program and waits for its children.
        await asyncio.shield(start)
        async with asyncio.timeout(seconds):
            await talk.ended.wait()
        if talk.is_too_much:
            raise TooMuchOutputError(f"more than {limit} bytes")
    except OSError as error:
        if not isinstance(error, TimeoutError):
            talk.give_up()  # there is nothing to end
        raise
    finally:
        await _end(talk, whole_group=not on_terminal)
    return talk.said()


class _Talk(asyncio.SubprocessProtocol):
    """Collects the output. Ended: the program is gone and its pipes are closed, or it said too much."""

    def __init__(self, limit: int) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.made = asyncio.Event()
        self.ended = asyncio.Event()
        self.lost = asyncio.Event()
        self.transport: asyncio.SubprocessTransport | None = None
        self._limit = limit

    @property
    def is_too_much(self) -> bool:
        return len(self.stdout) > self._limit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self.transport = transport
        self.made.set()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.stderr += data
            del self.stderr[:-_TAIL]
        elif not self.is_too_much:
            self.stdout += data
            if self.is_too_much:
                self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        self.lost.set()

    def give_up(self) -> None:
        """It never started."""
        self.made.set()
        self.lost.set()

    def said(self) -> Said:
        code = self.transport.get_returncode() if self.transport is not None else None
        return Said(code or 0, bytes(self.stdout), bytes(self.stderr))


def _kill(transport: asyncio.SubprocessTransport, *, whole_group: bool) -> None:
    """A child that outlives the program may hold the pipe: the group is killed even where its leader is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if whole_group:
            os.killpg(transport.get_pid(), signal.SIGKILL)
        else:
            transport.kill()


async def _end(talk: _Talk, *, whole_group: bool) -> None:
    """Kill what still runs and reap it; what not even SIGKILL ends (a hung mount) is left behind."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_KILL_WAIT):
            await talk.made.wait()
            if talk.transport is not None:
                if not talk.lost.is_set():
                    _kill(talk.transport, whole_group=whole_group)
                talk.transport.close()
            await talk.lost.wait()
