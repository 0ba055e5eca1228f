from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from dray.deviceplugin.listing import Catalog
from dray.deviceplugin.streams import ListStreams
from dray.drivers.contract import Health
from dray.inventory.inventory import InventoryFeed
from dray.runtime.clock import settle
from dray.runtime.tasks import running
from tests.deviceplugin.conftest import tape
from tests.waiting import PATIENCE, wait_until

RESOURCE = "example.com/tape"


@asynccontextmanager
async def read() -> AsyncIterator[tuple[ListStreams, InventoryFeed, list[list[str]]]]:
    feed = InventoryFeed()
    feed.publish([tape(1), tape(2, Health.UNHEALTHY)])
    streams = ListStreams(RESOURCE, feed, Catalog(RESOURCE, feed))
    lists: list[list[str]] = []

    async def reader() -> None:
        async with aclosing(streams.follow()) as answers:
            async for answer in answers:
                names = [device.ID for device in answer.devices]
                lists.append(names)

    async with running(reader(), name="reader"):
        await wait_until(lambda: lists == [["tape1", "tape2"]])
        yield streams, feed, lists


async def test_while_silent_nothing_is_said_and_then_what_was_missed() -> None:
    async with read() as (streams, feed, lists):
        assert streams.told_healthy == {"tape1"}
        streams.silence(True)
        feed.publish([tape(1), tape(3)])
        await settle()
        assert len(lists) == 1
        assert streams.told_healthy == {"tape1"}
        streams.silence(False)
        await wait_until(lambda: lists[1:] == [["tape1", "tape3"]])
        assert streams.told_healthy == {"tape1", "tape3"}
        streams.silence(False)
        await settle()
        assert len(lists) == 2


async def test_the_last_word_is_an_empty_list_unless_silent() -> None:
    for silent in (False, True):
        async with read() as (streams, _, lists), asyncio.timeout(PATIENCE):
            streams.silence(silent)
            await streams.retire(timeout=PATIENCE)
            assert lists[1:] == ([] if silent else [[]])


async def test_the_end_of_all_streams_is_told() -> None:
    feed = InventoryFeed()
    streams = ListStreams(RESOURCE, feed, Catalog(RESOURCE, feed))
    first, second = streams.follow(), streams.follow()
    await anext(first)
    await anext(second)
    async with asyncio.TaskGroup() as group, asyncio.timeout(PATIENCE):
        ended = group.create_task(streams.wait_ended())
        await first.aclose()
        await settle()
        assert not ended.done()
        await second.aclose()
        await ended
        streams.begin()
        again = group.create_task(streams.wait_ended())
        await settle()
        assert not again.done()  # that end was before
        again.cancel()
    await streams.retire(timeout=0.0)  # nobody is left to say goodbye to
