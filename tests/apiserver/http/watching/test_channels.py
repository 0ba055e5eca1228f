"""What a channel sends to whom, and where those are whom it lets go of."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from dray.apiserver.http.options import list_options
from dray.apiserver.http.paths import Place, parse_path
from dray.apiserver.http.watching.channels import Channel, Sink
from dray.apiserver.http.watching.watches import Lines
from dray.apiserver.served import standard
from dray.apiserver.store.contract import Key, Transaction
from dray.apiserver.store.sqlite import SqliteStore, StoreConfig, open_store
from tests.waiting import wait_until

SERVING = standard()
PATH = "/api/v1/configmaps"


class Wire(asyncio.Transport):
    """A connection that is full after some writes."""

    def __init__(self, room: int = 1000) -> None:
        super().__init__()
        self.seen: list[int] = []
        self._room = room

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._room -= 1
        lines = bytes(data).partition(b"\r\n")[2].splitlines()
        self.seen += [int(json.loads(one)["object"]["metadata"]["resourceVersion"]) for one in lines if one]

    def get_write_buffer_size(self) -> int:
        return 0 if self._room > 0 else 1 << 30


def channel_of(store: SqliteStore) -> Channel:
    place = parse_path(PATH, SERVING)
    assert isinstance(place, Place)
    return Channel(store, place, Lines(place, list_options({"watch": "1"}, place.served)))


def put_many(count: int) -> Callable[[Transaction], None]:
    def many(transaction: Transaction) -> None:
        for number in range(count):
            name = f"n{number}"
            document = {"metadata": {"name": name}, "text": "x" * 2000}
            transaction.put(Key("configmaps", "a", name), "u", document)

    return many


async def test_who_joins_between_a_change_and_its_sending_gets_it_once(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s") as store:
        channel, early, late = channel_of(store), Wire(), Wire()

        def join() -> None:
            if not late.seen and channel.join(Sink(late)):
                joined.append(store.revision)

        joined: list[int] = []
        channel.join(Sink(early))
        with store.follow("configmaps", "", None, join):
            await store.write(put_many(1))
        await store.write(put_many(1))
        await wait_until(lambda: early.seen == [2, 3])
        await wait_until(lambda: late.seen == [3])
        assert joined == [2]
        channel.close()


async def test_who_is_let_go_of_knows_its_place(tmp_path: Path) -> None:
    """However many writes a connection takes, of however many rounds."""
    async with open_store(tmp_path / "s") as store:
        channel = channel_of(store)
        wires = [Wire(room) for room in range(8)]
        sinks = [Sink(wire) for wire in wires]
        for sink in sinks:
            channel.join(sink)
        await store.write(put_many(250))
        async with asyncio.timeout(60):
            places = [await sink.released for sink in sinks[:-3]]
        assert places == [wire.seen[-1] if wire.seen else 1 for wire in wires[:-3]]
        assert len(set(places)) == len(places)
        assert wires[-1].seen == list(range(2, 252))
        for sink in sinks:
            channel.leave(sink)
        assert channel.is_empty
        channel.close()


async def test_a_broken_channel_takes_nobody(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s", config=StoreConfig(history_changes=5)) as store:
        channel, wire = channel_of(store), Wire()
        sink = Sink(wire)
        assert channel.join(sink)
        await store.write(put_many(20))
        async with asyncio.timeout(60):
            assert await sink.released == 1
        assert not channel.join(Sink(wire)) and wire.seen == []
        channel.close()
