"""Watches on the wire. A watcher begins by itself, from its own revision, and joins the channel of those who want the same
lines when it has caught up; where its connection is full it goes on by itself again, and waits for its client alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from contextlib import ExitStack, suppress

from aiohttp import HttpVersion11, web

from dray.apiserver.http.discovery import JSON
from dray.apiserver.http.options import ListOptions
from dray.apiserver.http.paths import Place
from dray.apiserver.http.watching.channels import MOST_WAITING, Channel, Sink
from dray.apiserver.http.watching.watches import Lines, begin, gone, pieces
from dray.apiserver.store.contract import Expired, Feed, LiveStore
from dray.errors import UnavailableError


class Watches:
    """All watches of a store that are on the wire."""

    def __init__(self, store: LiveStore) -> None:
        self._store = store
        self._channels: dict[Hashable, Channel] = {}

    def __len__(self) -> int:
        """How many channels there are."""
        return len(self._channels)

    async def answer(
        self, request: web.Request, place: Place, options: ListOptions, lines: Lines, seconds: float
    ) -> web.StreamResponse:
        """The whole answer to a watch, which lasts so long. Where it cannot begin, it raises before anything is sent."""
        begun = begin(self._store, place, options, lines)
        answer = web.StreamResponse(headers={"Content-Type": JSON})
        with ExitStack() as stack, suppress(TimeoutError, ConnectionResetError):
            watch = _Watch(self, self._store, place, lines)
            feed = watch.follow(stack, begun.since)
            await answer.prepare(request)
            async with asyncio.timeout(seconds):
                for piece in begun.pieces():
                    await answer.write(piece)
                    await asyncio.sleep(0)
                await watch.run(answer, request, stack, feed)
        return answer

    async def share(self, sink: Sink, lines: Lines, shape: Hashable, place: Place) -> int | None:
        """Be in the channel of that shape until released; gives the revision to go on from, None at the end."""
        channel = self._channels.get(shape)
        if channel is None or not channel.join(sink):
            channel = self._channels[shape] = Channel(self._store, place, lines)
            channel.join(sink)
        try:
            return await sink.released
        finally:
            channel.leave(sink)
            if channel.is_empty:
                channel.close()
                if self._channels.get(shape) is channel:
                    del self._channels[shape]


class _Watch:
    """One watcher, by itself and in the channel in turns."""

    def __init__(self, watches: Watches, store: LiveStore, place: Place, lines: Lines) -> None:
        self._watches = watches
        self._store = store
        self._place = place
        self._lines = lines
        self._woken = asyncio.Event()

    def follow(self, stack: ExitStack, since: int) -> Feed:
        """Its own feed, until the stack is closed."""
        resource = str(self._place.served.resource)
        follow = self._store.follow(resource, self._place.namespace, since, self._woken.set)
        return stack.enter_context(follow)

    async def run(
        self, answer: web.StreamResponse, request: web.Request, stack: ExitStack, feed: Feed
    ) -> None:
        """Until the store stops, or the history has gone on without it."""
        transport, shape = request.transport, self._lines.shape
        if transport is not None:
            transport.set_write_buffer_limits(high=MOST_WAITING)
        if request.version < HttpVersion11:
            shape = None  # there are no chunks then
        try:
            while True:
                await self._catch_up(answer, feed)
                if feed.has_ended or transport is None:
                    return
                if shape is None:
                    await self._woken.wait()
                    continue
                stack.close()
                since = await self._watches.share(Sink(transport), self._lines, shape, self._place)
                if since is None:
                    return
                feed = self.follow(stack, since)
        except Expired as error:
            await answer.write(gone(error))
        except UnavailableError:  # the store stops
            return

    async def _catch_up(self, answer: web.StreamResponse, feed: Feed) -> None:
        """Send all there is. Nothing can come between its end and the caller's next step."""
        self._woken.clear()
        since = feed.seen
        while items := feed.take():
            for piece in pieces(items, since, self._lines):
                await answer.write(piece.data)
            await asyncio.sleep(0)  # a connection that is never full must not keep the others waiting
            since = feed.seen
