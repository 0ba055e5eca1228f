"""The bytes of a checkpoint file. Pure: no file is touched here.

    dray-checkpoint/1 sha256:<64 hex digits>
    version <number>
    <payload, to the end of the file>

The checksum is over every byte after the first line, as stored (`tail -n +2 FILE | sha256sum` shows it), so it never
depends on how something is encoded again. The version is the payload's, chosen by the user of the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

import msgspec

from dray.errors import InvalidError, InvariantError

T = TypeVar("T")

_MAGIC = b"dray-checkpoint/1 sha256:"
_FIRST_LINE = len(_MAGIC) + 64
# What a decoder or a migration says about a payload it does not like. Deep nesting ends in RecursionError.
_BAD_PAYLOAD = (msgspec.MsgspecError, InvalidError, ValueError, TypeError, LookupError, RecursionError)


class Unreadable(Exception):  # noqa: N818  (an outcome between two modules, not an error for users)
    """These bytes are not a checkpoint we can use; str() says why."""


@dataclass(frozen=True, slots=True)
class Format(Generic[T]):
    """What a checkpoint file holds: `type` as JSON in a `version`; `bytes` is stored as it is.

    `migrations[n]` turns a payload of version n into one of n+1. It runs on every start until the next save, on bytes
    whose checksum held, and raises InvalidError or ValueError for what it does not understand.
    """

    type: type[T]
    version: int = 1
    migrations: Mapping[int, Callable[[bytes], bytes]] = field(default_factory=dict)
    max_size: int = 16 * 1024 * 1024

    def __post_init__(self) -> None:
        if self.version < 1 or any(not 1 <= step < self.version for step in self.migrations):
            raise InvariantError("checkpoint versions start at 1, and migrations lead up to the current one")

    def encode(self, data: T) -> bytes:
        """The whole file; InvalidError when it would be larger than `max_size`."""
        payload = (
            cast("bytes", data) if self.type is bytes else msgspec.json.encode(data, order="deterministic")
        )
        covered = b"version %d\n%s" % (self.version, payload)
        content = b"%s%s\n%s" % (_MAGIC, hashlib.sha256(covered).hexdigest().encode(), covered)
        if len(content) > self.max_size:
            raise InvalidError(f"the state has {len(content)} bytes, more than the limit of {self.max_size}")
        return content

    def decode(self, content: bytes) -> T:
        """The data in a file's content, brought up to the current version; Unreadable when it cannot be used."""
        version, payload = _unpack(content, self.max_size)
        payload = self._migrate(version, payload)
        if self.type is bytes:
            return cast("T", payload)
        try:
            return msgspec.json.decode(payload, type=self.type)
        except _BAD_PAYLOAD as error:
            raise Unreadable(f"its content does not fit: {error}") from error

    def _migrate(self, version: int, payload: bytes) -> bytes:
        if version > self.version:
            raise Unreadable(f"version {version} is newer than {self.version}, the newest known here")
        for step in range(version, self.version):
            migration = self.migrations.get(step)
            if migration is None:
                raise Unreadable(
                    f"version {version} is too old: nothing leads from version {step} to {step + 1}"
                )
            try:
                payload = migration(payload)
            except _BAD_PAYLOAD as error:
                raise Unreadable(f"the migration from version {step} failed: {error}") from error
        return payload


def _unpack(content: bytes, max_size: int) -> tuple[int, bytes]:
    """Version and payload of a file whose checksum holds."""
    if not content:
        raise Unreadable("it is empty")
    if len(content) > max_size:
        raise Unreadable(f"it is larger than the limit of {max_size} bytes")
    if not content.startswith(_MAGIC):
        raise Unreadable("it is not a checkpoint file")
    checksum, covered = content[len(_MAGIC) : _FIRST_LINE], content[_FIRST_LINE + 1 :]
    if content[_FIRST_LINE : _FIRST_LINE + 1] != b"\n":
        raise Unreadable("it is cut short or damaged in its first line")
    if hashlib.sha256(covered).hexdigest().encode() != checksum:
        raise Unreadable("its checksum is wrong: it is damaged or cut short")
    line, _, payload = covered.partition(b"\n")
    word, _, number = line.partition(b" ")
    if word != b"version" or not number.isdigit() or not 0 < len(number) < 10 or int(number) < 1:
        raise Unreadable("its version line cannot be read")
    return int(number), payload
