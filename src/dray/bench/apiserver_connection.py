"""HTTP/1.1 over TLS with as little work as can be, so that a server under load is measured and not its clients."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from typing import Any, Final

from dray.bench.apiserver_loads import Asking
from dray.errors import ProtocolError, UnavailableError

_SECONDS: Final = 120.0
_HEAD_END: Final = b"\r\n\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"
READ_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server listens and as whom it is asked; goes to other processes as JSON."""

    host: str
    port: int
    ca: str
    token: str

    def tls(self) -> ssl.SSLContext:
        """For connections to it; HTTP/2 is not offered."""
        return ssl.create_default_context(cafile=self.ca)

    def encode(self, asking: Asking) -> bytes:
        """The whole request."""
        head = (
            f"{asking.method} {asking.path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            f"Authorization: Bearer {self.token}\r\nAccept: application/json\r\nUser-Agent: dray-bench\r\n"
        )
        if asking.body:
            head += f"Content-Type: {asking.content_type}\r\nContent-Length: {len(asking.body)}\r\n"
        return head.encode() + b"\r\n" + asking.body


def connect(target: Target, tls: ssl.SSLContext) -> ssl.SSLSocket:
    """A connection that blocks."""
    try:
        plain = socket.create_connection((target.host, target.port), timeout=_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return tls.wrap_socket(plain, server_hostname=target.host)
    except OSError as error:
        raise UnavailableError(f"cannot connect to {target.host}:{target.port}: {error}") from error


class Answer:
    """The bytes of one answer as they come. `feed` says whether it is complete."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.status = 0
        self._start = -1
        self._end = -1

    def feed(self, piece: bytes | memoryview) -> bool:
        """Take more of it."""
        self.data += piece
        if self._start < 0 and not self._read_head():
            return False
        if self._end >= 0:
            return len(self.data) >= self._end
        return self.data.endswith(_LAST_CHUNK, max(self._start, len(self.data) - len(_LAST_CHUNK) - 2))

    @property
    def has_begun(self) -> bool:
        """Whether its head is complete."""
        return self._start >= 0

    def body(self) -> bytes:
        """What was sent, without the framing of chunks."""
        raw = memoryview(self.data)[self._start :]
        if self._end >= 0:
            return bytes(raw)
        pieces: list[bytes] = []
        at = self._start
        while True:
            line = self.data.index(b"\r\n", at)
            size = int(self.data[at:line], 16)
            if not size:
                return b"".join(pieces)
            pieces.append(bytes(self.data[line + 2 : line + 2 + size]))
            at = line + 2 + size + 2

    def _read_head(self) -> bool:
        found = self.data.find(_HEAD_END)
        if found < 0:
            return False
        self._start = found + len(_HEAD_END)
        head = bytes(self.data[:found]).lower()
        self.status = int(head[9:12])
        _, has_length, rest = head.partition(b"\r\ncontent-length:")
        if has_length:
            self._end = self._start + int(rest.split(b"\r\n", 1)[0])
        return True

    def check(self, what: str) -> None:
        """ProtocolError for a refusal."""
        if self.status not in (200, 201):
            raise ProtocolError(f"{what}: {self.status} {self.body()[:300].decode(errors='replace')}")


def ask(connection: ssl.SSLSocket, target: Target, asking: Asking) -> Answer:
    """One request, and all of its answer. ProtocolError for a refusal."""
    connection.sendall(target.encode(asking))
    answer = Answer()
    while True:
        piece = connection.recv(READ_BYTES)
        if not piece:
            raise ProtocolError(f"{asking.method} {asking.path}: the connection was closed")
        if answer.feed(piece):
            answer.check(f"{asking.method} {asking.path}")
            return answer


def target_of(document: dict[str, Any]) -> Target:
    """As it came from another process."""
    return Target(**document)
