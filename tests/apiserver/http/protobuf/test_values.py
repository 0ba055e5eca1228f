from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from dray.apiserver.http.protobuf.values import SCALARS, WRITTEN
from dray.errors import InvalidError
from tests.apiserver.http.protobuf.written import field

JULY = 1_783_000_000
"""2026-07-02T13:46:40Z."""


def timestamp(seconds: int, nanos: int = 0) -> bytes:
    return field(1, seconds) + field(2, nanos)


@pytest.mark.parametrize(
    ("kind", "payload", "value"),
    [
        ("bool", 2, True),
        ("int32", 2**64 - 1, -1),
        ("int32", 2**31, -(2**31)),
        ("int32", 2**32 + 5, 5),
        ("int64", 2**64 - 1, -1),
        ("int64", 2**63 - 1, 2**63 - 1),
        ("string", "é".encode(), "é"),
        ("bytes", b"\0\xff", "AP8="),
        ("bytes", b"", ""),
        ("double", pack("<d", 3.0), 3),
        ("double", pack("<d", -0.25), -0.25),
        ("double", pack("<d", 999997748200186314752.0), 999997748200186300000),
        ("double", pack("<d", 1e21), 1e21),
    ],
)
def test_scalars(kind: str, payload: Any, value: Any) -> None:
    found = SCALARS[kind][1](payload)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "payload", "value"),
    [
        ("Time", b"", None),
        ("Time", timestamp(0), "1970-01-01T00:00:00Z"),
        ("Time", timestamp(JULY, 999_999_999), "2026-07-02T13:46:40Z"),
        ("Time", timestamp(-62135596800), None),
        ("Time", timestamp(-62135596799), "0001-01-01T00:00:01Z"),
        ("Time", timestamp(253402300799), "9999-12-31T23:59:59Z"),
        ("MicroTime", b"", None),
        ("MicroTime", timestamp(JULY), "2026-07-02T13:46:40.000000Z"),
        ("MicroTime", timestamp(JULY, 1_234_567), "2026-07-02T13:46:40.001234Z"),
        ("MicroTime", timestamp(-62135596800, 1000), "0001-01-01T00:00:00.000001Z"),
        ("Quantity", b"", "0"),
        ("Quantity", field(1, "1.5Gi"), "1536Mi"),
        ("Quantity", field(1, "0.5"), "500m"),
        ("IntOrString", b"", 0),
        ("IntOrString", field(1, 0) + field(2, -3) + field(3, "unused"), -3),
        ("IntOrString", field(1, 1) + field(2, 7) + field(3, "25%"), "25%"),
        ("IntOrString", field(1, 1), ""),
        ("RawExtension", b"", None),
        ("RawExtension", field(1, '{"a": [1, null]}'), {"a": [1, None]}),
        ("FieldsV1", field(1, '{"f:spec": {}}'), {"f:spec": {}}),
        ("JSON", field(1, ""), None),
        ("JSON", field(1, "17"), 17),
    ],
)
def test_types_with_a_form_of_their_own(kind: str, payload: bytes, value: Any) -> None:
    assert WRITTEN[kind](payload) == value


@pytest.mark.parametrize(
    ("kind", "payload", "why"),
    [
        ("Time", timestamp(253402300800), "years 1 to 9999"),
        ("Time", timestamp(2**62), "years 1 to 9999"),
        ("MicroTime", timestamp(-(2**62)), "years 1 to 9999"),
        ("Time", field(1, "x"), "seconds has wire type 2, not 0"),
        ("Quantity", field(1, "many"), "quantities must match"),
        ("Quantity", field(1, ""), "quantities must match"),
        ("IntOrString", field(1, 2), "type: 2"),
        ("RawExtension", field(1, "{"), "JSON"),
        ("RawExtension", field(1, ""), "JSON"),
        ("RawExtension", field(1, "[" * 100_000), "nested"),
        ("FieldsV1", field(1, b"\xff"), "JSON"),
    ],
)
def test_values_that_cannot_be(kind: str, payload: bytes, why: str) -> None:
    with pytest.raises(InvalidError, match=why):
        WRITTEN[kind](payload)


def test_a_number_json_does_not_know() -> None:
    with pytest.raises(InvalidError, match="nan is no number in JSON"):
        SCALARS["double"][1](pack("<d", float("nan")))
