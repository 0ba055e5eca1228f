"""Give containers an opened node: each takes one descriptor from a socket of its own, which then goes away.

    async with Passing(root, executor, clock, threads) as passing:
        mount = await passing.offer(wanted)

On the wire: whoever connects first gets one byte with the descriptor beside it, and answers with one byte.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from dray.cdi.edits import Mount
from dray.drivers.contract import DescriptorPass
from dray.drivers.iommufd.prepare import PASS
from dray.errors import Error, UnavailableError
from dray.hardware.change import Relabel
from dray.hardware.change.executor import Executor
from dray.hardware.change.passing_socket import PassingSocket, remove_dead_sockets
from dray.hardware.host_root import HostRoot
from dray.hardware.iommufd import check_iommufd, open_iommufd
from dray.hardware.selinux import SelinuxState, read_selinux
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import running, wait_first
from dray.runtime.threads import Threads
from dray.wire.sockets import peer_of

_log = get_log("drivers.iommufd")

Opener = Callable[[HostRoot, str], int]
"""Opens the node at a path of the host and sets it up. Runs in a thread; the caller closes the descriptor."""

_BYTE = b"\1"
_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class PassingLimits:
    """Seconds to open a node and make its socket, for the container to come, and for its answer; and offers at once.

    KubeVirt's own wait is 15 minutes too. When there are more than `offers`, the oldest is given up.
    """

    open: float = 10.0
    come: float = 900.0
    answer: float = 10.0
    offers: int = 256


class _Offer:
    """One descriptor that waits for its container."""

    def __init__(self, descriptor: int, place: PassingSocket) -> None:
        self.place = place
        self._descriptor = descriptor
        self.is_passed = False
        self.given_up = asyncio.Event()

    def send(self, connection: socket.socket) -> None:
        """OSError where the peer is gone: nobody has it then."""
        socket.send_fds(connection, [_BYTE], [self._descriptor])
        self.is_passed = True
        self.place.listener.close()  # who comes now is refused, not kept waiting

    def close(self) -> None:
        """All of it; safe to call twice."""
        descriptor, self._descriptor = self._descriptor, -1
        try:
            self.place.close()
        finally:
            if descriptor >= 0:
                os.close(descriptor)


class Passing:
    """Makes offers and serves them. Entered: what a killed process left is removed. Left: nothing of it is on the host.

    An offer does not survive this process: a container that has not come for it by then does not get it.
    """

    def __init__(
        self,
        root: HostRoot,
        executor: Executor,
        clock: Clock,
        threads: Threads,
        *,
        opener: Opener = open_iommufd,
        limits: PassingLimits | None = None,
    ) -> None:
        self._root = root
        self._executor = executor
        self._clock = clock
        self._threads = threads
        self._opener = opener
        self._limits = limits or PassingLimits()
        self._group: asyncio.TaskGroup | None = None
        self._offers: dict[str, _Offer] = {}

    async def __aenter__(self) -> Self:
        await self._remove_leftovers(PASS)
        async with AsyncExitStack() as stack:
            stack.callback(self._close_all)
            await stack.enter_async_context(running(self._serve_all(), name="descriptor passing"))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._group = None  # no offers from here on
        await self._stack.__aexit__(kind, error, trace)

    def check(self, wanted: DescriptorPass) -> None:
        """HardwareError where the host has no such node. A look only, before anything is changed for the container."""
        check_iommufd(self._root, wanted.node)

    async def offer(self, wanted: DescriptorPass) -> Mount:
        """Open the node and begin to listen; the mount to give to the container. Each call makes another socket.

        Errors: HardwareError (no such node, or the kernel refuses), DeniedError, UnavailableError (slow, or stopping).
        """
        offer = await self._threads.run(
            lambda: self._open(wanted),
            doing=f"open {wanted.node} for a container",
            seconds=self._limits.open,
            alone_on=(f"pass {wanted.node}",),
            late=_Offer.close,
        )
        if self._group is None:
            offer.close()
            raise UnavailableError(f"cannot pass {wanted.node} to a container: the agent is stopping")
        self._offers[offer.place.path] = offer
        self._group.create_task(self._serve(offer), name=f"pass {offer.place.path}")
        self._give_up_oldest()
        return Mount(offer.place.path, wanted.container_path)

    def _open(self, wanted: DescriptorPass) -> _Offer:
        descriptor = self._opener(self._root, wanted.node)
        try:
            place = PassingSocket(self._root.path, wanted.directory, f"{wanted.name}-{uuid.uuid4()}.sock")
        except BaseException:
            os.close(descriptor)
            raise
        offer = _Offer(descriptor, place)
        try:
            self._relabel(wanted.directory, place.path)
        except BaseException:
            offer.close()
            raise
        return offer

    def _relabel(self, *paths: str) -> None:
        state = read_selinux(self._root)
        if state is not SelinuxState.ABSENT:
            for path in paths:
                self._executor.apply(Relabel(path, enforcing=state is SelinuxState.ENFORCING))

    async def _serve_all(self) -> None:
        async with asyncio.TaskGroup() as self._group:
            await asyncio.get_running_loop().create_future()  # until cancelled, and the offers with it

    async def _serve(self, offer: _Offer) -> None:
        try:
            await wait_first(
                self._hand_over(offer), self._clock.sleep(self._limits.come), offer.given_up.wait()
            )
            if not offer.is_passed:
                _log.warning("nobody came for a descriptor, given up", socket=offer.place.path)
        finally:
            self._offers.pop(offer.place.path, None)
            offer.close()

    async def _hand_over(self, offer: _Offer) -> None:
        """To the first who takes it: one that is gone before it got anything does not count."""
        while not offer.is_passed:
            with await self._accepted(offer.place.listener) as connection:
                peer = peer_of(connection)
                try:
                    offer.send(connection)
                except OSError as error:
                    _log.debug("a client went away", socket=offer.place.path, pid=peer.pid, error=str(error))
                    continue
                _log.info("descriptor passed", socket=offer.place.path, pid=peer.pid, uid=peer.uid)
                await wait_first(_readable(connection), self._clock.sleep(self._limits.answer))
                if not _answered(connection):
                    _log.debug("no answer, taken as received", socket=offer.place.path, pid=peer.pid)

    async def _accepted(self, listener: socket.socket) -> socket.socket:
        """The next connection. Nothing is lost when this is cancelled: it is accepted in the last step."""
        while True:
            await _readable(listener)
            try:
                connection, _ = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                continue
            except OSError as error:  # out of descriptors
                _log.warning("cannot accept a connection, will try again", error=str(error))
                await self._clock.sleep(_RETRY_SECONDS)
                continue
            connection.setblocking(False)
            return connection

    def _give_up_oldest(self) -> None:
        waiting = [offer for offer in self._offers.values() if not offer.given_up.is_set()]
        for offer in waiting[: max(len(waiting) - self._limits.offers, 0)]:
            offer.given_up.set()

    async def _remove_leftovers(self, known: DescriptorPass) -> None:
        """Not being able to is no reason not to start: each offer has a name of its own."""
        try:
            removed = await self._threads.run(
                lambda: remove_dead_sockets(self._root.path, known.directory, f"{known.name}-*.sock"),
                doing=f"clean {known.directory}",
                seconds=self._limits.open,
            )
        except Error as error:
            _log.warning("cannot look for sockets of an earlier run", error=str(error))
            return
        for path in removed:
            _log.info("removed a socket of an earlier run", socket=path)

    def _close_all(self) -> None:
        """A task that was cancelled before its first step has closed nothing."""
        while self._offers:
            self._offers.popitem()[1].close()


async def _readable(waited: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def set_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(waited, set_ready)
    try:
        await ready
    finally:
        loop.remove_reader(waited)


def _answered(connection: socket.socket) -> bool:
    try:
        return bool(connection.recv(1))
    except OSError:
        return False
