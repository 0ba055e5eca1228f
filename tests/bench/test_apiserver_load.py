"""The lean clients read what servers really send, however it is cut up."""

from __future__ import annotations

import random

import pytest

from dray.bench.apiserver_connection import Answer
from dray.bench.apiserver_watchers import EventCount, Progress
from dray.errors import ProtocolError

LENGTH = b'HTTP/1.1 201 Created\r\nContent-Type: x\r\nContent-Length: 11\r\n\r\n{"a":"b\\n"}'
CHUNKS = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n6\r\n"0\\r"}\r\n0\r\n\r\n'


def cut(data: bytes, chance: random.Random) -> list[bytes]:
    pieces = []
    while data:
        size = chance.randrange(1, 9)
        pieces.append(data[:size])
        data = data[size:]
    return pieces


@pytest.mark.parametrize(
    ("data", "status", "body"), [(LENGTH, 201, b'{"a":"b\\n"}'), (CHUNKS, 200, b'{"a":"0\\r"}')]
)
def test_an_answer_is_complete_at_its_end(data: bytes, status: int, body: bytes) -> None:
    for seed in range(50):
        answer = Answer()
        *first, last = cut(data, random.Random(seed))
        assert not any(answer.feed(piece) for piece in first)
        assert answer.feed(last)
        assert (answer.status, answer.body()) == (status, body)
        answer.check("POST /")


def test_a_refusal_is_said() -> None:
    answer = Answer()
    assert answer.feed(b"HTTP/1.1 409 Conflict\r\ncontent-length: 4\r\n\r\nbusy")
    with pytest.raises(ProtocolError, match="POST /x: 409 busy"):
        answer.check("POST /x")


def test_events_are_counted_in_any_cut() -> None:
    line = b'{"type":"ADDED"}\n'
    stream = b"".join(b"%x\r\n%b\r\n" % (len(line) * many, line * many) for many in (1, 3, 1, 2))
    for seed in range(50):
        count = EventCount()
        assert [count.feed(piece) for piece in cut(stream, random.Random(seed))][-1] == 7


def test_an_event_is_complete_with_its_last_watcher() -> None:
    progress = Progress(3)
    assert [progress.move(0, 2), progress.move(0, 1), progress.said] == [False, False, 0]
    assert progress.move(0, 3) and progress.said == 1
    assert progress.move(1, 3) and progress.said == 2
    assert progress.move(2, 3) and progress.said == 3
