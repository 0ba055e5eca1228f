"""How much a peer may take from us: bytes, calls, connections, time."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds for one server or one channel. The defaults are those of gRPC in Go, which a kubelet uses.

    A kubelet never accepts more than 4 MiB from a device plugin, so `send` refuses earlier, with a text that says
    so. For CRI both sides use 16 MiB.
    """

    receive: int = 4 * MIB
    """Largest message taken from the peer, in bytes."""
    send: int = 4 * MIB
    """Largest message given to the peer, in bytes."""
    calls: int = 100
    """Calls a peer may have open at once on one connection."""
    connections: int = 128
    """Connections a server keeps at once; one more is closed at once."""
    per_process: int = 0
    """Connections that one process may have of these; 0: all of them."""
    arrival: float = 20.0
    """Seconds a peer gets for its handshake, and a caller for the one message of its request."""
    grace: float = 2.0
    """Seconds a stopping server gives unary calls to end by themselves; streams are ended at once."""
    stop: float = 5.0
    """Seconds it then waits for cancelled handlers and for connections to close."""


DEFAULT = Limits()
