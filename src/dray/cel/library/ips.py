"""Kubernetes' IP addresses: `ip("10.0.0.1").family()`, …"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import ClassVar

from dray.cel import types as t
from dray.cel.faults import EvaluationError
from dray.cel.functions import Library, Overload
from dray.cel.library.addresses import Address, is_mapped, parse_address
from dray.cel.library.costs import walk, walked
from dray.cel.quoting import quote_start
from dray.cel.types import Type
from dray.cel.values import Opaque, Value

IP = t.opaque("net.IP")


@dataclass(frozen=True, slots=True)
class IpValue(Opaque):
    """An address. It is as large as its bytes."""

    address: Address
    cel_type: ClassVar[Type] = IP

    def __len__(self) -> int:
        return self.address.max_prefixlen // 8

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return write_address(self.address)


def write_address(address: Address) -> str:
    """The canonical text; unlike Go's since 3.13, Python's writes mapped addresses with dots, which no value here is."""
    return str(address)


def parse_ip(text: str) -> IpValue:
    """Without a zone, and not an IPv4 address in an IPv6 one; raises `EvaluationError`."""
    try:
        address, zone = parse_address(text)
    except EvaluationError as error:
        raise EvaluationError(
            f"IP Address {quote_start(text)} parse error during conversion from string: {error}"
        ) from None
    if zone:
        raise EvaluationError(f"IP address {quote_start(text)} with zone value is not allowed")
    if is_mapped(address):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quote_start(text)} is not allowed")
    return IpValue(address)


def _is_ip(text: str) -> Value:
    try:
        parse_ip(text)
    except EvaluationError:
        return False
    return True


def _is_canonical(text: str) -> Value:
    return str(parse_ip(text)) == text


def _family(value: IpValue) -> Value:
    return value.address.version


def _is_multicast(address: Address) -> bool:
    number = int(address)
    return number >> 120 == 0xFF if isinstance(address, IPv6Address) else number >> 28 == 0xE


def _is_loopback(address: Address) -> bool:
    return int(address) == 1 if isinstance(address, IPv6Address) else int(address) >> 24 == 127


def _is_link_local(address: Address) -> bool:
    number = int(address)
    return number >> 118 == 0xFE80 >> 6 if isinstance(address, IPv6Address) else number >> 16 == 0xA9FE


def _is_link_local_multicast(address: Address) -> bool:
    number = int(address)
    return number >> 112 & 0xFF0F == 0xFF02 if isinstance(address, IPv6Address) else number >> 8 == 0xE00000


def _is_global_unicast(address: Address) -> bool:
    """Private addresses count as global, as in Go."""
    if int(address) == 0 or (address.version == 4 and int(address) == 2**32 - 1):
        return False
    return not (_is_loopback(address) or _is_multicast(address) or _is_link_local(address))


def _accessor(name: str, function: str, test: Callable[[Address], bool]) -> Overload:
    return Overload(name, function, (IP,), t.BOOL, lambda value: test(value.address), is_member=True)


LIBRARY = Library(
    name="kubernetes.net.ip",
    types=(IP,),
    overloads=(
        Overload("string_to_ip", "ip", (t.STRING,), IP, parse_ip, estimate=walk(), cost=walked()),
        Overload("ip_family", "family", (IP,), t.INT, _family, is_member=True),
        Overload(
            "ip_is_canonical",
            "ip.isCanonical",
            (t.STRING,),
            t.BOOL,
            _is_canonical,
            estimate=walk(2),
            cost=walked(2),
        ),
        _accessor("ip_is_unspecified", "isUnspecified", lambda address: int(address) == 0),
        _accessor("ip_is_loopback", "isLoopback", _is_loopback),
        _accessor("ip_is_link_local_multicast", "isLinkLocalMulticast", _is_link_local_multicast),
        _accessor("ip_is_link_local_unicast", "isLinkLocalUnicast", _is_link_local),
        _accessor("ip_is_global_unicast", "isGlobalUnicast", _is_global_unicast),
        Overload("is_ip", "isIP", (t.STRING,), t.BOOL, _is_ip, estimate=walk(), cost=walked()),
        Overload("ip_to_string", "string", (IP,), t.STRING, str),
    ),
)
