"""A process that writes until it is killed, and says what was acknowledged. Started by test_crash.py."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

from dray.apiserver.store.contract import Key, Transaction
from dray.apiserver.store.sqlite import StoreConfig, open_store

WRITERS = 8


def step(writer: int, number: int) -> tuple[str, int | None]:
    """What a writer does as its nth: the object, and its value or None for a removal."""
    return f"{writer}-{number % 3}", None if number % 7 in (5, 6) else number


def after(writer: int, number: int) -> dict[str, int]:
    """What there is of a writer after n steps."""
    state: dict[str, int] = {f"{writer}-last": number} if number else {}
    for done in range(1, number + 1):
        name, value = step(writer, done)
        if value is None:
            state.pop(name, None)
        else:
            state[name] = value
    return state


def decide(space: str, writer: int, number: int) -> Callable[[Transaction], int]:
    def both(transaction: Transaction) -> int:
        name, value = step(writer, number)
        place = Key("pods", space, name)
        if value is not None:
            transaction.put(place, "u", {"value": value})
        elif transaction.get(place) is not None:
            transaction.delete(place)
        return transaction.put(Key("pods", space, f"{writer}-last"), "u", {"value": number}).revision

    return both


async def main(path: str, space: str) -> None:
    async with open_store(Path(path), config=StoreConfig(history_changes=50)) as store:

        async def write(writer: int) -> None:
            number = 0
            while True:
                number += 1
                revision = await store.write(decide(space, writer, number))
                os.write(1, f"{writer} {number} {revision}\n".encode())

        os.write(1, f"open {store.revision} 0\n".encode())
        async with asyncio.TaskGroup() as group:
            for writer in range(WRITERS):
                group.create_task(write(writer))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
