"""The life of one DRA driver, the same for every kind: serve, be found by the kubelet, notice lost sockets, leave.

The socket for claims comes first, then the one for registration; they go the other way round. A kubelet cuts off calls to
a driver whose registration socket is gone, so that one stays until the running calls are done. In a rolling update the
kubelet calls the newer process meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from dray.dra.metrics import DriverMetrics, NoMetrics
from dray.dra.owners import refuse_second
from dray.dra.register import DriverSockets, Registrar
from dray.dra.serve import ClaimCalls
from dray.errors import ConflictError, Error
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.files.filewatch import FileWatch
from dray.runtime.logs import get_log
from dray.runtime.tasks import STOP_TIMEOUT, running, wait_first
from dray.wire.dra import DraService
from dray.wire.health import HealthService, ResourceHealth
from dray.wire.limits import Limits
from dray.wire.neighbour import who_listens
from dray.wire.registration import RegistrationService
from dray.wire.registration_state import OwnSocket, RegistrationPhase, RegistrationState
from dray.wire.serve import serve
from dray.wire.service import Service
from dray.wire.socket_files import remove_dead

_log = get_log("dra")

DATA_MODE = 0o750
REGISTRY_MODE = 0o755
LIMITS = Limits(grace=0.5)
"""Calls were waited for before a server is told to stop."""
POLL_SECONDS = 10.0
"""How often the sockets are looked at though nothing was noticed: what is mounted over a directory is not told."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds."""

    work: float = 25.0
    """How long running calls may take when we are told to stop; a pod has 30 by default."""
    lost: float = 5.0
    """The same where the socket for claims was lost: calls go on over the connection that the kubelet has."""
    patience: float = 5.0
    """How long another process with our name may take to leave."""
    refused: float = 30.0
    """After a refusal the registration socket is made anew: a kubelet's own pauses grow to two minutes."""
    backoff: BackoffPolicy = field(default_factory=lambda: BackoffPolicy(first=0.05, limit=10.0))
    steady: float = 60.0
    """After a run of this length the pauses begin anew."""


class DraDriver:
    """One driver. Entered: it answers, and a kubelet can find it. Left: running calls are done and its sockets are gone.

    To enter fails where it cannot start, with ConflictError where another process serves the name. Later faults are told
    in `state` and tried again. `on_registered` is called whenever a kubelet took the driver, so also after the kubelet's
    restart, which deletes our slices.
    """

    def __init__(
        self,
        sockets: DriverSockets,
        calls: ClaimCalls,
        clock: Clock,
        *,
        health: ResourceHealth | None = None,
        on_registered: Callable[[], None] = lambda: None,
        metrics: DriverMetrics | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.sockets = sockets
        self._calls = calls
        self._clock = clock
        self._timing = timing or Timing()
        self._metrics = metrics or NoMetrics()
        self._on_registered = on_registered
        self._registrar = Registrar(sockets, self._registered, tells_health=health is not None)
        self._services: list[Service[object]] = [DraService(calls)]
        if health is not None:
            self._services.append(HealthService(health))
        self._up = asyncio.Event()
        self._fault: RegistrationState | None = None
        self._stack = AsyncExitStack()

    @property
    def state(self) -> RegistrationState:
        """How it stands with the kubelet."""
        return self._fault or self._registrar.state

    @property
    def is_registered(self) -> bool:
        """Whether the kubelet took it, as far as we were told."""
        return self.state.phase is RegistrationPhase.REGISTERED

    async def __aenter__(self) -> DraDriver:
        if warning := self.sockets.warning():
            _log.warning("the kubelet may not find the driver", driver=self.sockets.driver, reason=warning)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._calls.hosting())
            stop = self._timing.work + STOP_TIMEOUT
            name = f"DRA driver {self.sockets.driver}"
            await stack.enter_async_context(running(self._run(), name=name, stop_timeout=stop))
            await self._up.wait()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    def _registered(self) -> None:
        self._metrics.registered()
        self._on_registered()

    async def _run(self) -> NoReturn:
        """Serve again and again. What goes wrong before the first time is raised."""
        backoff = Backoff(self._timing.backoff)
        while True:
            began = self._clock.monotonic()
            try:
                await self._run_once(backoff)
            except Error as error:
                if not self._up.is_set():
                    raise
                self._tell_failed(error)
            await self._pause(backoff, began)

    async def _run_once(self, backoff: Backoff) -> None:
        """Until the socket for claims is gone, through any number of registration sockets."""
        ours = self.sockets
        await refuse_second(ours, self._clock, self._timing.patience)
        # A kubelet goes on to call a socket that nobody listens on, and a pod that comes back has another name.
        for directory in (ours.registry, ours.data_dir):
            await remove_dead(directory, ours.is_former)
        async with self._served(ours.endpoint, self._services, DATA_MODE):
            endpoint = OwnSocket.at(ours.endpoint)
            while endpoint.is_there:
                began = self._clock.monotonic()
                self._registrar.begin()
                async with self._served(
                    ours.registration, [RegistrationService(self._registrar)], REGISTRY_MODE
                ):
                    self._fault = None
                    self._up.set()
                    why = await self._stay(endpoint)
                _log.info("will serve again", driver=ours.driver, why=why)
                if endpoint.is_there:
                    await self._pause(backoff, began)
                    await refuse_second(ours, self._clock, self._timing.patience)

    async def _stay(self, endpoint: OwnSocket) -> str:
        """Until one of the sockets must be made anew; says why. Calls that run then are waited for."""
        ours = self.sockets
        registration = OwnSocket.at(ours.registration)

        def is_whole() -> bool:
            return endpoint.is_there and registration.is_there

        try:
            await wait_first(
                _while((ours.endpoint, ours.registration), is_whole), self._wait_refused_for_long()
            )
        except asyncio.CancelledError:
            if not await self._calls.wait_idle(self._timing.work):
                _log.warning("calls do not end, leaving", driver=ours.driver, waited_s=self._timing.work)
            raise
        if not endpoint.is_there:
            await self._calls.wait_idle(self._timing.lost)
            return f"{ours.endpoint} is gone"
        return "the kubelet refused us" if is_whole() else f"{ours.registration} is gone"

    async def _wait_refused_for_long(self) -> None:
        while True:
            await self._registrar.wait_refused()
            await self._clock.sleep(self._timing.refused)
            if self._registrar.state.phase is RegistrationPhase.REFUSED:
                return

    async def _pause(self, backoff: Backoff, began: float) -> None:
        if self._clock.monotonic() - began > self._timing.steady:
            backoff.reset()
        await self._clock.sleep(backoff.next())

    def _tell_failed(self, error: Error) -> None:
        """Once for each reason: it may stay for weeks."""
        phase = RegistrationPhase.REFUSED if isinstance(error, ConflictError) else RegistrationPhase.FAILED
        state = RegistrationState(phase, str(error))
        if state != self._fault:
            _log.error("cannot serve, will try again", driver=self.sockets.driver, error=str(error))
        self._fault = state

    @asynccontextmanager
    async def _served(
        self, path: Path, services: Sequence[Service[object]], directory_mode: int
    ) -> AsyncIterator[None]:
        """A ConflictError names who has the socket."""
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(
                    serve(
                        path,
                        services,
                        directory_mode=directory_mode,
                        # A kubelet looks at every name that appears in its registry, and complains when it is gone.
                        staging=self.sockets.data_dir,
                        limits=LIMITS,
                    )
                )
            except ConflictError as error:
                who = await who_listens(path) or "a process that has just ended"
                raise ConflictError(
                    f"the socket {path} of driver {self.sockets.driver} is in use by {who}: stop that process"
                ) from error
            yield


async def _while(paths: Sequence[Path], holds: Callable[[], bool]) -> None:
    """The watch begins when the sockets are there: it tells of what differs from its first look."""
    async with FileWatch(paths, poll_interval=POLL_SECONDS) as watch:
        while holds():
            await watch.wait_changed()
