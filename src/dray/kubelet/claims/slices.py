"""ResourceSlices of drivers that are not here: deleted, so that no pod is sent to a node that cannot serve it."""

from __future__ import annotations

import asyncio

from dray.errors import Error
from dray.kubelet.claims.api import ClaimApi
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log

DELAY = 30.0
"""Seconds a driver has to come back: long enough for its pod to be replaced."""
ALL = ""
_PACE = BackoffPolicy(first=1.0, factor=2.0, limit=300.0, jitter=0.2)
_log = get_log("kubelet.claims.slices")


class SliceWiper:
    """`changed` after every change of a driver's endpoints; `run` does the deleting."""

    def __init__(
        self,
        api: ClaimApi,
        node: str,
        clock: Clock,
        *,
        delay: float = DELAY,
    ) -> None:
        self._api = api
        self._node = node
        self._clock = clock
        self._delay = delay
        self._pending: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    def changed(self, driver: str, usable: bool) -> None:
        """Start the driver's time, or end it. A time that runs goes on: later changes do not put it off."""
        if usable:
            if (task := self._pending.pop(driver, None)) is not None:
                task.cancel()
        elif self._group is not None and driver not in self._pending:
            task = self._group.create_task(self._later(driver), name=f"delete slices of {driver}")
            self._pending[driver] = task

    async def run(self) -> None:
        """Delete all slices of the node once: no driver is here at start. Then those of drivers that went."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._wipe(ALL), name="delete all slices")
                await asyncio.Event().wait()
        finally:
            self._group = None
            self._pending.clear()

    async def _later(self, driver: str) -> None:
        await self._clock.sleep(self._delay)
        await self._wipe(driver)
        self._pending.pop(driver, None)

    async def _wipe(self, driver: str) -> None:
        """Try until it worked; the server may be away, or not know us yet."""
        backoff = Backoff(_PACE)
        while True:
            try:
                await self._api.delete_slices(self._node, driver)
            except Error as error:
                _log.warning("cannot delete slices, will try again", driver=driver or "all", error=str(error))
            else:
                return
            await self._clock.sleep(backoff.next())
