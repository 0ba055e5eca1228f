"""Protobuf written by hand: a message is the sum of its fields."""

from __future__ import annotations


def varint(value: int) -> bytes:
    value %= 2**64
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def field(number: int, payload: bytes | str | int) -> bytes:
    """A number is a VARINT, all else is BYTES."""
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    data = payload.encode() if isinstance(payload, str) else payload
    return varint(number << 3 | 2) + varint(len(data)) + data


def body(api_version: str, kind: str, raw: bytes = b"") -> bytes:
    return b"k8s\0" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def entry(key: str, value: bytes | str | int) -> bytes:
    return field(1, key) + field(2, value)
