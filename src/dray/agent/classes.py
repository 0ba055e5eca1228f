"""The DeviceClasses of what the agent offers through DRA: made once, and left to the cluster's administrators then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, NoReturn

from dray.api.resource import DeviceClass
from dray.client.client import Client
from dray.dra.classes import ensure_classes, kind_class, nvidia_classes, resource_class
from dray.dra.names import NVIDIA
from dray.errors import Error
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log

_log = get_log("agent")
_PAUSES: Final = BackoffPolicy(first=1.0, limit=60.0)


class DeviceClasses:
    """One task runs `run`; `want` may be called at any time. What was made once, or was there, is never touched again."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._wanted: tuple[DeviceClass, ...] = ()
        self._changed = asyncio.Event()

    def want(self, classes: Iterable[DeviceClass]) -> None:
        """These should be there."""
        wanted = tuple(classes)
        if wanted != self._wanted:
            self._wanted = wanted
            self._changed.set()

    async def run(self) -> NoReturn:
        """Until cancelled. While the API server is away it is tried again."""
        backoff = Backoff(_PAUSES)
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                done = await ensure_classes(self._client, self._wanted)
            except Error as error:
                _log.warning("device classes are not made yet", error=str(error))
                self._changed.set()
                await self._clock.sleep(backoff.next())
                continue
            backoff.reset()
            for name in done.without_resource:
                _log.warning("the API server does not back extended resources by DRA", device_class=name)


def classes_for(drivers: Iterable[str], moved: Iterable[tuple[str, str]]) -> tuple[DeviceClass, ...]:
    """One for each driver, and one for each resource that is offered through DRA alone (`moved`: driver and resource).

    NVIDIA's GPUs have NVIDIA's own classes, the first of which stands for `nvidia.com/gpu`.
    """
    found: list[DeviceClass] = []
    for driver in drivers:
        found += nvidia_classes() if driver == NVIDIA else [kind_class(driver)]
    taken = {one.spec.extended_resource_name for one in found}
    found += [resource_class(driver, resource) for driver, resource in moved if resource not in taken]
    return tuple(found)
