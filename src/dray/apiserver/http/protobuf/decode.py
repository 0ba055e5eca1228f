"""A protobuf body as the JSON document it stands for: what Go's types would hold after reading it, written as JSON.

The wire has no word for a list or a map that is there but empty; whether a text or a message is there, it does tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

from dray.apiserver.http.protobuf.schema import INLINE, Field, Message, Shape, message_of
from dray.apiserver.http.protobuf.wire import (
    BYTES,
    check_wire_type,
    parts,
    payloads,
    text,
    unpacked,
)
from dray.errors import InvalidError

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\0"
_MAX_VALUES: Final = 200_000
_MAX_DEPTH: Final = 100

Document = dict[str, Any]
Pieces = Sequence[bytes]


def decode_object(body: bytes) -> Document:
    """The document, with its apiVersion and kind. InvalidError names the message and the field that is wrong."""
    if not body.startswith(_MAGIC):
        raise InvalidError(f"the body is not {PROTOBUF}: it does not start with k8s and a zero byte")
    api_version, kind, raw = _envelope(body[len(_MAGIC) :])
    if not api_version or not kind:
        raise InvalidError("the body does not name its apiVersion and kind", field="typeMeta")
    message = message_of(api_version, kind)
    if message is None:
        raise InvalidError(f'no kind "{kind}" is registered for version "{api_version}"', field="typeMeta")
    document: Document = _Reader().inside(message, raw)
    return {"apiVersion": api_version, "kind": kind} | document


def _envelope(data: bytes) -> tuple[str, str, bytes]:
    """The apiVersion, the kind and the object of a runtime.Unknown. What it says of its encoding no server looks at."""
    try:
        found = parts(data, typeMeta=BYTES, raw=BYTES, contentEncoding=BYTES, contentType=BYTES)
        names = b"".join(payload for number, _, payload in payloads(data) if number == 1)
        types = parts(names, apiVersion=BYTES, kind=BYTES)
        return text(types.get(1, b"")), text(types.get(2, b"")), found.get(2, b"")
    except InvalidError as error:
        raise InvalidError(f"runtime.Unknown: {error}", field="typeMeta") from None


class _Reader:
    """Reads one body, and counts: two bytes can make a message with many fields, and schemas hold schemas."""

    def __init__(self) -> None:
        self._left = _MAX_VALUES
        self._depth = 0

    def inside(self, message: Message, *pieces: bytes) -> Any:
        """A message as JSON; in several pieces where it was there several times."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise InvalidError(f"{message.name}: messages are nested deeper than {_MAX_DEPTH}")
        value = self._chosen(message, pieces) if message.is_value else self._document(message, pieces)
        self._depth -= 1
        return value

    def _chosen(self, message: Message, pieces: Pieces) -> Any:
        """The value that stands for the message: of the last field that is there, or else an empty one of the first."""
        found = self._gathered(message, pieces)
        number = max(found, default=1)
        field = message.fields[number]
        if found or field.shape is Shape.LIST:
            return self._present(message, field, found.get(number, ()))
        return field.zero

    def _document(self, message: Message, pieces: Pieces) -> Document:
        found = self._gathered(message, pieces)
        document: Document = {}
        for number in sorted(found.keys() | message.staying):
            field = message.fields[number]
            value = self._present(message, field, found[number]) if number in found else self._absent(field)
            if field.name == INLINE:
                document |= value
            elif value or not field.needs_value:
                document[field.name] = value
        return document

    def _gathered(self, message: Message, pieces: Pieces) -> dict[int, list[Any]]:
        """All payloads of each known field, in order."""
        found: dict[int, list[Any]] = {}
        try:
            for number, wire_type, payload in chain.from_iterable(map(payloads, pieces)):
                self._count()
                if field := message.fields.get(number):
                    found.setdefault(number, []).extend(self._taken(field, wire_type, payload))
        except InvalidError as error:
            raise InvalidError(f"{message.name}: {error}", field=error.field) from None
        return found

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise InvalidError(f"the object has more than {_MAX_VALUES} values")

    def _taken(self, field: Field, wire_type: int, payload: Any) -> Iterable[Any]:
        """One payload, or several where the numbers of a list came as one."""
        if wire_type == field.wire_type:
            yield payload
        elif field.shape is Shape.LIST and wire_type == BYTES:
            for number in unpacked(payload):
                self._count()
                yield number
        else:
            check_wire_type(field.name, wire_type, field.wire_type)

    def _absent(self, field: Field) -> Any:
        if field.message is None or field.shape is not Shape.ONE:
            return field.zero
        return self.inside(field.message)

    def _present(self, message: Message, field: Field, found: Sequence[Any]) -> Any:
        """Of a value that is there twice the last one counts, of a message all its pieces do."""
        if field.shape is Shape.MAP:
            return dict(self._entry(message, field, payload) for payload in found)
        if field.message is not None and field.shape is not Shape.LIST:
            return self.inside(field.message, *found)
        values = [self._value(message, field, payload) for payload in found]
        return values if field.shape is Shape.LIST else values[-1]

    def _entry(self, message: Message, field: Field, payload: bytes) -> tuple[str, Any]:
        try:
            found = parts(payload, key=BYTES, value=field.wire_type)
            key = text(found.get(1, b""))
        except InvalidError as error:
            raise _refused(message, field, error) from None
        return key, self._value(message, field, found.get(2, b"" if field.wire_type == BYTES else 0))

    def _value(self, message: Message, field: Field, payload: Any) -> Any:
        if field.message is not None:
            return self.inside(field.message, payload)
        assert field.read is not None
        try:
            return field.read(payload)
        except InvalidError as error:
            raise _refused(message, field, error) from None


def _refused(message: Message, field: Field, error: InvalidError) -> InvalidError:
    return InvalidError(f"{message.name}.{field.name}: {error}", field=field.name)
