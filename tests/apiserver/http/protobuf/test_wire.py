from __future__ import annotations

import pytest

from dray.apiserver.http.protobuf.wire import BYTES, FIXED64, VARINT, parts, payloads, text, unpacked, varint
from dray.errors import InvalidError
from tests.apiserver.http.protobuf.written import field
from tests.apiserver.http.protobuf.written import varint as written

DEEP = 100_000


def test_a_message_is_its_payloads_in_order() -> None:
    data = field(1, "a") + field(300, 7) + b"\x11" + bytes(range(8)) + field(1, b"")
    assert list(payloads(data)) == [
        (1, BYTES, b"a"),
        (300, VARINT, 7),
        (2, FIXED64, bytes(range(8))),
        (1, BYTES, b""),
    ]


@pytest.mark.parametrize("value", [0, 1, 127, 128, 2**31, 2**63, 2**64 - 1])
def test_numbers_come_back(value: int) -> None:
    data = written(value)
    assert varint(b"\xff" + data + b"\xff", 1) == (value, 1 + len(data))


def test_what_is_beyond_64_bits_is_dropped() -> None:
    assert varint(b"\xff" * 9 + b"\x7f", 0) == (2**64 - 1, 10)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x0a", "too early"),
        (b"\x0a\x05abcd", "too early"),
        (b"\x0a" + written(2**63), "too early"),
        (b"\x80", "too early"),
        (b"\x08", "too early"),
        (b"\x09\x00", "too early"),
        (b"\x0d\x00", "too early"),
        (b"\x08" + b"\xff" * 10, "longer than 64 bits"),
        (b"\x00\x00", "0 cannot be the number"),
        (written(2**31 << 3), "2147483648 cannot be the number"),
        (b"\x0e", "no wire type 6"),
        (b"\x0f", "no wire type 7"),
        (b"\x0c", "never started"),
        (b"\x0b" * DEEP, "too early"),
        (b"\x0b\x12" + written(2**40), "too early"),
    ],
)
def test_broken_messages_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(InvalidError, match=why):
        list(payloads(data))


def test_groups_are_passed_over_however_deep() -> None:
    inside = field(1, 5) + field(2, "x") + b"\x19" + bytes(8) + b"\x1d" + bytes(4)
    data = b"\x0b" * DEEP + inside + b"\x0c" * DEEP + field(2, "after")
    (first, _, group), after = payloads(data)
    assert (first, len(group)) == (1, 2 * DEEP - 1 + len(inside))
    assert after == (2, BYTES, b"after")


def test_small_messages_keep_the_last_of_each_part() -> None:
    data = field(1, "a") + field(2, 3) + field(1, "b") + field(9, "unknown")
    assert parts(data, name=BYTES, count=VARINT) == {1: b"b", 2: 3}
    with pytest.raises(InvalidError, match="count has wire type 2, not 0"):
        parts(field(2, "text"), name=BYTES, count=VARINT)


def test_packed_numbers() -> None:
    assert list(unpacked(written(1) + written(300) + written(2**64 - 1))) == [1, 300, 2**64 - 1]
    with pytest.raises(InvalidError, match="too early"):
        list(unpacked(b"\x01\x80"))


def test_texts_are_utf8() -> None:
    assert text("größe".encode()) == "größe"
    with pytest.raises(InvalidError, match="not UTF-8"):
        text(b"\xff")
