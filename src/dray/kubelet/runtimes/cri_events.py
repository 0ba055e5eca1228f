"""Tells when containers of a CRI runtime may have changed: by its events, and by the clock where it sends none."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from dray.errors import Error
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.wire.cri import RuntimeClient
from dray.wire.gen import cri_v1_pb2 as pb

_log = get_log("kubelet.runtimes.cri")

POLL_SECONDS = 1.0
"""Between two looks while there are no events: the runtime does not have the call, or is away."""
RELIST_SECONDS = 5.0
"""Between two looks in any case: what happened before the events began is in none."""


class Changes:
    """Level-triggered: an event says only that it is time to look. Used from one event loop."""

    def __init__(self, runtime: RuntimeClient, clock: Clock) -> None:
        self._runtime = runtime
        self._clock = clock
        self._news = asyncio.Event()
        self._is_told = False

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name="events of containers")
            group.create_task(self._relist(), name="relist of containers")

    async def wait(self) -> None:
        """Until something may have changed since the last call."""
        await self._news.wait()
        self._news.clear()

    def note(self) -> None:
        """Something changed, by our own doing."""
        self._news.set()

    async def _follow(self) -> NoReturn:
        while True:
            try:
                await self._take_events()
            except Error as error:
                self._tell(str(error))
            self._news.set()
            await self._clock.sleep(POLL_SECONDS)

    async def _take_events(self) -> None:
        async with self._runtime.get_container_events(pb.GetEventsRequest()) as events:
            async for _ in events:
                self._is_told = False
                self._news.set()

    def _tell(self, why: str) -> None:
        """Once for each time that events stop."""
        if not self._is_told:
            _log.info("no events of containers, looking every second", why=why)
        self._is_told = True

    async def _relist(self) -> NoReturn:
        while True:
            await self._clock.sleep(RELIST_SECONDS)
            self._news.set()
