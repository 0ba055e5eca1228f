"""The guard that leads changes its webhook's path again and again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dray.client.access import ClusterAccess
from dray.client.client import Client
from dray.controllers.guard.callers import (
    CLAIMS_PATH,
    PARAMETERS_PATH,
    RENEW_SECONDS,
    Callers,
    secret_at,
)
from dray.controllers.guard.webhook import Target, configuration
from dray.processes.controllers import renew_path
from dray.runtime.clock import FakeClock
from dray.runtime.tasks import running
from tests.client.servers import ScriptedServer, reply, scripted, status
from tests.waiting import wait_until


def installed(server: ScriptedServer) -> list[str]:
    """The paths of the last webhook that was written, of claims first."""
    hooks = server.seen[-1].document["webhooks"]
    return [one["clientConfig"]["url"].removeprefix("https://guard:9617") for one in hooks]


@asynccontextmanager
async def renewing(callers: Callers, clock: FakeClock) -> AsyncIterator[ScriptedServer]:
    async with scripted() as server, Client(ClusterAccess(server.url)) as client:
        loop = renew_path(
            client,
            callers,
            lambda: configuration(Target("https://guard:9617", b"CA", callers.secret), ["d.example"]),
            clock,
            RENEW_SECONDS,
        )
        async with running(loop, name="path"):
            await wait_until(lambda: clock.sleepers == 1)
            yield server


async def test_the_path_changes_every_five_minutes_and_the_one_before_is_good_for_one_more_turn() -> None:
    callers, clock = Callers("first"), FakeClock()
    async with renewing(callers, clock) as server:
        known = ["first"]
        for turn in range(1, 6):
            await clock.advance(RENEW_SECONDS - 1)
            assert len(server.seen) == turn - 1 and callers.secret == known[-1]
            await clock.advance(1)
            await wait_until(lambda: len(server.seen) == turn and clock.sleepers == 1)  # noqa: B023
            assert callers.secret not in known
            known.append(callers.secret)
            claims, parameters, *_ = installed(server)
            assert claims == f"{CLAIMS_PATH}/{callers.secret}"
            assert parameters == f"{PARAMETERS_PATH}/{secret_at(PARAMETERS_PATH, callers.secret)}"
            good = [callers.know(one, CLAIMS_PATH) for one in known]
            assert good == [False] * (len(known) - 2) + [True] * 2


@pytest.mark.parametrize("refusal", [status(409, "Conflict", "written meanwhile"), reply(503)])
async def test_until_a_new_path_is_installed_the_one_before_stays_good(refusal: object) -> None:
    """However long the API server takes no webhook: it goes on asking at the path that it has."""
    callers, clock = Callers("first"), FakeClock()
    async with renewing(callers, clock) as server:
        server.answer(refusal)  # type: ignore[arg-type]
        await clock.advance(RENEW_SECONDS)
        made = callers.secret
        for _ in range(100):
            seen = len(server.seen)
            await wait_until(lambda: len(server.seen) > seen or clock.sleepers == 1)  # noqa: B023
            await wait_until(lambda: clock.sleepers == 1)
            await clock.advance(RENEW_SECONDS)
            assert callers.secret == made and callers.know("first", CLAIMS_PATH)
            if len(server.seen) > 3:
                break
        assert len(server.seen) > 3
        server.answer(reply())
        await clock.advance(RENEW_SECONDS)
        await wait_until(lambda: clock.sleepers == 1)
        assert installed(server)[0] == f"{CLAIMS_PATH}/{made}"
        await clock.advance_until(lambda: callers.secret != made)
        await wait_until(lambda: clock.sleepers == 1)
        assert callers.know(made, CLAIMS_PATH) and not callers.know("first", CLAIMS_PATH)
