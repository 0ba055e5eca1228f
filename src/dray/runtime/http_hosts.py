"""Which Host headers name a server, and which Origin headers are its own pages. Pure; shared by all that browsers can reach.

A page of another site can make a browser send requests here, and a name that its owner points at 127.0.0.1 makes it send
them as if they were ours. So a request must name a host of ours, and come from nowhere or from our own page. An address
cannot be pointed anywhere: a browser that sends one really asked for it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dray.errors import InvalidError

FLAG: Final = "--allow-host"
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
HTTP_PORT: Final = 80
"""Browsers do not name this one."""
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names under which we may be called. One without a port stands for any port; `addresses`: any address is ours."""

    names: frozenset[str]
    addresses: bool = False

    @staticmethod
    def at(host: str, port: int, more: Iterable[str] = ()) -> Hosts:
        """The address we listen on, the names of this machine to itself, and what an administrator allows."""
        own = {in_url(host).lower()} if not is_any(host) else set()
        if is_any(host) or is_loopback(host):
            own |= {in_url(one) for one in LOOPBACK}
        with_port = {f"{name}:{port}" for name in own}
        return Hosts(frozenset(with_port | _allowed(more) | (own if port == HTTP_PORT else set())))

    @staticmethod
    def named(names: Iterable[str], more: Iterable[str] = ()) -> Hosts:
        """Any address and these names, at any port: tunnels and forwarded ports lead here too. `more` an administrator allows."""
        return Hosts(frozenset({in_url(name).lower() for name in names} | _allowed(more)), addresses=True)

    def has(self, host: str) -> bool:
        """Whether a Host header names us."""
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        return not self.names.isdisjoint({host.lower(), found[1].lower()}) or (
            self.addresses and _is_address(found[1])
        )


def is_own_origin(origin: str, host: str) -> bool:
    """Whether an Origin header is that of a page which came from the host of the same request."""
    return origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())


def host_only(name: str) -> str:
    """Without the port and the brackets. InvalidError for what is neither HOST nor HOST:PORT."""
    found = _HOST.fullmatch(name)
    if found is None or (name.startswith("[") and not _is_address(found[1])):
        raise InvalidError(f"{FLAG} {name!r} must be HOST or HOST:PORT", field=FLAG)
    return found[1].strip("[]").lower()


def in_url(host: str) -> str:
    """As it stands in an address: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def is_any(host: str) -> bool:
    """Whether it is the address that stands for all of this machine's."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return not host


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _allowed(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names if host_only(name)}


def _is_address(text: str) -> bool:
    try:
        _ = ipaddress.IPv6Address(text[1:-1]) if text.startswith("[") else ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True
