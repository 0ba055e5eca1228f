"""What was let through, kept in a ConfigMap before the API server hears of it: it outlives the guard that let it through.

The ConfigMap is also the fence between guards. Each change of it names the version it is based on, and taking over is
such a change: from then on the guard before cannot let anything through, whatever it still believes, and all that it did
let through is known to its successor. The Lease only decides who tries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

import msgspec

from dray.allocation.holding import Held
from dray.api.kinds import CONFIG_MAPS
from dray.client import requests
from dray.client.client import Client
from dray.client.http import Request
from dray.client.leader import LeadershipLostError
from dray.controllers.guard.holdings import Holding
from dray.controllers.guard.review import Subject
from dray.errors import ConflictError, Error, NotFoundError, UnavailableError
from dray.runtime.logs import get_log

_log = get_log("controllers.guard")
_HOLDER: Final = "holder"
_RESERVED: Final = "reservations"
_SECONDS: Final = 4.0
_STOPPING: Final = "the guard stops; try again"


class _Entry(msgspec.Struct, frozen=True):
    """One reservation as it is written."""

    claim: Subject
    devices: tuple[Held, ...]


class Journal:
    """Of one guard, for one time that it leads. `reserved` gives what must be known after a kill."""

    def __init__(self, client: Client, namespace: str, name: str, identity: str) -> None:
        self._client = client
        self._namespace, self._name, self._identity = namespace, name, identity
        self._reserved: Callable[[], Iterable[Holding]] = tuple
        self._document: dict[str, Any] = {}
        self._waiting: list[asyncio.Future[Error | None]] = []
        self._wake = asyncio.Event()

    async def take_over(self) -> tuple[Holding, ...]:
        """Fence the guard before; gives what it let through and may not have seen stored. Conflicts are tried again."""
        while True:
            found = await self._read()
            try:
                await self._write(found, (found or {}).get("data", {}).get(_RESERVED, "[]"))
            except ConflictError:
                _log.info("another guard takes over at the same time", configmap=self._what)
                continue
            return _decode(self._document["data"][_RESERVED], self._what)

    async def run(self, reserved: Callable[[], Iterable[Holding]]) -> None:
        """Write until cancelled; LeadershipLostError where another guard took over. Those who wait share a write."""
        self._reserved = reserved
        waiting: list[asyncio.Future[Error | None]] = []
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                waiting, self._waiting = self._waiting, []
                self._tell(waiting, await self._save())
                waiting = []
        finally:
            self._tell([*waiting, *self._waiting], UnavailableError(_STOPPING))
            self._waiting = []

    async def save(self) -> None:
        """Return once all that is reserved now is kept. An error means that it may or may not be."""
        waiter: asyncio.Future[Error | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._wake.set()
        error = await waiter
        if error is not None:
            raise error

    async def _save(self) -> Error | None:
        entries = [_Entry(one.subject, one.held) for one in self._reserved()]
        text = msgspec.json.encode(entries).decode()
        try:
            try:
                await self._write(self._document, text)
            except ConflictError:
                # Our own write, whose answer was lost, or another guard's.
                await self._write(await self._read_own(), text)
        except LeadershipLostError:
            raise
        except Error as error:
            return error
        return None

    async def _read_own(self) -> dict[str, Any]:
        found = await self._read()
        holder = (found or {}).get("data", {}).get(_HOLDER)
        if found is None or holder != self._identity:
            who = holder or "somebody who deleted it"
            raise LeadershipLostError(f"guard: ConfigMap {self._what} belongs to {who} now; stopping")
        return found

    async def _read(self) -> dict[str, Any] | None:
        try:
            return await self._send(requests.get(CONFIG_MAPS, self._name, namespace=self._namespace))
        except NotFoundError:
            return None

    async def _write(self, base: dict[str, Any] | None, reservations: str) -> None:
        data = {_HOLDER: self._identity, _RESERVED: reservations}
        metadata = (base or {}).get("metadata") or {"name": self._name, "namespace": self._namespace}
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        make = requests.update if "resourceVersion" in metadata else requests.create
        try:
            self._document = await self._send(make(CONFIG_MAPS, document))
        except NotFoundError as error:
            if make is requests.update:
                raise ConflictError(f"ConfigMap {self._what} was deleted") from error
            raise

    async def _send(self, request: Request) -> dict[str, Any]:
        """Short, so that one that hangs does not hold up those behind it for long."""
        return await self._client.raw(replace(request, timeout=_SECONDS))

    @staticmethod
    def _tell(waiting: Iterable[asyncio.Future[Error | None]], error: Error | None) -> None:
        for one in waiting:
            if not one.done():
                one.set_result(error)

    @property
    def _what(self) -> str:
        return f"{self._namespace}/{self._name}"


def _decode(text: str, what: str) -> tuple[Holding, ...]:
    try:
        entries = msgspec.json.decode(text, type=tuple[_Entry, ...])
    except msgspec.MsgspecError as error:
        raise UnavailableError(
            f"ConfigMap {what}: {_RESERVED} cannot be read ({error}): it was not written by this guard. "
            "Stop all writers of claims for two minutes, then delete it"
        ) from error
    return tuple(Holding(one.claim, one.devices, is_stored=False) for one in entries)
