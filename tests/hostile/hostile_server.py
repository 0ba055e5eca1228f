"""A server that is honest up to one method, and then writes whatever an attack says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.message import Message
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived
from h2.exceptions import H2Error

from tests.hostile.socket_attacks import Method, server_case
from tests.wire.samples import HEADERS, frame

CONNECT = "connect"
Honest = Callable[[str], Message]


@dataclass
class HostileServer:
    """One server. `honest` answers by path; the method `at` (or the connection itself) gets the attack `attack` instead.

    `reached` is set when the attack has been written, or the peer has gone before.
    """

    honest: Mapping[str, Message]
    at: Method
    attack: str
    rng: random.Random
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    stays: bool = True
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """With one connection, to its end."""
        self.writers.append(writer)
        try:
            await self._talk(reader, writer)
        except (OSError, H2Error):
            pass
        finally:
            writer.transport.abort()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.at[0] == CONNECT:
            await self._write(writer)
            while self.stays and await reader.read(2**16):
                pass
            return
        h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        h2.initiate_connection()
        writer.write(h2.data_to_send())
        attacked = False
        while data := await reader.read(2**16):
            if attacked:
                continue  # nothing that is said after an attack is looked at
            for event in h2.receive_data(data):
                if isinstance(event, RequestReceived):
                    headers = {str(name): str(value) for name, value in event.headers}
                    attacked = attacked or headers[":path"] == self.at[0]
                    await self._answer(h2, event.stream_id, headers[":path"], writer)
            if attacked and not self.stays:
                return
            writer.write(h2.data_to_send())

    async def _answer(self, h2: H2Connection, number: int, path: str, writer: asyncio.StreamWriter) -> None:
        if path == self.at[0]:
            writer.write(h2.data_to_send())
            await self._write(writer, number)
        elif path in self.honest:
            h2.send_headers(number, HEADERS)
            h2.send_data(number, frame(self.honest[path].SerializeToString()))
            h2.send_headers(number, [("grpc-status", "0")], end_stream=True)

    async def _write(self, writer: asyncio.StreamWriter, number: int = 1) -> None:
        try:
            for part in server_case(self.rng, self.attack, self.at, number):
                writer.write(part)
                await writer.drain()
        finally:
            self.reached.set()

    @asynccontextmanager
    async def serving(self, path: Path) -> AsyncIterator[None]:
        """Listens while entered; there is no socket before and after."""
        with suppress(FileNotFoundError):
            path.unlink()
        server = await asyncio.start_unix_server(self.talk, path)
        try:
            yield
        finally:
            server.close()
            for writer in self.writers:
                writer.transport.abort()
            with suppress(FileNotFoundError):
                path.unlink()
