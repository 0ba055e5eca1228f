"""Read, change, write, and again from the start where somebody wrote in between."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from dray.client.failures import ExpiredError
from dray.errors import ConflictError
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.clock import Clock, SystemClock

R = TypeVar("R")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class ConflictPolicy:
    """How often to try in all, and how long to wait in between (10, 20, 40, … ms, up to twice that by chance)."""

    attempts: int = 5
    backoff: BackoffPolicy = field(default_factory=lambda: BackoffPolicy(first=0.01, limit=1.0, jitter=1.0))


async def retry_on_conflict(
    read: Callable[[], Awaitable[R]],
    write: Callable[[R], Awaitable[V]],
    *,
    first: R | None = None,
    policy: ConflictPolicy | None = None,
    clock: Clock | None = None,
    rng: random.Random | None = None,
) -> V:
    """`write(await read())`, redone on ConflictError; the last conflict is raised when the attempts are used up.

    `first` is written without reading it: the object out of a cache, which saves a request while it is up to date.
    `write` decides anew each time from what it is given, and any other error it raises ends this. Not retried:
    ExpiredError, which means a list or watch, never a write.
    """
    policy = policy or ConflictPolicy()
    backoff = Backoff(policy.backoff, rng or random.Random())  # noqa: S311  spreads load, guards nothing
    known = first
    for left in range(policy.attempts - 1, -1, -1):
        try:
            return await write(known if known is not None else await read())
        except ExpiredError:
            raise
        except ConflictError:
            if left == 0:
                raise
        known = None
        await (clock or SystemClock()).sleep(backoff.next())
    raise ConflictError("no attempt was allowed; set ConflictPolicy.attempts to 1 or more")
