"""IP addresses and networks as texts, by the rules of Go's `net/netip`, which are narrower than Python's: no leading zeros,
and errors in Go's words."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address

from dray.cel.faults import EvaluationError
from dray.cel.quoting import quote_start

Address = IPv4Address | IPv6Address
_HEX = re.compile(r"[0-9a-fA-F]*")
_DIGITS = re.compile(r"0|[1-9][0-9]*")
_MAPPED = range(0xFFFF << 32, (0xFFFF << 32) + 2**32)


def _fault(text: str, message: str, at: str = "") -> EvaluationError:
    place = f" (at {quote_start(at)})" if at else ""
    return EvaluationError(f"ParseAddr({quote_start(text)}): {message}{place}")


def parse_address(text: str) -> tuple[Address, str]:
    """The address and its zone, which is empty but for texts like `fe80::1%eth0`."""
    kind = next((character for character in text if character in ".:%"), "")
    if kind == ".":
        return IPv4Address(_ipv4(text, text)), ""
    if kind == ":":
        return _ipv6(text)
    raise _fault(text, "missing IPv6 address" if kind == "%" else "unable to parse IP")


def is_mapped(address: Address) -> bool:
    """Whether it is an IPv4 address in an IPv6 one."""
    return address.version == 6 and int(address) in _MAPPED


def parse_network(text: str) -> tuple[Address, int]:
    """An address and the length of the prefix."""
    head, slash, bits = text.rpartition("/")
    name = f"netip.ParsePrefix({quote_start(text)})"
    if not slash:
        raise EvaluationError(f"{name}: no '/'")
    try:
        address, zone = parse_address(head)
    except EvaluationError as error:
        raise EvaluationError(f"{name}: {error}") from None
    if zone:
        raise EvaluationError(f"{name}: IPv6 zones cannot be present in a prefix")
    if not _DIGITS.fullmatch(bits) or len(bits) > 18:
        raise EvaluationError(f"{name}: bad bits after slash: {quote_start(bits)}")
    if int(bits) > address.max_prefixlen:
        raise EvaluationError(f"{name}: prefix length out of range")
    return address, int(bits)


def _ipv4(text: str, part: str) -> int:
    """The four fields in `part` of `text` as one number. The first thing that is wrong from the left is told."""
    fields: list[int] = []
    value = digits = 0
    for at, character in enumerate(part):
        if character in "0123456789":
            if digits == 1 and value == 0:
                raise _fault(text, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(character), digits + 1
            if value > 255:
                raise _fault(text, "IPv4 field has value >255")
        elif character != ".":
            raise _fault(text, "unexpected character", part[at:])
        elif at in (0, len(part) - 1) or part[at - 1] == ".":
            raise _fault(text, "IPv4 field must have at least one digit", part[at:])
        elif len(fields) == 3:
            raise _fault(text, "IPv4 address too long")
        else:
            fields.append(value)
            value, digits = 0, 0
    if len(fields) < 3:
        raise _fault(text, "IPv4 address too short")
    return int.from_bytes(bytes([*fields, value]), "big")


def _ipv6(text: str) -> tuple[IPv6Address, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _fault(text, "zone must be a non-empty string")
    groups: list[int] = []
    gap = -1
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
    while rest and len(groups) < 8:
        group = _group(text, rest)
        if rest[len(group) : len(group) + 1] == ".":
            groups += _embedded(text, rest, len(groups), gap)
            rest = ""
            break
        groups.append(int(group, 16))
        rest, gap = _next_group(text, rest[len(group) :], len(groups), gap)
    if rest:
        raise _fault(text, "trailing garbage after address", rest)
    return IPv6Address(_whole(text, groups, gap)), zone


def _group(text: str, rest: str) -> str:
    found = _HEX.match(rest)
    group = found[0] if found else ""
    if len(group) > 4:
        raise _fault(text, "each group must have 4 or less digits", rest)
    if not group:
        raise _fault(text, "each colon-separated field must have at least one digit", rest)
    return group


def _next_group(text: str, rest: str, count: int, gap: int) -> tuple[str, int]:
    """What follows the colon after a group, and where the gap (`::`) is."""
    if not rest:
        return rest, gap
    if rest[0] != ":":
        raise _fault(text, "unexpected character, want colon", rest)
    if len(rest) == 1:
        raise _fault(text, "colon must be followed by more characters", rest)
    rest = rest[1:]
    if rest[0] != ":":
        return rest, gap
    if gap >= 0:
        raise _fault(text, "multiple :: in address", rest)
    return rest[1:], count


def _embedded(text: str, rest: str, count: int, gap: int) -> list[int]:
    if gap < 0 and count != 6:
        raise _fault(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if count > 6:
        raise _fault(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    number = _ipv4(text, rest)
    return [number >> 16, number & 0xFFFF]


def _whole(text: str, groups: list[int], gap: int) -> int:
    missing = 8 - len(groups)
    if missing and gap < 0:
        raise _fault(text, "address string too short")
    if not missing and gap >= 0:
        raise _fault(text, "the :: must expand to at least one field of zeros")
    if missing:
        groups[gap:gap] = [0] * missing
    number = 0
    for group in groups:
        number = number << 16 | group
    return number
