from __future__ import annotations

import asyncio
import gc

from dray.client.feed import Changes, Feed, Replaced
from dray.client.store import Added, Change, Entry, ReflectorState, WatchEvent
from tests.waiting import PATIENCE


class Source:
    """A state and its feed, moved together as a reflector does."""

    def __init__(self, limit: int = 4) -> None:
        self.state: ReflectorState[str] = ReflectorState()
        self.feed: Feed[str] = Feed(self.state.snapshot, limit)
        self.version = 0

    def add(self, count: int = 1) -> list[Change[str]]:
        changes: list[Change[str]] = []
        for _ in range(count):
            self.version += 1
            item = Entry(("", f"o{self.version}"), "u", str(self.version), "x")
            changes += self.state.apply(WatchEvent("ADDED", item, item.version))
        self.feed.publish(changes)
        return changes


async def take(changes: Changes[str], count: int) -> list[Change[str] | Replaced[str]]:
    return [await asyncio.wait_for(anext(changes), PATIENCE) for _ in range(count)]


async def test_starts_with_the_picture_of_now_then_every_change() -> None:
    source = Source()
    source.add(2)
    changes = source.feed.listen()
    (first,) = await take(changes, 1)
    assert isinstance(first, Replaced)
    assert len(first.snapshot) == 2
    expected = source.add(3)
    assert await take(changes, 3) == expected


async def test_changes_before_the_first_read_are_in_the_first_picture_only() -> None:
    source = Source()
    changes = source.feed.listen()
    source.add(3)
    (first,) = await take(changes, 1)
    assert isinstance(first, Replaced)
    assert first.snapshot.generation == 3
    (added,) = source.add()
    assert await take(changes, 1) == [added]


async def test_slow_listener_starts_over_and_holds_no_more_than_the_limit() -> None:
    source = Source(limit=4)
    slow, quick = source.feed.listen(), source.feed.listen()
    await take(slow, 1)
    await take(quick, 1)
    for _ in range(10):
        expected = source.add()
        assert await take(quick, 1) == expected
    (over,) = await take(slow, 1)
    assert isinstance(over, Replaced)
    assert over.snapshot.generation == 10
    assert await take(slow, 0) == []
    (added,) = source.add()
    assert await take(slow, 1) == [added]


async def test_full_buffer_is_still_delivered() -> None:
    source = Source(limit=4)
    changes = source.feed.listen()
    await take(changes, 1)
    expected = source.add(4)
    assert await take(changes, 4) == expected


async def test_a_batch_larger_than_the_buffer_starts_over() -> None:
    source = Source(limit=4)
    changes = source.feed.listen()
    await take(changes, 1)
    source.add(5)
    (over,) = await take(changes, 1)
    assert isinstance(over, Replaced)
    assert len(over.snapshot) == 5


async def test_waiting_listener_is_woken() -> None:
    source = Source()
    changes = source.feed.listen()
    await take(changes, 1)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(take(changes, 1))
        await asyncio.sleep(0)
        source.add()
    (added,) = waiting.result()
    assert isinstance(added, Added)


async def test_close_ends_listeners_after_what_is_queued() -> None:
    source = Source()
    changes = source.feed.listen()
    await take(changes, 1)
    expected = source.add(2)
    source.feed.close()
    assert [change async for change in changes] == expected
    await source.feed.wait_turn()


async def test_forgotten_listeners_cost_nothing() -> None:
    source = Source()
    source.feed.listen()
    gc.collect()
    assert len(source.feed._listeners) == 0
