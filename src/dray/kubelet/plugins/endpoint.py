"""One connected device plugin: its lists are followed, its calls end in bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from dray.errors import Error, ProtocolError, UnavailableError
from dray.kubelet.devices.known import Device
from dray.kubelet.failure import prefixed, rpc_text
from dray.kubelet.newest import Newest
from dray.kubelet.plugins.listing import read
from dray.kubelet.turns import Pace
from dray.runtime.logs import get_log
from dray.runtime.tasks import running
from dray.wire.connect import Channel
from dray.wire.deviceplugin import PRE_START_TIMEOUT, DevicePluginClient
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    ContainerAllocateRequest,
    ContainerAllocateResponse,
    ContainerPreferredAllocationRequest,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreStartContainerRequest,
)
from dray.wire.limits import MIB, Limits
from dray.wire.transport.room import SMALL

_log = get_log("kubelet.plugins")

CLOSE_TIMEOUT = 1.0
LIMITS = Limits(receive=16 * MIB, send=16 * MIB)
"""A kubelet drops a plugin whose list passes 4 MiB, which is some tens of thousands of devices."""
_READ_PAUSE = 2e-6

Listed = Callable[[tuple[Device, ...]], None]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds a plugin gets."""

    dial: float = 10.0
    options: float = 30.0
    call: float = 120.0
    """For Allocate and GetPreferredAllocation. A kubelet waits for ever, and all its pods with it."""
    pre_start: float = PRE_START_TIMEOUT


DEFAULT_TIMEOUTS = Timeouts()


async def dial(channel: Channel, timeout: float) -> None:
    """Connect. A plugin that is about to listen is waited for, as a kubelet does."""
    try:
        async with asyncio.timeout(timeout):
            await channel.wait_connected(wait=timeout)
    except TimeoutError:
        raise UnavailableError("failed to dial device plugin: context deadline exceeded") from None
    except Error as error:
        raise prefixed("failed to dial device plugin", error) from error


async def asked_options(channel: Channel, timeout: float) -> DevicePluginOptions:
    """What the plugin wants to be asked; the options inside of a registration count for nothing."""
    client = DevicePluginClient(channel)
    try:
        return await client.get_device_plugin_options(Empty(), timeout=timeout)
    except Error as error:
        raise prefixed("failed to get device plugin options", error, rpc_text(error)) from error


class PluginEndpoint:
    """The plugin of one resource on one socket, from its registration to the end of its connection; never used again.

    Calls may come at once. Errors have the words of a Go client, for they end up in a pod's status.
    """

    def __init__(
        self,
        resource: str,
        channel: Channel,
        options: DevicePluginOptions,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        pace: Pace | None = None,
    ) -> None:
        self.resource = resource
        self.path = channel.path
        self.options = options
        self.is_stopped = False
        self._channel = channel
        self._timeouts = timeouts
        self._client = DevicePluginClient(channel)
        self._calls: set[asyncio.Timeout] = set()
        self._streams: set[asyncio.Timeout] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._told: set[str] = set()
        self._pace = pace or Pace()

    def __str__(self) -> str:
        return f"{self.resource} at {self.path}"

    async def follow(self, listed: Listed) -> None:
        """Give each list to `listed` until the plugin ends the stream, which is no error, or it breaks.

        Where lists come faster than they can be taken in, only the newest is. The last one is always given.
        """
        newest = Newest[ListAndWatchResponse](lambda message: listed(self._read(message)))
        try:
            async with (
                running(newest.run(self._pace, self.path), name=f"lists of {self}"),
                self._calling(self._streams),
                self._client.list_and_watch(Empty()) as answers,
            ):
                async for answer in answers:
                    newest.put(answer)
                    # Lets others run, and after a huge list for longer: a plugin must not have the loop for itself.
                    await asyncio.sleep(len(answer.devices) * _READ_PAUSE)
                    if answer.ByteSize() > SMALL:
                        await newest.wait_taken()
                    del answer  # the next one may be long in coming
        finally:
            newest.flush()

    async def allocate(self, ids: Sequence[str]) -> ContainerAllocateResponse:
        """For one container."""
        request = AllocateRequest(container_requests=[ContainerAllocateRequest(devices_ids=ids)])
        async with self._calling(self._calls):
            answer = await self._client.allocate(request, timeout=self._timeouts.call)
        if not answer.container_responses:
            raise ProtocolError("no containers return in allocation response")
        return answer.container_responses[0]

    async def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        """What the plugin would rather give; empty where it does not say."""
        asked = ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
        )
        request = PreferredAllocationRequest(container_requests=[asked])
        async with self._calling(self._calls):
            answer = await self._client.get_preferred_allocation(request, timeout=self._timeouts.call)
        return tuple(answer.container_responses[0].deviceIDs) if answer.container_responses else ()

    async def pre_start(self, ids: Sequence[str]) -> None:
        """The container that holds these is about to start."""
        async with self._calling(self._calls):
            await self._client.pre_start_container(
                PreStartContainerRequest(devices_ids=ids), timeout=self._timeouts.pre_start
            )

    async def retire(self) -> None:
        """Close once the calls in flight are over: another connection to the same plugin has taken its place."""
        self.is_stopped = True
        _give_up(self._streams)
        try:
            async with asyncio.timeout(self._timeouts.call):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("closed though calls are open", plugin=str(self))
        await self.close()

    async def close(self) -> None:
        """Give up the stream and the calls in flight, and close the connection. Safe to call twice."""
        self.is_stopped = True
        _give_up(self._streams | self._calls)
        # The channel goes after the last call: one that connects again just then would find it closed.
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._idle.wait()
        except TimeoutError:
            _log.error("calls do not end", plugin=str(self))
        await self._channel.close()

    @asynccontextmanager
    async def _calling(self, open_calls: set[asyncio.Timeout]) -> AsyncIterator[None]:
        if self.is_stopped:
            raise self._stopped()
        try:
            async with asyncio.timeout(None) as call:
                open_calls.add(call)
                self._idle.clear()
                try:
                    yield
                finally:
                    open_calls.discard(call)
                    if not self._calls and not self._streams:
                        self._idle.set()
        except TimeoutError:
            raise self._stopped() from None
        except Error as error:
            raise type(error)(rpc_text(error)) from error

    def _stopped(self) -> UnavailableError:
        return UnavailableError(f"endpoint {self} has been stopped")

    def _read(self, message: ListAndWatchResponse) -> tuple[Device, ...]:
        listing = read(message)
        for fault in listing.faults:
            if fault not in self._told and len(self._told) < 10:
                self._told.add(fault)
                _log.warning("odd device list", plugin=str(self), fault=fault)
        return listing.devices


def _give_up(calls: Iterable[asyncio.Timeout]) -> None:
    """Each tells its caller that the endpoint has been stopped."""
    now = asyncio.get_running_loop().time()
    for call in calls:
        if not call.expired():
            call.reschedule(now)
