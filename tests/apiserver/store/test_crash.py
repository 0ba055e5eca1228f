"""kill -9 at any moment: every acknowledged write is there afterwards, and no transaction is there in half."""

from __future__ import annotations

import asyncio
import random
from asyncio.subprocess import PIPE, create_subprocess_exec
from pathlib import Path
from sys import executable

import pytest

from dray.api.codec import loads
from tests.apiserver.store.crash_child import WRITERS, after
from tests.apiserver.store.stores import store_at
from tests.campaign import campaign, seeds
from tests.waiting import PATIENCE

CHILD = "tests.apiserver.store.crash_child"


async def killed(path: Path, space: str, lines: int, seconds: float) -> list[tuple[str, int, int]]:
    """What a child said before it was killed, some lines and then some time after its start."""
    child = await create_subprocess_exec(executable, "-m", CHILD, str(path), space, stdout=PIPE)
    assert child.stdout is not None
    said = b""
    for _ in range(lines):
        said += await asyncio.wait_for(child.stdout.readline(), PATIENCE)
    await asyncio.sleep(seconds)
    child.kill()
    said += await asyncio.wait_for(child.stdout.read(), PATIENCE)
    await child.wait()
    whole = said[: said.rindex(b"\n")].decode().splitlines() if b"\n" in said else []
    return [(who, int(number), int(revision)) for who, number, revision in map(str.split, whole)]


@pytest.mark.parametrize("seed", seeds(1, 4))
async def test_acknowledged_writes_survive_a_kill(tmp_path: Path, seed: int) -> None:
    path, newest = tmp_path / "store.db", 1
    chance = random.Random(seed)
    for attempt in range(campaign(5, 50)):
        space = f"r{attempt}"
        said = await killed(path, space, chance.choice((0, 1, 1, 40, 300)), chance.random() * 0.05)
        acknowledged = dict.fromkeys(map(str, range(WRITERS)), 0)
        for who, number, revision in said:
            if who != "open":
                acknowledged[who] = number
            newest = max(newest, number if who == "open" else revision)
        async with store_at(path) as store:
            assert store.revision >= newest
            found = {s.key.name: loads(s.raw)["value"] for s in store.list("pods", space).items}
            newest = max([store.revision, *(s.revision for s in store.list("pods").items)])
            assert store.revision == newest
        for writer in range(WRITERS):
            number = found.get(f"{writer}-last", 0)
            assert acknowledged[str(writer)] <= number <= acknowledged[str(writer)] + 1
            mine = {name: value for name, value in found.items() if name.startswith(f"{writer}-")}
            assert mine == after(writer, number)
