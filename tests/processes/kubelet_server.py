"""What stands around a kubelet in scenarios: a small API server and whoever writes to it, and a clock that can be moved."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from datetime import datetime, timedelta
from typing import Any

from dray.api.kinds import PODS, RESOURCE_SLICES, Resource
from dray.api.meta import format_time
from dray.runtime.clock import SystemClock
from dray.testing.check.api_server import Place, SmallApiServer

Json = dict[str, Any]


class SkippingClock(SystemClock):
    """Runs like the machine's, and can be moved on at once: who sleeps then wakes as if the time had passed."""

    def __init__(self) -> None:
        self._skipped = 0.0
        self._stopped_at: float | None = None
        self._moved = asyncio.Event()

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self._skipped)

    def monotonic(self) -> float:
        return (super().monotonic() if self._stopped_at is None else self._stopped_at) + self._skipped

    async def sleep(self, seconds: float) -> None:
        end = self.monotonic() + seconds
        while (left := end - self.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._moved.wait()
        await asyncio.sleep(0)

    def stop(self) -> None:
        """From now on only `skip` moves it."""
        self._stopped_at = super().monotonic()

    def skip(self, seconds: float) -> None:
        self._skipped += seconds
        self._moved.set()
        self._moved = asyncio.Event()


class Server(SmallApiServer):
    """With what people and controllers do to it."""

    def find(self, resource: Resource[Any], name: str, namespace: str = "default") -> Json:
        """Empty where there is none."""
        return self.objects.get((resource.plural, namespace if resource.namespaced else "", name), {})

    async def add(self, resource: Resource[Any], document: Json) -> Json:
        return await self.create(Place(resource, "default" if resource.namespaced else "", "", ""), document)

    async def mark_deleted(self, name: str, grace: int = 1) -> None:
        """What `kubectl delete pod` does: the kubelet shall end it and then remove the object."""
        document = copy.deepcopy(self.find(PODS, name))
        stamps = {
            "deletionTimestamp": format_time(self.clock.now()),
            "deletionGracePeriodSeconds": grace,
        }
        document["metadata"] |= stamps
        await self.put(PODS, document)

    async def delete(self, resource: Resource[Any], name: str) -> None:
        """At once, whatever anybody thinks of it."""
        namespace = "default" if resource.namespaced else ""
        document = copy.deepcopy(self.find(resource, name))
        await self._store("DELETED", resource, (resource.plural, namespace, name), document)

    async def put(self, resource: Resource[Any], document: Json) -> None:
        """As it is: what only a scheduler or a garbage collector may do."""
        meta = document["metadata"]
        await self._store(
            "MODIFIED", resource, (resource.plural, meta.get("namespace", ""), meta["name"]), document
        )

    def slices(self) -> list[str]:
        return sorted(name for plural, _, name in self.objects if plural == RESOURCE_SLICES.plural)
