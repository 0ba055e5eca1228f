from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.wire.status import BrokenMessage
from dray.wire.transport.stream import Inbox, Lost


class Window:
    """Keeps what was given back to the sender."""

    def __init__(self) -> None:
        self.returned = 0

    def __call__(self, size: int) -> None:
        self.returned += size


async def test_bytes_come_out_as_they_went_in_however_they_were_cut() -> None:
    window = Window()
    inbox = Inbox(window)
    for part in (b"ab", b"", b"cdefg", b"h"):
        inbox.add(part, len(part))
    inbox.eof()
    assert [await inbox.read(3), await inbox.read(1), await inbox.read(4), await inbox.read(1)] == [
        b"abc",
        b"d",
        b"efgh",
        b"",
    ]
    assert window.returned == 8


async def test_only_what_is_wanted_is_given_back() -> None:
    window = Window()
    inbox = Inbox(window)
    for _ in range(10):
        inbox.add(b"x" * 100, 150)  # padding counts for the window
    assert await inbox.read(120) == b"x" * 120
    assert window.returned == 300
    assert inbox.unacked_size() == 8 * 150


async def test_padding_alone_is_given_back_too() -> None:
    window = Window()
    inbox = Inbox(window)
    inbox.add(b"", 10)
    inbox.add(b"a", 1)
    assert await inbox.read(1) == b"a"
    assert window.returned == 11


async def test_a_reader_is_woken_by_bytes_by_the_end_and_by_loss() -> None:
    loop = asyncio.get_running_loop()
    inbox = Inbox(Window())
    loop.call_soon(inbox.add, b"ab", 2)
    assert await inbox.read(2) == b"ab"
    loop.call_soon(inbox.eof)
    assert await inbox.read(2) == b""
    lost = Inbox(Window())
    lost.add(b"last words", 10)
    loop.call_soon(lost.fail, Lost("gone"))
    assert await lost.read(10) == b"last words"
    with pytest.raises(Lost, match="gone"):
        await lost.read(1)


async def test_an_end_in_the_middle_is_told() -> None:
    inbox = Inbox(Window())
    inbox.add(b"ab", 2)
    inbox.eof()
    with pytest.raises(BrokenMessage, match="middle of a message"):
        await inbox.read(3)


async def test_a_cancelled_reader_loses_nothing() -> None:
    inbox = Inbox(Window())
    inbox.add(b"ab", 2)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await inbox.read(3)
    inbox.add(b"c", 1)
    assert await inbox.read(3) == b"abc"


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(0, 60)))
def test_any_cut_gives_the_same_bytes(parts: list[bytes], sizes: list[int]) -> None:
    async def run() -> None:
        window = Window()
        inbox = Inbox(window)
        for part in parts:
            inbox.add(part, len(part))
        inbox.eof()
        rest = b"".join(parts)
        for size in sizes:
            if len(rest) < size:
                break
            assert await inbox.read(size) == rest[:size]
            rest = rest[size:]
        assert window.returned + inbox.unacked_size() == len(b"".join(parts))

    asyncio.run(run())


async def test_bytes_that_come_one_by_one_are_kept_together() -> None:
    window = Window()
    inbox = Inbox(window)
    for _ in range(6400):
        inbox.add(b"x", 2)
    assert len(inbox._chunks) == 100
    assert await inbox.read(65) == b"x" * 65
    assert window.returned == 2 * 128
    assert inbox.unacked_size() == 2 * 6272
