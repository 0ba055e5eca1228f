from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from h2.connection import H2Connection

from dray.errors import ProtocolError, UnavailableError
from dray.wire.connect import connect
from dray.wire.deviceplugin import DevicePluginClient, DevicePluginService
from dray.wire.limits import MIB, Limits
from dray.wire.serve import LARGE_MESSAGES, serve
from dray.wire.status import BrokenMessage, Code
from dray.wire.transport.room import CLIENTS, SMALL, Lease, Room
from tests.waiting import wait_until
from tests.wire.samples import HEADERS, Plugin, frame, ids_of, raw_client, request_for, scripted

ALLOCATE = "/v1beta1.DevicePlugin/Allocate"


async def test_what_does_not_fit_waits_in_the_order_in_which_it_came() -> None:
    room, order = Room(10), list[int]()

    async def have(number: int, size: int) -> None:
        await room.wait(size)
        order.append(number)

    await room.wait(6)
    async with asyncio.TaskGroup() as group:
        for number, size in enumerate((5, 1, 4)):
            group.create_task(have(number, size))
        await asyncio.sleep(0)
        assert order == [] and not room.take(1), "whoever waits comes first"
        room.give(6)
    assert order == [0, 1, 2] and room.taken == 10


async def test_one_that_is_larger_than_the_room_has_it_alone() -> None:
    room = Room(10)
    assert room.take(99) and not room.take(1)
    room.give(99)
    assert room.taken == 0


@pytest.mark.parametrize("is_let_in", [False, True])
async def test_one_that_is_given_up_holds_up_nobody(is_let_in: bool) -> None:
    room = Room(10)
    await room.wait(6)
    first, second = (asyncio.ensure_future(room.wait(size)) for size in (9, 4))
    await asyncio.sleep(0)
    if is_let_in:
        room.give(6)
    first.cancel()
    await second
    assert room.taken == (4 if is_let_in else 10)


async def test_one_that_is_given_up_while_room_is_made_is_just_cancelled() -> None:
    room = Room(10)
    await room.wait(6)
    waiting = asyncio.ensure_future(room.wait(9))
    await asyncio.sleep(0)
    waiting.cancel()
    room.give(6)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert room.taken == 0 and room.take(10)


async def test_a_small_message_needs_no_room() -> None:
    room = Room(10)
    lease = Lease(room, waits=False)
    await lease.take(SMALL)
    assert room.taken == 0
    await lease.take(SMALL + 1)
    with pytest.raises(BrokenMessage, match="too many large messages") as caught:
        await Lease(room, waits=False).take(SMALL + 1)
    assert caught.value.code is Code.RESOURCE_EXHAUSTED
    lease.drop()
    lease.drop()
    assert room.taken == 0


async def test_callers_who_send_most_of_large_messages_take_no_more_than_the_room(socket_path: Path) -> None:
    """Others, who say less, are answered; and those who waited too long are let go."""
    limits = Limits(receive=MIB)
    async with serve(socket_path, [DevicePluginService(Plugin())], limits=limits) as server:
        async with raw_client(socket_path) as raw, connect(socket_path) as channel:
            for _ in range(20):
                raw.h2.send_data(raw.request(ALLOCATE), frame(b"\x0a" * 1000, length=MIB))
            raw.flush()
            await wait_until(lambda: server._room.taken == LARGE_MESSAGES * MIB)
            client = DevicePluginClient(channel)
            assert ids_of(await client.allocate(request_for("a"))) == "a"
            with pytest.raises(UnavailableError, match="too many large messages are on their way at once"):
                await client.allocate(request_for("x" * (SMALL + 1)))
        await wait_until(lambda: server._room.taken == 0)


async def test_half_a_large_answer_does_not_keep_its_room(socket_path: Path) -> None:
    def half(h2: H2Connection, number: int) -> None:
        h2.send_headers(number, HEADERS)
        h2.send_data(number, frame(b"\x0a" * 10_000, length=MIB))

    async with scripted(socket_path, half), connect(socket_path, limits=Limits(arrival=0.05)) as channel:
        with pytest.raises(ProtocolError, match=r"a message of 1048576 bytes did not arrive within 0\.05 s"):
            await DevicePluginClient(channel).allocate(request_for("a"))
    assert CLIENTS.taken == 0
