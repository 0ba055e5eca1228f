"""The DRA drivers that registered: several endpoints each during a rolling update, the newest connected one is called."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from dray.api.quoting import quote
from dray.errors import ConflictError, InvalidError, UnavailableError
from dray.kubelet.claims.endpoint import DriverEndpoint
from dray.kubelet.claims.meters import Meters
from dray.kubelet.failure import prefixed
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import STOP_TIMEOUT
from dray.wire import dra, health
from dray.wire.registration import first_known

_log = get_log("kubelet.claims.drivers")


def choose(versions: Sequence[str]) -> str:
    """The service to call: the first of the driver's list that we know, whatever is newer."""
    if not versions:
        raise InvalidError("empty list of supported gRPC services (aka supported versions)")
    chosen = first_known(versions, dra.VERSIONS)
    if chosen is None:
        raise InvalidError(
            f"none of services supported by the plugin ({_quoted(versions)}) are supported "
            f"by the kubelet ({_quoted(dra.VERSIONS)})"
        )
    return chosen


def choose_health(versions: Sequence[str]) -> str:
    """The health service to watch, newest first; "" where the driver names none."""
    return first_known(health.VERSIONS, versions) or ""


class Drivers:
    """Handles plugins of type DRAPlugin. One task runs `run`; registrations before it started are kept for it.

    `usable_changed(name, usable)` is called whenever an endpoint came, went, connected or was lost. `follow` runs beside each
    endpoint while it is registered.
    """

    def __init__(
        self,
        clock: Clock,
        meters: Meters,
        *,
        usable_changed: Callable[[str, bool], None],
        follow: Callable[[DriverEndpoint], Awaitable[None]],
        call_timeout: float = dra.CALL_TIMEOUT,
    ) -> None:
        self._clock = clock
        self._meters = meters
        self._tell_usable = usable_changed
        self._follow = follow
        self._call_timeout = call_timeout
        self._endpoints: dict[str, list[DriverEndpoint]] = {}
        self._tasks: dict[DriverEndpoint, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """InvalidError, with the text the driver is told, unless we speak one of its versions."""
        try:
            choose(versions)
        except InvalidError as error:
            where = f"invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}"
            raise prefixed(where, error) from error

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Take the endpoint. It is connected from now on; that it cannot be yet is no error."""
        self.validate(name, endpoint, versions)
        known = self._endpoints.setdefault(name, [])
        if any(other.path == endpoint for other in known):
            raise ConflictError(f"endpoint {endpoint} already registered for DRA driver plugin {name}")
        added = DriverEndpoint(
            name,
            endpoint,
            version=choose(versions),
            health=choose_health(versions),
            meters=self._meters,
            call_timeout=self._call_timeout,
        )
        known.append(added)
        _log.info("registered", driver=name, endpoint=endpoint, version=added.version, endpoints=len(known))
        self._start(added)
        self._changed(name)

    async def deregister(self, name: str, endpoint: str) -> None:
        """Drop the endpoint; one that is not known is fine."""
        known = self._endpoints.get(name, [])
        gone = next((other for other in known if other.path == endpoint), None)
        if gone is None:
            return
        known.remove(gone)
        if not known:
            del self._endpoints[name]
        _log.info("unregistered", driver=name, endpoint=endpoint, endpoints=len(known))
        self._changed(name)
        if (task := self._tasks.pop(gone, None)) is not None:
            task.cancel()
            await asyncio.wait({task}, timeout=STOP_TIMEOUT)
        await gone.retire()

    def pick(self, name: str) -> DriverEndpoint:
        """The newest connected endpoint, else the newest: its connection is tried again by the call."""
        if not name:
            raise InvalidError("DRA driver name is empty")
        known = self._endpoints.get(name)
        if not known:
            raise UnavailableError(f"DRA driver {name} is not registered")
        return next((one for one in reversed(known) if one.is_connected), known[-1])

    def is_usable(self, name: str) -> bool:
        """Whether a call would find a connection."""
        return any(one.is_connected for one in self._endpoints.get(name, ()))

    async def run(self) -> None:
        """Keep all endpoints connected until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for name, known in self._endpoints.items():
                    for endpoint in known:
                        self._start(endpoint)
                    self._changed(name)
                await asyncio.Event().wait()
        finally:
            self._group = None
            self._tasks.clear()
            for known in self._endpoints.values():
                for endpoint in known:
                    await endpoint.retire()

    def _changed(self, name: str) -> None:
        self._tell_usable(name, self.is_usable(name))

    def _start(self, endpoint: DriverEndpoint) -> None:
        if self._group is not None:
            self._tasks[endpoint] = self._group.create_task(
                self._tend(endpoint), name=f"DRA driver {endpoint.driver} at {endpoint.path}"
            )

    async def _tend(self, endpoint: DriverEndpoint) -> None:
        def changed() -> None:
            state = "connected" if endpoint.is_connected else "connection lost"
            _log.info(state, driver=endpoint.driver, endpoint=endpoint.path)
            self._changed(endpoint.driver)

        async with asyncio.TaskGroup() as group:
            group.create_task(endpoint.keep_connected(self._clock, changed))
            group.create_task(_followed(self._follow, endpoint))


async def _followed(follow: Callable[[DriverEndpoint], Awaitable[None]], endpoint: DriverEndpoint) -> None:
    if endpoint.health:
        await follow(endpoint)


def _quoted(names: Sequence[str]) -> str:
    return "[" + " ".join(quote(name) for name in names) + "]"
