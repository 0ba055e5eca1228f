"""Memory for large messages, shared by those who would each take some: all calls of a server, or all clients of the process.

A peer may have a hundred calls open on each of a hundred connections, and send most of a large message on all of them.
Small messages need no room here: whoever says little is always heard.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from dray.wire.limits import MIB
from dray.wire.status import BrokenMessage, Code

SMALL = 16 * 1024
"""Bytes of a message that needs no room."""
OF_CLIENTS = 32 * MIB


class Room:
    """So many bytes. A message that is larger than all of it has it when nobody else has any."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def taken(self) -> int:
        """Bytes that are in use now."""
        return self._taken

    def take(self, size: int) -> bool:
        """Take so much at once, or nothing: those who wait come first."""
        if self._waiting or not self._fits(size):
            return False
        self._taken += size
        return True

    async def wait(self, size: int) -> None:
        """Take so much as soon as all that came before have theirs."""
        if self.take(size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.give(size)
            else:
                # Whoever gave back in this very turn of the loop has taken it off already.
                with contextlib.suppress(ValueError):
                    self._waiting.remove((size, turn))
                self._let_in()
            raise

    def give(self, size: int) -> None:
        """Give back what was taken."""
        self._taken -= size
        self._let_in()

    def _fits(self, size: int) -> bool:
        return not self._taken or self._taken + size <= self._most

    def _let_in(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._taken += size
                turn.set_result(None)


class Lease:
    """What one call has of a room: enough for one message at a time. `waits` for it, or is refused at once."""

    def __init__(self, room: Room, *, waits: bool) -> None:
        self._room = room
        self._waits = waits
        self._size = 0

    async def take(self, size: int) -> None:
        """For a message of `size` bytes; the one before is given back."""
        self.drop()
        if size <= SMALL:
            return
        if self._waits:
            await self._room.wait(size)
        elif not self._room.take(size):
            raise BrokenMessage(
                Code.RESOURCE_EXHAUSTED, "too many large messages are on their way at once: try again"
            )
        self._size = size

    def drop(self) -> None:
        """Give back what there is. Safe to call twice."""
        size, self._size = self._size, 0
        if size:
            self._room.give(size)


CLIENTS = Room(OF_CLIENTS)
"""Of all clients of this process."""
