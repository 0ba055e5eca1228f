"""Messages as bytes: gRPC's five-byte frame around them, and one version of an API read as another."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from dray.wire.status import BrokenMessage, Code, TooLarge

M = TypeVar("M", bound=Message)

PREFIX = 5
"""Bytes before a message: a compression flag and the length."""


def pack(message: Message, limit: int) -> bytes:
    """The frame for one message. The same message always gives the same bytes, maps included.

    Raises TooLarge above `limit`.
    """
    data = message.SerializeToString(deterministic=True)
    if len(data) > limit:
        raise TooLarge(Code.RESOURCE_EXHAUSTED, _too_large(len(data), limit))
    return b"\0" + len(data).to_bytes(4, "big") + data


def length_of(prefix: bytes, limit: int) -> int:
    """The message length that a prefix announces, refused before a byte of it is kept if it passes `limit`."""
    if prefix[0]:
        raise BrokenMessage(Code.UNIMPLEMENTED, "compressed messages are not supported; send them plain")
    length = int.from_bytes(prefix[1:], "big")
    if length > limit:
        raise BrokenMessage(Code.RESOURCE_EXHAUSTED, _too_large(length, limit))
    return length


def unpack(data: bytes, kind: type[M]) -> M:
    """The message in these bytes; BrokenMessage where they are not one."""
    try:
        return kind.FromString(data)
    except DecodeError:
        raise BrokenMessage(
            Code.INTERNAL, f"{len(data)} bytes that are not a {kind.DESCRIPTOR.full_name}"
        ) from None


def translate(message: Message, kind: type[M]) -> M:
    """The same content as another version's message: by field number, what that version does not know is dropped."""
    other = kind.FromString(message.SerializeToString(deterministic=True))
    other.DiscardUnknownFields()
    return other


def _too_large(size: int, limit: int) -> str:
    return f"a message of {size} bytes is larger than the limit of {limit}"
