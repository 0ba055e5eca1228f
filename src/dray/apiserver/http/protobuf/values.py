"""Payloads as JSON values: numbers and texts, and the Kubernetes types that have a JSON form of their own. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isfinite
from struct import unpack
from typing import Any, Final

from dray.api.codec import loads
from dray.api.quantity import parse_quantity
from dray.apiserver.http.protobuf.wire import BYTES, FIXED64, VARINT, parts, text
from dray.errors import InvalidError

Read = Callable[[Any], Any]
_SOURCE: Final = "the JSON in it"
_EXPONENT_FROM: Final = 1e21
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO_SECONDS: Final = -62135596800
"""Go's zero time, the start of the year 1: null in JSON."""


def _int32(payload: int) -> int:
    return ((payload & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def _int64(payload: int) -> int:
    return payload - 2**64 if payload >= 2**63 else payload


def _double(payload: bytes) -> int | float:
    """A whole number is one in JSON too, as far as Go writes it without an exponent: few digits, and then zeros."""
    value = float(unpack("<d", payload)[0])
    if not isfinite(value):
        raise InvalidError(f"{value} is no number in JSON")
    return int(Decimal(repr(value))) if value.is_integer() and abs(value) < _EXPONENT_FROM else value


def _base64(payload: bytes) -> str:
    return b64encode(payload).decode()


def _moment(payload: bytes, timespec: str) -> str | None:
    if not payload:
        return None
    found = parts(payload, seconds=VARINT, nanos=VARINT)
    seconds = _int64(found.get(1, 0))
    micros = 0 if timespec == "seconds" else int(_int32(found.get(2, 0)) / 1000)
    if seconds == _ZERO_SECONDS and micros == 0:
        return None
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=micros)
    except OverflowError:
        raise InvalidError("it is not in the years 1 to 9999") from None
    return moment.replace(tzinfo=None).isoformat(timespec=timespec) + "Z"


def _time(payload: bytes) -> str | None:
    return _moment(payload, "seconds")


def _micro_time(payload: bytes) -> str | None:
    return _moment(payload, "microseconds")


def _quantity(payload: bytes) -> str:
    found = parts(payload, string=BYTES)
    return str(parse_quantity(text(found[1]))) if found else "0"


def _int_or_string(payload: bytes) -> int | str:
    found = parts(payload, type=VARINT, intVal=VARINT, strVal=BYTES)
    kind = _int64(found.get(1, 0))
    if kind not in (0, 1):
        raise InvalidError(f"type: {kind} is neither 0 (a number) nor 1 (a text)")
    return text(found.get(3, b"")) if kind else _int32(found.get(2, 0))


def _any(payload: bytes) -> Any:
    raw = parts(payload, raw=BYTES).get(1)
    return loads(raw, _SOURCE) if raw else None


def _embedded(payload: bytes) -> Any:
    found = parts(payload, raw=BYTES)
    return loads(found[1], _SOURCE) if found else None


SCALARS: Final[Mapping[str, tuple[int, Read, Any]]] = {
    "double": (FIXED64, _double, 0),
    "string": (BYTES, text, ""),
    "bytes": (BYTES, _base64, None),
    "bool": (VARINT, bool, False),
    "int32": (VARINT, _int32, 0),
    "int64": (VARINT, _int64, 0),
}
"""By name: the wire type, how a payload is read, and what an absent one is."""

WRITTEN: Final[Mapping[str, Read]] = {
    "FieldsV1": _embedded,
    "IntOrString": _int_or_string,
    "JSON": _any,
    "MicroTime": _micro_time,
    "Quantity": _quantity,
    "RawExtension": _embedded,
    "Time": _time,
}
"""Messages that are a single value in JSON."""
