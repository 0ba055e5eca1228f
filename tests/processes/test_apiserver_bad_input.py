"""The real server against clients that are broken, hostile, slow or silent: it refuses, changes nothing and goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dray.runtime.tasks import running
from tests.apiserver.bad_input import tricks
from tests.apiserver.bad_input.batch import (
    Tally,
    changed_by_refusals,
    planted,
    run,
    tracebacks,
    wrongly_stored,
)
from tests.apiserver.bad_input.generate import Generator
from tests.apiserver.bad_input.hostile import hostile
from tests.apiserver.bad_input.mutations import dumped
from tests.apiserver.bad_input.program import Program, dump, program
from tests.apiserver.bad_input.wire import DEADLINE, Answer, Connection, Request, connection, read_answer
from tests.campaign import LONG, campaign, seeds

MAPS = tricks.MAPS
JSON = (("Content-Type", "application/json"),)
MERGE = (("Content-Type", "application/merge-patch+json"),)
MEMORY = 600 << 20
"""Far from what it needs here, and far from what one bomb would take."""


@asynccontextmanager
async def well(directory: Path) -> AsyncIterator[Program]:
    """A server that is asked by somebody else all the time, and must have answered; and is well in the end."""
    async with program(directory) as made:
        async with running(_ask_on(made), name="somebody else"):
            yield made
        async with connection(made.target) as asking:
            assert (await asking.ask(Request("GET", "/readyz"))).code == 200
        assert tracebacks(made.log()) == []
        assert made.memory() < MEMORY


async def _ask_on(made: Program) -> None:
    async with connection(made.target) as asking:
        while True:
            answer = await asking.ask(Request("GET", f"{MAPS}?limit=1"))
            assert answer.code == 200, answer
            await asyncio.sleep(0.05)


async def send(made: Program, requests: Iterable[Request], workers: int = 4) -> Tally:
    tally = Tally()
    await run(made, requests, tally, workers)
    assert tally.faults == []
    return tally


@pytest.mark.parametrize("seed", seeds(1, 24))
async def test_requests_made_from_the_servers_own_openapi(tmp_path: Path, seed: int) -> None:
    async with well(tmp_path) as made:
        for turn in range(campaign(1, 2)):
            generator = Generator(await planted(made), seed=17 + 1000 * seed + turn)
            tally = await send(made, generator.requests(campaign(1000, 2500)), workers=8)
            assert await changed_by_refusals(made, tally.refused[-campaign(200, 400) :]) == []
            assert wrongly_stored(await dump(made.target)) == []
            assert {code // 100 for _, code in tally.codes} >= {2, 4}


async def test_requests_that_are_made_to_cost(tmp_path: Path) -> None:
    async with well(tmp_path) as made:
        await planted(made)
        todo = list(hostile())
        tally = await send(made, todo if LONG else todo[::8], workers=2)
        assert (
            await changed_by_refusals(made, [one for one in tally.refused if len(one.body or b"") < 50_000])
            == []
        )


async def test_paths_methods_and_tokens_that_play_tricks(tmp_path: Path) -> None:
    async with well(tmp_path) as made:
        await planted(made)
        await send(made, [*tricks.paths(), *tricks.methods()])
        before = await dump(made.target)
        strangers = await send(made, tricks.credentials(made.target))
        assert {code for _, code in strangers.codes} <= {401, 403}
        assert await dump(made.target) == before


async def test_what_is_no_http(tmp_path: Path) -> None:
    async with well(tmp_path) as made:
        await planted(made)
        async with connection(made.target) as other:
            answers = [await _sent(made, data, other) for data in tricks.broken(made.target)]
            half = f"POST {MAPS} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{{".encode()
            assert (await _sent(made, half, other)).code in (0, 403)
        assert {one.code for one in answers} <= {0, 200, 201, 400, 403, 404, 405, 409}
        refused = [one for one in answers if one.code == 400]
        assert len(refused) > 20 and all(one.is_status for one in refused)
        assert (await _sent(made, tricks.endless(made.target, 4 << 20))).code == 413


async def _sent(made: Program, data: bytes, other: Connection | None = None) -> Answer:
    """The first answer. With `other`, code 0 where there is none while that one gets some: the server waits for more,
    which it may."""
    async with connection(made.target) as asking, asyncio.timeout(DEADLINE):
        reader, writer = await asking.streams()
        writer.write(data)
        reading = asyncio.ensure_future(read_answer(reader))
        if other is None:
            await asyncio.wait({reading})
        else:
            for _ in range(5):
                await other.ask(Request("GET", "/readyz"))
        if not reading.done():
            reading.cancel()
            return Answer(0)
        with contextlib.suppress(ConnectionError):
            return reading.result()
    return Answer(0)


async def test_clients_that_never_end(tmp_path: Path) -> None:
    """Some say nothing, some half a request, some never read: others do not notice, and memory does not follow what they miss."""
    idle, silent = campaign(200, 500), campaign(12, 60)
    async with well(tmp_path) as made, connection(made.target) as asking:
        for number in range(12):
            await _write(asking, number, "x")
        crowd = [await _opened(made, _half(made, number)) for number in range(idle)]
        crowd += [await _opened(made, _whole(made, number), deaf=True) for number in range(silent)]
        before = made.memory()
        for number in range(campaign(40, 400)):
            await _write(asking, number % 12, chr(ord("a") + number % 26))
        # Each deaf client may hold a few objects back, not all that was written since.
        assert made.memory() - before < (100 << 20) + silent * (4 << 20)
        for one in crowd:
            one.drop()
        assert (await asking.ask(Request("GET", MAPS))).code == 200


async def _write(asking: Connection, number: int, sign: str) -> None:
    data = dumped(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"large-{number}"},
            "data": {"a": sign * 900_000},
        }
    )
    kind = (("Content-Type", "application/apply-patch+yaml"),)
    answer = await asking.ask(
        Request("PATCH", f"{MAPS}/large-{number}?fieldManager=m&force=true", data, kind)
    )
    assert answer.code in (200, 201), answer


def _half(made: Program, number: int) -> bytes:
    """Nothing, a part of the headers, or a part of a body."""
    begun = Request("POST", MAPS, b"{" * 1000, JSON).encoded(made.target)
    return (b"", begun[:40], begun[:-999])[number % 3]


def _whole(made: Program, number: int) -> bytes:
    return Request("GET", (MAPS, f"{MAPS}?watch=1", f"{MAPS}?watch=1&resourceVersion=1")[number % 3]).encoded(
        made.target
    )


async def _opened(made: Program, data: bytes, *, deaf: bool = False) -> Connection:
    asking = Connection(made.target)
    _, writer = await asking.streams()
    if deaf:
        transport = writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
    writer.write(data)
    return asking
