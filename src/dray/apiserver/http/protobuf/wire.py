"""Protobuf's wire format: a message as numbered payloads. Pure, and safe on any bytes: every step goes forward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dray.errors import InvalidError

VARINT: Final = 0
BYTES: Final = 2
FIXED64: Final = 1
_GROUP, _END_GROUP, _FIXED32 = 3, 4, 5
_FIXED: Final = {FIXED64: 8, _FIXED32: 4}
_UINT64: Final = 2**64 - 1
_UINT32: Final = 2**32 - 1
_MAX_NUMBER: Final = 2**31 - 1
_CUT: Final = "it ends too early"


def payloads(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Number, wire type and payload of each field, in order: an int of a VARINT, otherwise bytes."""
    at, end = 0, len(data)
    while at < end:
        key, at = varint(data, at)
        number, wire_type = key >> 3 & _UINT32, key & 7
        if not 0 < number <= _MAX_NUMBER:
            raise InvalidError(f"{number} cannot be the number of a field")
        if wire_type == BYTES:
            length, at = varint(data, at)
            if length > end - at:
                raise InvalidError(_CUT)
            yield number, wire_type, data[at : at + length]
            at += length
        elif wire_type == VARINT:
            value, at = varint(data, at)
            yield number, wire_type, value
        else:
            start, at = at, _passed(data, at, wire_type)
            yield number, wire_type, data[start:at]


def parts(data: bytes, **wanted: int) -> dict[int, Any]:
    """The last payload of each field of a small message; `wanted` has names and wire types, in order of the numbers."""
    found: dict[int, Any] = {}
    kinds = tuple(wanted.items())
    for number, wire_type, payload in payloads(data):
        if number <= len(kinds):
            name, expected = kinds[number - 1]
            check_wire_type(name, wire_type, expected)
            found[number] = payload
    return found


def check_wire_type(name: str, wire_type: int, expected: int) -> None:
    """Refuse a payload of the wrong form."""
    if wire_type != expected:
        raise InvalidError(f"{name} has wire type {wire_type}, not {expected}")


def unpacked(data: bytes) -> Iterator[int]:
    """The numbers of a list that came as one payload."""
    at = 0
    while at < len(data):
        value, at = varint(data, at)
        yield value


def text(payload: bytes) -> str:
    """A text. Go lets other bytes than UTF-8 through, and then shows another text than it has; nobody writes such."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise InvalidError("it is not UTF-8") from None


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that starts at `at`, and where the next thing starts."""
    value = shift = 0
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    for byte in data[at : at + 10]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value & _UINT64, at + shift // 7
    raise InvalidError("a number is longer than 64 bits" if shift == 70 else _CUT)


def _passed(data: bytes, at: int, wire_type: int) -> int:
    """The end of a payload that nobody reads. Groups are counted, not entered: they may be nested without end."""
    depth = 0
    while True:
        if wire_type == _GROUP:
            depth += 1
        elif wire_type == _END_GROUP:
            depth -= 1
        elif wire_type == VARINT:
            _, at = varint(data, at)
        elif wire_type == BYTES:
            length, at = varint(data, at)
            at += length
        elif wire_type in _FIXED:
            at += _FIXED[wire_type]
        else:
            raise InvalidError(f"there is no wire type {wire_type}")
        if depth < 0:
            raise InvalidError("a group ends that never started")
        if at > len(data):
            raise InvalidError(_CUT)
        if depth == 0:
            return at
        key, at = varint(data, at)
        wire_type = key & 7
