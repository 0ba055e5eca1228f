"""The signs of life of hollow nodes: every node's Lease in turn, some each second, so that a thousand of them cost little."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from dray.api.kinds import LEASES
from dray.client.client import Client
from dray.errors import ConflictError, Error, NotFoundError
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.up.fleet.objects import LEASE_NAMESPACE, lease_spec

_log = get_log("fleet")

ROUND: Final = 20
"""Seconds in which every node has its turn: half of what a node may be silent."""
_WRITERS: Final = 32
"""So many at once that a turn is over in its second also where each answer takes half of one."""


class HollowLeases:
    """`run` renews until cancelled. `nodes` gives the names of those that are there, in the same order each time."""

    def __init__(self, client: Client, clock: Clock, nodes: Callable[[], Sequence[str]]) -> None:
        self._client = client
        self._clock = clock
        self._nodes = nodes
        self._at = 0

    async def run(self) -> NoReturn:
        """A server that is away is told once a turn and tried again."""
        while True:
            started = self._clock.monotonic()
            try:
                await self.renew(self.next_turn())
            except Error as error:
                _log.warning("leases of hollow nodes are not renewed", error=str(error))
            await self._clock.sleep(started + 1.0 - self._clock.monotonic())

    def next_turn(self) -> Sequence[str]:
        """Whose turn it is in this second."""
        nodes = self._nodes()
        share = -(-len(nodes) // ROUND)
        if self._at >= len(nodes):
            self._at = 0
        first, self._at = self._at, self._at + share
        return nodes[first : self._at]

    async def renew(self, names: Sequence[str]) -> None:
        """Some at once. The first error ends the turn."""
        waiting = iter(names)

        async def work() -> None:
            for name in waiting:
                await self._renew(name)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(_WRITERS, len(names))):
                    group.create_task(work())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _renew(self, name: str) -> None:
        spec = lease_spec(name, self._clock.now())
        try:
            await self._client.patch(LEASES, name, {"spec": spec}, namespace=LEASE_NAMESPACE)
        except NotFoundError:
            await self.create(name)

    async def create(self, name: str) -> None:
        """A new one; fine where it is there."""
        document = {
            "metadata": {"name": name, "namespace": LEASE_NAMESPACE},
            "spec": lease_spec(name, self._clock.now()),
        }
        try:
            await self._client.create(LEASES, document)
        except ConflictError:
            _log.debug("lease was there already", name=name)
