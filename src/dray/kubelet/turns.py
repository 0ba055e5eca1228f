"""Who comes often waits for himself, not others for him: no peer has the event loop for itself.

Nothing is guarded here, only time is shared out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

# Real time even under a fake clock: what a peer sends is real too.
_REST_SHARE = 4.0


@dataclass(slots=True)
class _Line:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    length: int = 0


class Turns:
    """One at a time for each key, in the order in which they came."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """Entered when all that came before with this key are done."""
        line = self._lines.setdefault(key, _Line())
        line.length += 1
        try:
            async with line.lock:
                yield
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[key]


class Pace:
    """Work that comes from peers gets a fifth of the time, all together; a peer with much of it as often as one with little."""

    def __init__(self) -> None:
        self._turns = Turns()
        self._free_at = 0.0

    @asynccontextmanager
    async def turn(self, peer: Hashable) -> AsyncIterator[None]:
        """The body must not wait for anything. Those of one peer queue up before they queue with the others."""
        async with self._turns.turn(("peer", peer)), self._turns.turn("all"):
            await asyncio.sleep(max(0.0, self._free_at - time.perf_counter()))
            began = time.perf_counter()
            try:
                yield
            finally:
                ended = time.perf_counter()
                self._free_at = ended + (ended - began) * _REST_SHARE
