"""Who is listened to at all: requests that name this server, and that no page of another origin sent. Before any token."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from dray.errors import DeniedError
from dray.runtime.http_hosts import FLAG, LOOPBACK, Hosts, is_own_origin

_REMEMBERED: Final = 256
"""Host headers whose answer is known: clients of a server use a handful."""
_SHOWN: Final = 100


def server_hosts(names: Iterable[str] = (), allowed: Iterable[str] = ()) -> Hosts:
    """Any address, loopback, this machine's own name, those of the certificate, and those that an administrator allows."""
    host = socket.gethostname()
    return Hosts.named((*LOOPBACK, host, host.partition(".")[0], *names), allowed)


class Doorkeeper:
    """One for a server; asked for every request, watches included."""

    def __init__(self, hosts: Hosts) -> None:
        self._has = lru_cache(_REMEMBERED)(hosts.has)

    def check(self, headers: Mapping[str, str]) -> None:
        """DeniedError, which says what would help."""
        host = headers.get("Host", "")
        if not self._has(host):
            raise DeniedError(
                f"{host[:_SHOWN]!r} in the Host header is no name of this server: use its address, "
                f"or start it with {FLAG} NAME",
                what="Host",
            )
        origin = headers.get("Origin")
        if origin is not None and not is_own_origin(origin, host):
            raise DeniedError(
                "a page of another origin may not ask this server: its Origin header is not ours",
                what="Origin",
            )
