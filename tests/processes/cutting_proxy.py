"""Between programs and the API server: passes bytes on, and cuts or holds up connections at random."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.waiting import wait_until


@dataclass
class CuttingProxy:
    """`trouble` False: it only passes on. A connection lives for a random time; a cut leaves answers half sent."""

    port: int
    rng: random.Random
    life: float
    trouble: bool = True
    cuts: int = 0
    stalls: int = 0
    _flowing: asyncio.Event = field(default_factory=asyncio.Event)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._flowing.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its client's side."""
        self._open.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                await self._carry((reader, far_writer), (far_reader, writer))
            finally:
                far_writer.transport.abort()
        except OSError:
            pass  # the server is away: the client sees its connection end
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _carry(self, *ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        async with asyncio.TaskGroup() as group:
            pumps = [group.create_task(self._pump(*way)) for way in ways]
            limit = self.rng.expovariate(1 / self.life) if self.trouble else None
            await asyncio.wait(pumps, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            self.cuts += not any(pump.done() for pump in pumps)
            for pump in pumps:
                pump.cancel()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._flowing.wait()
                if self.trouble and self.rng.random() < 0.02:
                    data = data[: self.rng.randrange(len(data))]  # and then nothing more
                    writer.write(data)
                    await writer.drain()
                    return
                writer.write(data)
                await writer.drain()

    async def stall(self, seconds: float) -> None:
        """Nothing moves for so long, then everything goes on."""
        self.stalls += 1
        self._flowing.clear()
        await asyncio.sleep(seconds)
        self._flowing.set()

    def cut_all(self) -> None:
        """Every connection at once."""
        self.cuts += len(self._open)
        for writer in tuple(self._open):
            writer.transport.abort()

    async def disturb(self) -> None:
        """One of the two."""
        if self.rng.random() < 0.5:
            self.cut_all()
        else:
            await self.stall(self.rng.random() * 1.5)


@asynccontextmanager
async def cutting_proxy(
    port: int, rng: random.Random, life: float = 2.0
) -> AsyncIterator[tuple[int, CuttingProxy]]:
    """To a port of this machine; entered: the port where it listens."""
    proxy = CuttingProxy(port, rng, life)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], proxy
    finally:
        server.close()
        proxy.cut_all()
        async with asyncio.timeout(60):
            await server.wait_closed()
            await wait_until(lambda: not proxy._open)
