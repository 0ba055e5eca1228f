"""The slices of one driver on one node as the server has them, never older than what we wrote ourselves.

A watch brings them for nothing, but late: who plans with a picture that lacks a slice just made makes it twice. So while
the watch has not brought back all that was written, and after a conflict, the server is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType

from dray.api.kinds import RESOURCE_SLICES
from dray.api.resource.slice import ResourceSlice
from dray.client.client import Client
from dray.client.informer import Informer
from dray.client.reflector import ReflectorConfig
from dray.client.requests import Selection
from dray.client.store import Change, Deleted
from dray.errors import NotFoundError
from dray.runtime.clock import Clock

NO_API = (
    "the API server has no resource.k8s.io/v1: devices are offered through DRA from Kubernetes 1.34 on, unless the "
    "API group was switched off there (--runtime-config)"
)


class KnownSlices:
    """Entered: it follows the server, which may be away. `noticed` is called for each change, our own among them."""

    def __init__(
        self, client: Client, driver: str, node: str, noticed: Callable[[bool], None], *, clock: Clock
    ) -> None:
        self._client = client
        self._selection = Selection(fields=f"spec.driver={driver},spec.nodeName={node}")
        config = ReflectorConfig(wait_synced=False)
        self._informer = Informer(client, RESOURCE_SLICES, self._selection, config=config, clock=clock)
        self._noticed = noticed
        self._is_trusted = False
        self._unseen: dict[str, str] = {}
        self._gone: set[str] = set()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> KnownSlices:
        self._informer.on_change(self._take)
        await self._stack.enter_async_context(self._informer)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    async def read(self) -> tuple[ResourceSlice, ...]:
        """All of them. NotFoundError: the server does not know what a ResourceSlice is."""
        if not self._is_trusted or self._is_behind():
            return await self.ask()
        self._gone &= {entry.uid for entry in self._informer.entries().values()}
        return tuple(one for one in self._informer.values() if one.metadata.uid not in self._gone)

    async def ask(self) -> tuple[ResourceSlice, ...]:
        """All of them, from the server."""
        try:
            listing = await self._client.list(RESOURCE_SLICES, self._selection)
        except NotFoundError as error:
            raise NotFoundError(NO_API, kind=RESOURCE_SLICES.kind) from error
        self._unseen = {entry.key[1]: entry.version for entry in listing.entries}
        self._is_trusted = True
        return listing.items

    def wrote(self, one: ResourceSlice) -> None:
        """The server's answer to a write of ours."""
        self._unseen[one.metadata.name] = one.metadata.resource_version

    def deleted(self, one: ResourceSlice) -> None:
        """We deleted it, or it was gone."""
        self._unseen.pop(one.metadata.name, None)
        self._gone.add(one.metadata.uid)

    def distrust(self) -> None:
        """Ask the server next time: it was found to be further than the watch."""
        self._is_trusted = False

    def _is_behind(self) -> bool:
        entries = self._informer.entries()
        for name, version in list(self._unseen.items()):
            entry = entries.get(("", name))
            if entry is not None and _has_reached(entry.version, version):
                del self._unseen[name]
        return bool(self._unseen)

    def _take(self, change: Change[ResourceSlice]) -> None:
        is_loss = isinstance(change, Deleted) and change.old.uid not in self._gone
        if isinstance(change, Deleted):
            self._unseen.pop(change.key[1], None)
        self._noticed(is_loss)


def _has_reached(version: str, other: str) -> bool:
    """Versions that are no numbers are equal or not."""
    if version.isdecimal() and other.isdecimal():
        return int(version) >= int(other)
    return version == other
