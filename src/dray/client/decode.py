"""Bytes of a list or a watch → typed items, one object at a time so that one bad object does not spoil the rest."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

import msgspec

from dray.api.codec import decode
from dray.api.kinds import Resource
from dray.api.meta import ListMeta, Model, ObjectMeta, Status
from dray.client.failures import ExpiredError
from dray.client.sharing import SHARED
from dray.client.store import Entry, Unreadable, WatchEvent
from dray.errors import InvalidError, ProtocolError

T = TypeVar("T", bound=Model)

Item = Entry[T] | Unreadable

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What the decoder raises on bytes that are not what was expected."""


class _Envelope(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


class _Page(msgspec.Struct, frozen=True):
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class _Meta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _MetaOnly(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_page = msgspec.json.Decoder(_Page).decode
_decode_meta = msgspec.json.Decoder(_MetaOnly).decode
_decode_status = msgspec.json.Decoder(Status).decode


def meta_of(value: Model) -> ObjectMeta:
    """The metadata of an object; every kind of `Resource` has it."""
    return cast("ObjectMeta", cast("Any", value).metadata)


class LineSplitter:
    """Cuts a stream of chunks into lines; a line may span any number of chunks."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def pending(self) -> int:
        """Bytes of a line whose end has not come; at the end of a stream: what was cut off."""
        return self._size

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            if self._parts:
                lines[0] = b"".join([*self._parts, lines[0]])
                self._parts.clear()
            self._size = 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
        return lines


class ItemDecoder(Generic[T]):
    """Decodes objects of one resource."""

    def __init__(self, resource: Resource[T]) -> None:
        self._resource = resource
        self._type = resource.type

    def value(self, data: bytes) -> T:
        """One object that must be readable; ProtocolError otherwise."""
        try:
            return decode(data, self._type)
        except InvalidError as error:
            raise ProtocolError(f"{self._resource}: the server's answer cannot be read: {error}") from error

    def item(self, data: bytes | msgspec.Raw) -> Item[T]:
        """One object. ProtocolError: not even its metadata can be read."""
        written = bytes(data)
        if not SHARED.is_on:
            return self._item(written)
        name = SHARED.name(self._type, written)
        found: Item[T] | None = SHARED.get(name)
        if found is None:
            found = self._item(written)
            if isinstance(found, Entry):
                SHARED.put(name, found)
        return found

    def _item(self, data: bytes) -> Item[T]:
        try:
            value = decode(data, self._type)
        except InvalidError as error:
            return self._unreadable(data, error)
        meta = meta_of(value)
        if not meta.name or not meta.resource_version:
            raise ProtocolError(
                f"{self._resource}: the server sent an object without name or resource version"
            )
        return Entry((meta.namespace, meta.name), meta.uid, meta.resource_version, value)

    def page(self, data: bytes) -> tuple[ListMeta, list[Item[T]]]:
        """One page of a list."""
        try:
            page = _decode_page(data)
        except UNREADABLE as error:
            raise ProtocolError(f"{self._resource}: the server's list cannot be read: {error}") from error
        if not page.metadata.resource_version:
            raise ProtocolError(f"{self._resource}: the server sent a list without a resource version")
        return page.metadata, [self.item(raw) for raw in page.items or ()]

    def event(self, line: bytes) -> WatchEvent[T]:
        """One line of a watch. An ERROR event is raised as the error it carries."""
        try:
            envelope = _decode_envelope(line)
        except UNREADABLE as error:
            raise ProtocolError(f"{self._resource}: a watch event cannot be read: {error}") from error
        match envelope.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                item = self.item(envelope.object)
                return WatchEvent(envelope.type, item, item.version)
            case "BOOKMARK":
                return WatchEvent("BOOKMARK", None, self._mark(envelope.object))
            case "ERROR":
                raise self._error(envelope.object)
        raise ProtocolError(
            f"{self._resource}: the server sent a watch event of unknown type {envelope.type!r}"
        )

    def _unreadable(self, data: bytes | msgspec.Raw, error: InvalidError) -> Unreadable:
        meta = self._meta(data)
        if not meta.name or not meta.resource_version:
            raise ProtocolError(f"{self._resource}: the server sent an object that cannot be read: {error}")
        return Unreadable((meta.namespace, meta.name), meta.uid, meta.resource_version, str(error))

    def _mark(self, data: msgspec.Raw) -> str:
        version = self._meta(data).resource_version
        if not version:
            raise ProtocolError(f"{self._resource}: the server sent a bookmark without a resource version")
        return version

    def _meta(self, data: bytes | msgspec.Raw) -> _Meta:
        try:
            return _decode_meta(data).metadata
        except UNREADABLE as error:
            raise ProtocolError(f"{self._resource}: the server sent no object: {error}") from error

    def _error(self, data: msgspec.Raw) -> ExpiredError:
        """Whatever the server complains about inside a watch, the stream is no longer complete."""
        try:
            status = _decode_status(data)
            reason = f"{status.code} {status.message or status.reason}"
        except UNREADABLE:
            reason = "an error that cannot be read"
        return ExpiredError(f"watch of {self._resource}: the server ended it: {reason}; list again")
