"""Leader election by Lease: of several processes that could do a job, one does it. Understood by client-go's, and back.

    async with LeaderElection(client, LeaderConfig("kube-system", "dray-scheduler")):
        …  # we lead here, and only we

Why two never lead at once: a leader counts `times.renew` from *sending* the last renewal that succeeded and stops
then; others count the longer `times.lease` from *seeing* it, which is later. It holds while the clocks of the machines
run at about the same speed and the body stops within the difference (5 s by default) once it is cancelled. Who deletes
or edits the Lease by hand breaks it for up to one retry period.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from dray.api.kinds import LEASES
from dray.client import requests
from dray.client.client import Client
from dray.client.http import Request
from dray.client.lease import JITTER, LeaseTimes, Seen, held, released
from dray.errors import ConflictError, Error, NotFoundError
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.logs import get_log
from dray.runtime.tasks import running

_log = get_log("client.leader")

_RELEASE_SECONDS = 5.0


class LeadershipLostError(ConflictError):
    """We led and no longer do: the server was away for too long, or another one leads. Stop, and start anew."""


def own_identity() -> str:
    """A name for this process that no other has, now or after a restart."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True, slots=True)
class LeaderConfig:
    """Which Lease, and as whom. Two processes with one identity would both lead; the default is unique."""

    namespace: str
    name: str
    identity: str = field(default_factory=own_identity)
    times: LeaseTimes = field(default_factory=LeaseTimes)


class LeaderElection:
    """Entered: we lead. That may take for ever; failures meanwhile are logged and tried again.

    When the lead is lost, the body is cancelled and LeadershipLostError raised. Left: the lease is given back, so that
    the next one need not wait, if the server can be reached within 5 s. Enter each object once.
    """

    def __init__(
        self,
        client: Client,
        config: LeaderConfig,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.config = config
        self._client = client
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()  # noqa: S311  spreads load, guards nothing
        self._seen = Seen()
        self._document: dict[str, Any] | None = None
        self._deadline = float("-inf")
        self._last_failure = ""
        self._is_lost = False
        self._stack = AsyncExitStack()

    @property
    def is_leading(self) -> bool:
        """Whether we lead at this instant. False from the deadline on, even before the body has been cancelled."""
        return self._clock.monotonic() < self._deadline

    @property
    def leader(self) -> str:
        """Who leads as far as we have seen; "" for nobody."""
        return self._seen.holder

    async def __aenter__(self) -> LeaderElection:
        await self._acquire()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._release)
            name = f"leader of {self._what}"
            await stack.enter_async_context(running(self._keep(), name=name))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    async def _acquire(self) -> None:
        retry = self.config.times.retry
        _log.info("waiting to lead", lease=self._what, identity=self.config.identity)
        while True:
            known = self.leader
            if await self._attempt(self._look_and_write) and self.is_leading:
                _log.info("leading", lease=self._what, identity=self.config.identity)
                return
            if self.leader != known:
                _log.info("another one leads", lease=self._what, leader=self.leader)
            await self._clock.sleep(retry * (1.0 + JITTER * self._rng.random()))

    async def _keep(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._renew(), name="renew")
            group.create_task(self._watch_deadline(), name="deadline")

    async def _renew(self) -> None:
        while not self._is_lost:
            await self._clock.sleep(self.config.times.retry)
            if self._is_lost:  # both timers were due at once, after a pause
                return
            if not self.is_leading:  # we slept through it: another one may have led meanwhile
                raise self._too_late()
            await self._attempt(self._write_again)
            if self.leader != self.config.identity and not self._is_lost:
                who = self.leader or "nobody"
                raise self._lost(f"{who} holds it now")

    async def _watch_deadline(self) -> None:
        """A task of its own: a request that hangs must not keep us from noticing."""
        while (left := self._deadline - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
        if not self._is_lost:
            raise self._too_late()

    def _too_late(self) -> LeadershipLostError:
        reason = self._last_failure or "no answer"
        return self._lost(f"could not be renewed for {self.config.times.renew:g} s: {reason}")

    def _lost(self, why: str) -> LeadershipLostError:
        self._deadline = float("-inf")
        self._is_lost = True
        return LeadershipLostError(f"lease {self._what}: {why}; stopping")

    async def _attempt(self, write: Callable[[], Awaitable[bool]]) -> bool:
        """Try once to take or renew the lease; failures are logged when they are new."""
        try:
            taken = await write()
        except Error as error:
            if str(error) != self._last_failure:
                _log.warning("lease not written", lease=self._what, error=error)
            self._last_failure = str(error)
            return False
        self._last_failure = ""
        return taken

    async def _look_and_write(self) -> bool:
        """As a candidate: take the lease if nobody can think that it leads."""
        asked = self._clock.monotonic()
        found = await self._read()
        # A lease that is gone does not mean that its holder knows: what was seen last still counts.
        spec = self._seen.spec if found is None else found.get("spec") or {}
        self._seen = self._seen.after(spec, self._clock.monotonic())
        if self._seen.is_valid(asked) and self.leader != self.config.identity:
            return False
        await self._write(found)
        return True

    async def _write_again(self) -> bool:
        """As the leader: write over what we wrote last; in doubt look first. Never take it back from another one."""
        if self._document is not None:
            try:
                await self._write(self._document)
            except (ConflictError, NotFoundError):
                _log.debug("the lease was changed, looking", lease=self._what)
            else:
                return True
        found = await self._read()
        if (
            found is not None
            and (spec := found.get("spec") or {}).get("holderIdentity") != self.config.identity
        ):
            self._seen = Seen(spec, self._clock.monotonic())
            return False
        await self._write(found)
        return True

    async def _read(self) -> dict[str, Any] | None:
        config = self.config
        try:
            return await self._send(requests.get(LEASES, config.name, namespace=config.namespace))
        except NotFoundError:
            return None

    async def _write(self, base: dict[str, Any] | None) -> None:
        """Create the lease, or replace the version we know; the time we lead counts from here, before it is sent."""
        config, sent = self.config, self._clock.monotonic()
        base = base or {"metadata": {"name": config.name, "namespace": config.namespace}}
        spec = held(base.get("spec") or {}, config.identity, config.times, self._clock.now())
        document = {**base, "apiVersion": LEASES.api_version, "kind": LEASES.kind, "spec": spec}
        is_new = "resourceVersion" not in base["metadata"]
        make = requests.create(LEASES, document) if is_new else requests.update(LEASES, document)
        self._document = None  # until we know what became of it
        stored = await self._send(make)
        self._document = stored
        self._seen = Seen(stored.get("spec") or {}, self._clock.monotonic())
        self._deadline = sent + config.times.renew

    async def _release(self) -> None:
        """Called when the body has ended. Only a version that is ours is given back; what was lost runs out by itself."""
        self._deadline = float("-inf")
        if self._is_lost:
            return
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._give_back(self._document or await self._read())
        except (Error, TimeoutError) as error:
            _log.warning("lease not given back; the next leader waits for it to run out", error=error)

    async def _give_back(self, document: dict[str, Any] | None) -> None:
        spec = (document or {}).get("spec") or {}
        if document is not None and spec.get("holderIdentity") == self.config.identity:
            given = {**document, "spec": released(spec, self._clock.now())}
            await self._send(requests.update(LEASES, given))
            _log.info("lease given back", lease=self._what)

    async def _send(self, request: Request) -> dict[str, Any]:
        """Short enough for two tries before the deadline."""
        return await self._client.raw(replace(request, timeout=self.config.times.renew / 2))

    @property
    def _what(self) -> str:
        return f"{self.config.namespace}/{self.config.name}"
