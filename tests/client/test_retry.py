from __future__ import annotations

import asyncio
import random

import pytest

from dray.api.kinds import CONFIG_MAPS
from dray.client.client import Client
from dray.client.failures import ExpiredError
from dray.client.retry import ConflictPolicy, retry_on_conflict
from dray.errors import ConflictError, InvalidError
from dray.runtime.clock import FakeClock
from tests.client.answers import config_map
from tests.client.servers import ScriptedServer, reply, status

CONFLICT = status(409, "Conflict", "the object has been modified")


async def test_read_again_and_redone_over_http(server: ScriptedServer, client: Client) -> None:
    server.answer(
        reply(200, config_map("a", 1, n="1")),
        CONFLICT,
        reply(200, config_map("a", 2, n="5")),
        reply(200, config_map("a", 3, n="6")),
    )

    async def write(document: dict[str, object]) -> str:
        data = document["data"]
        assert isinstance(data, dict)
        data["n"] = str(int(data["n"]) + 1)
        return (await client.update(CONFIG_MAPS, document)).metadata.resource_version

    read = lambda: client.get_raw(CONFIG_MAPS, "a", namespace="ns")  # noqa: E731
    assert await retry_on_conflict(read, write) == "3"
    sent = [seen.document for seen in server.seen if seen.method == "PUT"]
    assert [(one["metadata"]["resourceVersion"], one["data"]["n"]) for one in sent] == [
        ("1", "2"),
        ("2", "6"),
    ]


class Contended:
    """An object that is written by others the first `conflicts` times."""

    def __init__(self, conflicts: int) -> None:
        self.conflicts, self.reads, self.writes = conflicts, 0, list[int]()

    async def read(self) -> int:
        self.reads += 1
        return self.reads

    async def write(self, value: int) -> str:
        self.writes.append(value)
        if len(self.writes) <= self.conflicts:
            raise ConflictError(f"conflict {len(self.writes)}")
        return "done"


async def test_bounded_with_growing_waits() -> None:
    clock, thing = FakeClock(), Contended(100)
    rng = random.Random(1)
    task = asyncio.create_task(
        retry_on_conflict(thing.read, thing.write, policy=ConflictPolicy(attempts=4), clock=clock, rng=rng)
    )
    await clock.advance(10)
    with pytest.raises(ConflictError, match="conflict 4"):
        await task
    assert (thing.reads, thing.writes) == (4, [1, 2, 3, 4])


async def test_the_cached_object_is_tried_first_and_once() -> None:
    thing = Contended(0)
    assert await retry_on_conflict(thing.read, thing.write, first=0) == "done"
    assert (thing.reads, thing.writes) == (0, [0])
    thing = Contended(2)
    assert await retry_on_conflict(thing.read, thing.write, first=0) == "done"
    assert (thing.reads, thing.writes) == (2, [0, 1, 2])


@pytest.mark.parametrize("error", [InvalidError("wrong"), ExpiredError("too old")])
async def test_other_errors_are_not_retried(error: Exception) -> None:
    tries = list[int]()

    async def write(value: int) -> None:
        tries.append(value)
        raise error

    with pytest.raises(type(error)):
        await retry_on_conflict(Contended(0).read, write)
    assert tries == [1]


async def test_many_writers_all_get_through() -> None:
    """A counter under optimistic concurrency: nothing is lost."""
    state = {"version": 0, "count": 0}
    rng = random.Random(7)

    async def add() -> None:
        async def read() -> tuple[int, int]:
            await asyncio.sleep(0)
            return state["version"], state["count"]

        async def write(known: tuple[int, int]) -> None:
            await asyncio.sleep(0)
            if known[0] != state["version"]:
                raise ConflictError("modified")
            state.update(version=known[0] + 1, count=known[1] + 1)

        await retry_on_conflict(read, write, policy=ConflictPolicy(attempts=50), rng=rng)

    await asyncio.gather(*(add() for _ in range(20)))
    assert state["count"] == 20
