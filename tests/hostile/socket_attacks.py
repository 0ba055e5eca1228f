"""What a hostile peer writes to a socket where HTTP/2 and gRPC are spoken: as a client, and as a server.

Every attack is a function of a source of chance, and the same one gives the same bytes. `CLIENT` and `SERVER` name all there are;
a case takes one of them, and sometimes damages what it wrote.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator, Sequence

from google.protobuf.message import Message
from hpack import Encoder

from tests.wire.samples import filled, frame

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED, ACK = 1, 4, 8, 1
STREAM = 0x80000001
"""The number of a stream with the reserved bit, which means nothing."""

Method = tuple[str, type[Message]]
"""A path, and the message that is expected there: the request of a client, the answer of a server."""
Attack = Callable[[random.Random, Method], Iterator[bytes]]


def h2(kind: int, flags: int, stream: int, payload: bytes = b"", length: int | None = None) -> bytes:
    """An HTTP/2 frame, wrong on demand."""
    size = len(payload) if length is None else length
    return size.to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def settings(*pairs: tuple[int, int]) -> bytes:
    return h2(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in pairs))


def words(*headers: tuple[str, str]) -> bytes:
    """Headers as bytes that refer to nothing said before; plain, for Huffman's code takes Python long."""
    return Encoder().encode(list(headers), huffman=False)


def asking(path: str, *more: tuple[str, str]) -> bytes:
    pseudo = ((":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"))
    return words(*pseudo, ("te", "trailers"), ("content-type", "application/grpc"), *more)


def call(number: int, path: str, body: bytes | None = b"", *more: tuple[str, str]) -> bytes:
    """A whole call; with None its body never comes."""
    head = h2(HEADERS, END_HEADERS, number, asking(path, *more))
    return head if body is None else head + h2(DATA, END_STREAM, number, frame(body))


def odd_numbers(count: int) -> Iterator[int]:
    return iter(range(1, 2 * count, 2))


def in_data(number: int, body: bytes, size: int = 16_384, *, end: bool = True) -> Iterator[bytes]:
    """A body as DATA frames."""
    for start in range(0, max(len(body), 1), size):
        is_last = end and start + size >= len(body)
        yield h2(DATA, END_STREAM if is_last else 0, number, body[start : start + size])


def hello(rng: random.Random) -> bytes:
    """What every client says first."""
    return PREFACE + settings(
        *rng.choice([(), ((4, 0),), ((4, 2**31 - 1),), ((3, 0), (1, 0)), ((5, 2**24 - 1),)])
    )


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The same with a few bytes changed, added or missing."""
    result = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(result) + 1)
        how = rng.randrange(3)
        if how == 0:
            result[place : place + 1] = rng.randbytes(1)
        elif how == 1:
            result[place:place] = rng.randbytes(rng.randrange(1, 30))
        else:
            del result[place : place + rng.randrange(1, 30)]
    return bytes(result)


# Below any call: both sides say the same things.


def noise(rng: random.Random, _: Method) -> Iterator[bytes]:
    yield rng.randbytes(rng.choice((0, 1, 8, 9, 10, 300, 70_000)))


def bad_settings(rng: random.Random, _: Method) -> Iterator[bytes]:
    yield rng.choice(
        (
            settings((4, 2**31)),
            settings((5, 0)),
            settings((5, 2**24)),
            settings((2, 7)),
            settings(*((rng.randrange(2**16), rng.randrange(2**32)) for _ in range(2000))),
            settings((1, 2**32 - 1)),
            h2(SETTINGS, 0, 0, b"\0" * 5),
            h2(SETTINGS, ACK, 0, b"\0" * 6),
            h2(SETTINGS, 0, 7, b""),
            h2(SETTINGS, ACK, 0) * 3000,
        )
    )


def settings_flood(rng: random.Random, method: Method) -> Iterator[bytes]:
    for _ in range(rng.choice((5, 100))):
        yield settings((4, rng.randrange(2**31)), (1, rng.randrange(2**16))) * 100


def ping_flood(rng: random.Random, method: Method) -> Iterator[bytes]:
    for _ in range(rng.choice((10, 100))):
        yield h2(PING, 0, 0, rng.randbytes(8)) * 200
    yield h2(PING, rng.choice((0, ACK)), rng.choice((0, 3)), b"\0" * rng.choice((0, 8, 9)))


def window_flood(rng: random.Random, method: Method) -> Iterator[bytes]:
    for _ in range(rng.choice((5, 50))):
        yield h2(WINDOW, 0, rng.choice((0, 1)), (1).to_bytes(4, "big")) * 200
    steps = (0, 2**31 - 1, 2**32 - 1)
    yield h2(WINDOW, 0, rng.choice((0, 1, 5, 2**31 - 1)), rng.choice(steps).to_bytes(4, "big")) * 2


def priority_flood(rng: random.Random, method: Method) -> Iterator[bytes]:
    for _ in range(30):
        numbers = [rng.randrange(1, 2**31) for _ in range(100)]
        yield b"".join(h2(PRIORITY, 0, one, (one ^ 2).to_bytes(4, "big") + b"\1") for one in numbers)
    yield h2(PRIORITY, 0, 3, (3).to_bytes(4, "big") + b"\1")


def unknown_frames(rng: random.Random, method: Method) -> Iterator[bytes]:
    for _ in range(rng.choice((3, 60))):
        yield h2(rng.randrange(10, 256), rng.randrange(256), rng.randrange(2**32), rng.randbytes(16_000))


def frame_too_long(rng: random.Random, _: Method) -> Iterator[bytes]:
    yield h2(rng.randrange(12), 0, rng.choice((0, 1)), rng.randbytes(100), rng.choice((16_385, 2**24 - 1)))


def goaway_flood(rng: random.Random, _: Method) -> Iterator[bytes]:
    last = rng.choice((0, 1, 2**31 - 1))
    yield h2(GOAWAY, 0, 0, struct.pack(">II", last, rng.randrange(14)) + rng.randbytes(2000)) * rng.choice(
        (1, 50)
    )


def push(rng: random.Random, method: Method) -> Iterator[bytes]:
    yield h2(PUSH, END_HEADERS, 1, (2).to_bytes(4, "big") + asking(method[0]))


def resets(rng: random.Random, _: Method) -> Iterator[bytes]:
    numbers = [rng.choice((0, 1, 2, 3, 99, 2**31 - 1)) for _ in range(500)]
    yield b"".join(h2(RST, 0, one, rng.randrange(2**32).to_bytes(4, "big")) for one in numbers)


BELOW: dict[str, Attack] = {
    "noise": noise,
    "bad settings": bad_settings,
    "settings flood": settings_flood,
    "ping flood": ping_flood,
    "window flood": window_flood,
    "priority flood": priority_flood,
    "unknown frames": unknown_frames,
    "frame too long": frame_too_long,
    "goaway flood": goaway_flood,
    "push": push,
    "resets": resets,
}


# Headers: what they cost before anybody knows what they are for.


def headers_without_end(rng: random.Random, method: Method) -> Iterator[bytes]:
    yield h2(HEADERS, 0, 1, asking(method[0])[: rng.randrange(60)])
    yield rng.choice((b"", h2(PING, 0, 0, b"\0" * 8), h2(DATA, 0, 1, b"x")))


def continuation_flood(rng: random.Random, method: Method) -> Iterator[bytes]:
    yield h2(HEADERS, 0, 1, asking(method[0]))
    piece = rng.choice((b"", b"\0", words(("x", "y" * 16_000))))
    for _ in range(rng.choice((60, 64, 400))):
        yield h2(CONTINUATION, 0, 1, piece)
    yield h2(CONTINUATION, END_HEADERS, 1, b"")


def huge_headers(rng: random.Random, method: Method) -> Iterator[bytes]:
    more = [(f"x-{number}", "v" * rng.choice((1, 4000))) for number in range(rng.choice((20, 800)))]
    data = asking(method[0], *more)
    yield h2(HEADERS, 0, 1, data[:16_384])
    pieces = [data[start : start + 16_384] for start in range(16_384, len(data), 16_384)] or [b""]
    for number, piece in enumerate(pieces, 1):
        yield h2(CONTINUATION, END_HEADERS if number == len(pieces) else 0, 1, piece)


def header_bomb(rng: random.Random, method: Method) -> Iterator[bytes]:
    """One long header, then one byte for each time it is said again."""
    yield h2(HEADERS, END_HEADERS, 1, asking(method[0], ("bomb", "b" * 3900)))
    for number in range(3, 3 + 2 * rng.choice((1, 20)), 2):
        yield h2(HEADERS, END_HEADERS, number, asking(method[0]) + b"\xbe" * 15_000)


def bad_hpack(rng: random.Random, _: Method) -> Iterator[bytes]:
    block = rng.choice(
        (b"\xff" * 50, b"\x80", b"\x3f" + b"\xff" * 12 + b"\1", rng.randbytes(400), b"\0\x7f\xff\xff\xff")
    )
    yield h2(HEADERS, END_HEADERS | END_STREAM, 1, block)


HEADS: dict[str, Attack] = {
    "headers without end": headers_without_end,
    "continuation flood": continuation_flood,
    "huge headers": huge_headers,
    "header bomb": header_bomb,
    "bad hpack": bad_hpack,
}


# A hostile client.


def rapid_reset(rng: random.Random, method: Method) -> Iterator[bytes]:
    numbers, count = odd_numbers(10_000), rng.choice((3, 30))
    for _ in range(count):
        yield b"".join(
            call(one, method[0], rng.choice((None, b""))) + h2(RST, 0, one, b"\0\0\0\x08")
            for one in (next(numbers) for _ in range(50))
        )


def calls_that_never_come(rng: random.Random, method: Method) -> Iterator[bytes]:
    count = rng.choice((50, 100, 101, 300))
    yield b"".join(call(one, method[0], None) for one in odd_numbers(count))


def hoard(rng: random.Random, method: Method) -> Iterator[bytes]:
    """A hundred large messages of each of which the end is missing."""
    numbers, size = list(odd_numbers(100)), 4 * 2**20
    for number in numbers:
        yield call(number, method[0], None) + h2(DATA, 0, number, frame(b"", length=size))
    for _ in range(rng.choice((4, 40, 250))):
        yield b"".join(h2(DATA, 0, number, b"\x0a" * 16_000) for number in numbers)


def crumbs(rng: random.Random, method: Method) -> Iterator[bytes]:
    """Bytes one by one, also behind the end of a message: each has a frame of its own."""
    yield call(1, method[0], None) + h2(DATA, 0, 1, frame(b""))
    for _ in range(rng.choice((10, 100))):
        yield h2(DATA, 0, 1, b"x") * 500


def broken_body(rng: random.Random, method: Method) -> Iterator[bytes]:
    path, kind = method
    message = filled(kind, rng).SerializeToString()
    for number in odd_numbers(rng.randrange(1, 6)):
        body = rng.choice(
            (
                frame(message),
                frame(damaged(message, rng)),
                frame(rng.randbytes(rng.randrange(60))),
                frame(message, flag=rng.choice((1, 2, 255))),
                frame(message, length=rng.choice((0, 2**22, 2**22 + 1, 2**31, 2**32 - 1))),
                frame(message) * 3,
                frame(b"\x0a" * 100_000),
                b"\0\0",
                b"",
            )
        )
        yield h2(HEADERS, END_HEADERS, number, asking(path))
        yield from in_data(number, body, rng.choice((1000, 16_384)), end=rng.random() < 0.8)


def wrong_request(rng: random.Random, method: Method) -> Iterator[bytes]:
    path, _ = method
    odd: Sequence[tuple[tuple[str, str], ...]] = (
        ((":method", "GET"), (":path", path)),
        ((":method", "POST"), (":path", path), ("content-type", "text/html")),
        ((":method", "POST"), ("content-type", "application/grpc")),
        ((":method", "POST"), (":path", rng.choice(("", "/", path + "/..", path * 500, "\x00\x1b[31m", "/a/\n"))),
         ("content-type", "application/grpc")),
        ((":method", "POST"), (":path", path), ("content-type", "application/grpc"),
         ("grpc-timeout", rng.choice(("99999999H", "-1S", "0n", "1" * 3000, "S", "1\x00S")))),
        (("content-type", "application/grpc"), (":method", "POST"), (":path", path), (":path", "/other")),
        ((":method", "CONNECT"), (":path", "*"), ("connection", "close"), ("transfer-encoding", "chunked")),
    )  # fmt: skip
    for number in odd_numbers(6):
        yield h2(HEADERS, END_HEADERS, number, words(*rng.choice(odd)))
        yield h2(DATA, END_STREAM, number, frame(b""))


def wrong_streams(rng: random.Random, method: Method) -> Iterator[bytes]:
    """Frames for streams that are not open, are over, or are the server's to open."""
    yield call(3, method[0])
    yield rng.choice(
        (
            call(1, method[0]),
            call(2, method[0]),
            call(3, method[0]),
            call(STREAM, method[0]),
            h2(DATA, END_STREAM, 3, b"x"),
            h2(DATA, 0, 0, b"x"),
            h2(DATA, 0, 9, b"x"),
            h2(DATA, PADDED, 3, b"\xff"),
            h2(HEADERS, END_HEADERS | END_STREAM, 3, words(("trailing", "x"))),
            h2(HEADERS, END_HEADERS | PADDED, 5, b"\xff" + asking(method[0])),
            call(5, method[0], None) + h2(DATA, 0, 5, b"x" * 16_384) * 100,
            call(2**31 - 1, method[0]) + call(2**31 - 3, method[0]),
        )
    )


def slow_reader(rng: random.Random, method: Method) -> Iterator[bytes]:
    """Asks again and again, with a window that takes no answer."""
    for number in odd_numbers(90):
        yield call(number, method[0])


def whole_calls(rng: random.Random, method: Method) -> Iterator[bytes]:
    """Nothing is wrong with these but what they say."""
    for number in odd_numbers(rng.randrange(1, 30)):
        yield call(number, method[0], filled(method[1], rng).SerializeToString())


CLIENT: dict[str, Attack] = {
    **BELOW,
    **HEADS,
    "rapid reset": rapid_reset,
    "calls that never come": calls_that_never_come,
    "hoard": hoard,
    "crumbs": crumbs,
    "broken body": broken_body,
    "wrong request": wrong_request,
    "wrong streams": wrong_streams,
    "slow reader": slow_reader,
    "whole calls": whole_calls,
}
WHOLE = {"hoard", "slow reader"}
"""Attacks that damage would only make harmless."""


def client_case(rng: random.Random, name: str, method: Method) -> Iterator[bytes]:
    """One connection of a hostile client, part by part."""
    if name == "noise":
        yield rng.choice((b"", PREFACE, PREFACE[: rng.randrange(24)], b"GET / HTTP/1.1\r\n\r\n"))
    else:
        yield hello(rng)
    is_damaged = name not in WHOLE and rng.random() < 0.3
    for part in CLIENT[name](rng, method):
        yield damaged(part, rng) if is_damaged else part


# A hostile server. Its attack comes instead of its settings, or as the answer to the first call.

OK = ((":status", "200"), ("content-type", "application/grpc"))


def answer(number: int, *parts: bytes, status: str = "0", more: Sequence[tuple[str, str]] = ()) -> bytes:
    begin = h2(HEADERS, END_HEADERS, number, words(*OK))
    data = b"".join(piece for part in parts for piece in in_data(number, part, end=False))
    return begin + data + h2(HEADERS, END_HEADERS | END_STREAM, number, words(("grpc-status", status), *more))


def broken_answer(rng: random.Random, method: Method) -> Iterator[bytes]:
    message = filled(method[1], rng).SerializeToString()
    parts = rng.choice(
        (
            [frame(damaged(message, rng))],
            [frame(rng.randbytes(rng.randrange(90)))],
            [frame(message, flag=1)],
            [frame(message, length=rng.choice((1, 2**24, 2**24 + 1, 2**26 + 1, 2**32 - 1)))],
            [frame(message)] * 3,
            [frame(b"\x0a\x00" * 200_000)],
            [frame(b"\x0a" * 400_000)],
            [b"\0"],
            [],
        )
    )
    yield answer(1, *parts, status=rng.choice(("0", "0", "5", "99", "", "x", "-1")))


def odd_status(rng: random.Random, _: Method) -> Iterator[bytes]:
    text = rng.choice(("%", "%zz", "%00%0a%1b[31m", "m" * 30_000, "%ff%fe"))
    more = [("grpc-message", text), ("grpc-status-details-bin", rng.choice(("", "?", "A" * 9000)))]
    yield answer(1, status=rng.choice(("0", "2", "14", "16", "17")), more=more)


def many_answers(rng: random.Random, method: Method) -> Iterator[bytes]:
    """Lists without end; whoever reads them sees each another one."""
    yield h2(HEADERS, END_HEADERS, 1, words(*OK))
    for _ in range(rng.choice((20, 200))):
        data = b"".join(frame(filled(method[1], rng).SerializeToString()) for _ in range(5))
        yield from in_data(1, data, end=False)


def informational_flood(rng: random.Random, method: Method) -> Iterator[bytes]:
    for _ in range(rng.choice((5, 50))):
        yield h2(HEADERS, END_HEADERS, 1, words((":status", "103"), ("link", "x" * 100))) * 50


def headers_twice(rng: random.Random, method: Method) -> Iterator[bytes]:
    odd = ((("grpc-status", "0"),), OK, ((":status", "x"),), ((":status", "204"),), ())
    for _ in range(4):
        yield h2(HEADERS, END_HEADERS | rng.choice((0, END_STREAM)), 1, words(*rng.choice(odd)))


def half_answer(rng: random.Random, _: Method) -> Iterator[bytes]:
    """Most of a large message, and then nothing."""
    yield h2(HEADERS, END_HEADERS, 1, words(*OK))
    size = rng.choice((10, 2**20, 2**24))
    yield from in_data(1, frame(b"x" * (size - 1), length=size), end=False)


def answer_crumbs(rng: random.Random, method: Method) -> Iterator[bytes]:
    yield h2(HEADERS, END_HEADERS, 1, words(*OK))
    for _ in range(rng.choice((10, 100))):
        yield h2(DATA, 0, 1, b"\0") * 500


def silence(rng: random.Random, _: Method) -> Iterator[bytes]:
    yield b""


SERVER: dict[str, Attack] = {
    **BELOW,
    **HEADS,
    "broken answer": broken_answer,
    "odd status": odd_status,
    "many answers": many_answers,
    "informational flood": informational_flood,
    "headers twice": headers_twice,
    "half answer": half_answer,
    "answer crumbs": answer_crumbs,
    "silence": silence,
}


def server_case(rng: random.Random, name: str, method: Method, number: int = 1) -> Iterator[bytes]:
    """What comes instead of an honest answer to the call with this number."""
    is_damaged = rng.random() < 0.3
    for part in SERVER[name](rng, method):
        sent = part if number == 1 else renumbered(part, number)
        yield damaged(sent, rng) if is_damaged else sent


def renumbered(frames: bytes, number: int) -> bytes:
    """The same frames, those for stream 1 for another one; what is no whole frame stays as it is."""
    result, at = bytearray(frames), 0
    while at + 9 <= len(result):
        if result[at + 5 : at + 9] == b"\0\0\0\1":
            result[at + 5 : at + 9] = number.to_bytes(4, "big")
        at += 9 + int.from_bytes(result[at : at + 3], "big")
    return bytes(result)
