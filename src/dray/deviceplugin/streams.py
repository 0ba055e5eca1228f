"""The open ListAndWatch calls of one plugin: what they are told, how they end, and that they ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from dray.deviceplugin.listing import Catalog
from dray.deviceplugin.metrics import NoMetrics, ResourceMetrics
from dray.inventory.inventory import InventoryFeed
from dray.runtime.logs import get_log
from dray.runtime.tasks import wait_first
from dray.wire.deviceplugin import HEALTHY
from dray.wire.gen.deviceplugin_v1beta1_pb2 import ListAndWatchResponse

_log = get_log("deviceplugin")
_NOTHING = ListAndWatchResponse()


class ListStreams:
    """Usually one, the kubelet's. It ends when the kubelet goes, when it drops us, or when we `retire`."""

    def __init__(
        self, resource: str, feed: InventoryFeed, catalog: Catalog, metrics: ResourceMetrics | None = None
    ) -> None:
        self._resource = resource
        self._feed = feed
        self._catalog = catalog
        self._metrics = metrics or NoMetrics()
        self._open = 0
        self._all_ended = asyncio.Event()
        self._silent = self._dismissed = self._retired = False
        self._stirred = asyncio.Event()
        self._told = ListAndWatchResponse()

    @property
    def told_healthy(self) -> frozenset[str]:
        """The ids that the last message called healthy."""
        return frozenset(device.ID for device in self._told.devices if device.health == HEALTHY)

    async def follow(self) -> AsyncGenerator[ListAndWatchResponse, None]:
        """The list now and after each change of it, an empty one at the end."""
        self._open += 1
        self._all_ended.clear()
        told: ListAndWatchResponse | None = None
        try:
            while not self._retired:
                generation, stirred = self._feed.current.generation, self._stirred
                if not self._silent and (news := self._news(told)) is not None:
                    self._told = told = news
                    self._metrics.listed()
                    yield news
                await wait_first(self._feed.wait_newer(generation), stirred.wait())
            if not self._silent and told != _NOTHING:
                yield _NOTHING
        finally:
            self._open -= 1
            if not self._open:
                self._all_ended.set()

    def begin(self) -> None:
        """Called before each registration: an end or a silence from before means nothing to a new kubelet."""
        self._all_ended.clear()
        self.silence(False)

    def silence(self, silent: bool) -> None:
        """While silent the streams stay open and say nothing, not even goodbye; afterwards they tell what they missed.

        For a kubelet that has another plugin's list: what we say, and that we end, would count as said by that one.
        """
        self._silent = silent
        self._stir()

    def dismiss(self) -> None:
        """Say goodbye but stay open: a kubelet closes the connection with the stream, and what runs on it is cut off."""
        self._dismissed = True
        self._stir()

    async def retire(self, timeout: float) -> None:
        """Let the streams say goodbye; returns when they did, or after `timeout` seconds. For good."""
        self._retired = True
        self._stir()
        if not self._open:
            return
        try:
            async with asyncio.timeout(timeout):
                await self._all_ended.wait()
        except TimeoutError:
            _log.warning("the kubelet did not take the last list", resource=self._resource)

    async def wait_ended(self) -> None:
        """Return when there was a stream and none is left."""
        await self._all_ended.wait()

    def _stir(self) -> None:
        self._stirred.set()
        self._stirred = asyncio.Event()

    def _news(self, told: ListAndWatchResponse | None) -> ListAndWatchResponse | None:
        """The list, if it differs from the one told last. Most changes of the inventory are of other resources."""
        if self._dismissed:
            return None if told == _NOTHING else _NOTHING
        found = self._catalog.current.listing
        if found.message is told or found.message == told:
            return None
        if found.left_out:
            _log.error("too many devices for one message", resource=self._resource, left_out=found.left_out)
        return found.message
