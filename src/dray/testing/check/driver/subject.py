"""The DRA driver that is checked: a live socket, or a process with a kubelet that is played to it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from dray.api.kinds import RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.api.resource import ResourceSlice
from dray.client.client import Client
from dray.client.requests import Selection
from dray.errors import Error, UnavailableError
from dray.semantics.pools import current
from dray.testing.check.api_server import SmallApiServer
from dray.testing.check.program import NODE_NAME, Program, Room, wait_until
from dray.testing.check.registry import get_info, notify, registration_sockets
from dray.testing.check.rules import Outcome, Unready, as_outcome, together
from dray.testing.check.subject import ProgramSubject
from dray.wire import dra
from dray.wire.connect import connect
from dray.wire.gen.dra_v1_pb2 import (
    Claim,
    NodePrepareResourceResponse,
    NodePrepareResourcesRequest,
    NodeUnprepareResourcesRequest,
)
from dray.wire.gen.pluginregistration_v1_pb2 import PluginInfo
from dray.wire.registration import first_known

NAMESPACE = "default"
REQUEST = "devices"
_AGAIN_SECONDS = 0.5

_KEEPS_OFF = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Driver:
    """One driver that a kubelet knows. On a socket of the driver itself there is no `info`."""

    name: str
    registration: Path | None
    endpoint: Path
    info: PluginInfo | None = None

    @property
    def versions(self) -> tuple[str, ...]:
        """Those of the DRA API that it says it speaks, in its order."""
        told = self.info.supported_versions if self.info is not None else dra.VERSIONS[:1]
        return tuple(one for one in told if one in dra.VERSIONS)


@dataclass(frozen=True, slots=True)
class Private:
    """What there is where the driver was started by us. `api` is None with the user's own cluster."""

    room: Room
    program: Program
    api: SmallApiServer | None


@dataclass(frozen=True, slots=True)
class Allocated:
    """A claim as a kubelet names it, and the device that it was given."""

    claim: Claim
    pool: str
    device: str


@dataclass(kw_only=True)
class DriverSubject(ProgramSubject[Private]):
    """One program, which may serve several drivers. `client` is None without a cluster."""

    word = "{registry-dir}"

    cdi_dir: Path
    client: Client | None = None
    found: dict[str, Driver] = field(default_factory=dict)
    """By registration socket."""
    faults: dict[str, str] = field(default_factory=dict)
    """Why a registration socket could not be used, by its name."""
    awaited: set[str] = field(default_factory=set)
    """Drivers that had their time to publish."""

    async def wait_ready(self) -> str:
        """Registered, by a process that runs."""
        if self.private is None:
            return ""
        if not self.private.program.is_running:
            self.found.clear()
            self.faults.clear()
            for path in self.private.room.sockets():
                path.unlink(missing_ok=True)
            await self.private.program.start()
        return "" if self.found else await self.register()

    async def register(self) -> str:
        """As the kubelet's plugin watcher: ask each socket that appears who it is, and tell it that it is in."""
        room, program = self.own.room, self.own.program

        def appeared() -> bool:
            return bool(registration_sockets(room.registry)) or not program.is_running

        if not await wait_until(appeared, self.pace.within, self.clock) or not program.is_running:
            return self.death() or f"no registration socket within {self.pace.within:g} s"
        end = self.clock.monotonic() + self.pace.within
        await self.clock.sleep(self.pace.settle)
        while True:
            for path in registration_sockets(room.registry):
                await self._ask(path, room)
            if self.found or self.clock.monotonic() >= end or not program.is_running:
                break
            # As a kubelet does after a failure.
            await self.clock.sleep(_AGAIN_SECONDS)
        return "" if self.found else self.death() or "; ".join(sorted(self.faults.values()))

    async def _ask(self, path: Path, room: Room) -> None:
        try:
            info = await get_info(path)
            endpoint = room.outside(info.endpoint) if info.endpoint else path
            self.found[str(path)] = Driver(info.name, path, endpoint, info)
            await notify(path)
        except Error as error:
            self.faults[path.name] = str(error)

    def drivers(self) -> list[Driver]:
        """All that registered."""
        return [driver for _, driver in sorted(self.found.items())]

    def names(self) -> list[str]:
        """The drivers."""
        return [one.name for one in self.drivers()]

    def sockets(self) -> list[Path]:
        """Where they register and where they prepare."""
        both = ((one.registration, one.endpoint) for one in self.drivers())
        return [path for paths in both for path in paths if path is not None]

    async def slices(self, driver: Driver) -> list[ResourceSlice]:
        """What it published for this node, now."""
        if self.client is None:
            raise UnavailableError("without --kubeconfig the slices cannot be read")
        selection = Selection(fields=f"spec.driver={driver.name}")
        listed = await self.client.list(RESOURCE_SLICES, selection)
        everywhere = self.is_live
        return [one for one in listed.items if everywhere or one.spec.node_name in (None, NODE_NAME)]

    async def wait_slices(self, driver: Driver) -> list[ResourceSlice]:
        """The same, given the time to publish, once."""
        end = self.clock.monotonic() + (0.0 if driver.name in self.awaited else self.pace.within)
        self.awaited.add(driver.name)
        while not (found := await self.slices(driver)) and self.clock.monotonic() < end:
            await self.clock.sleep(0.05)
        return found

    @asynccontextmanager
    async def claims(self, driver: Driver, most: int) -> AsyncIterator[list[Allocated]]:
        """Up to `most` new claims, each allocated a device of its own as a scheduler does; unprepared and deleted after."""
        names = free_devices(await self.wait_slices(driver))
        made: list[Allocated] = []
        try:
            for pool, device in names[:most]:
                made.append(await self._allocated(driver, pool, device))
            yield made
        finally:
            with suppress(Error):
                await self.unprepare(driver, [one.claim for one in made])
            await self._delete([one.claim.name for one in made])

    async def _allocated(self, driver: Driver, pool: str, device: str) -> Allocated:
        name = f"check-{uuid.uuid4().hex[:12]}"
        try:
            return await self._claim(driver, name, pool, device)
        except Error as error:
            await self._delete([name])
            raise Unready(f"no claim could be made: {error}") from error

    async def _claim(self, driver: Driver, name: str, pool: str, device: str) -> Allocated:
        assert self.client is not None
        wanted = {"name": REQUEST, "exactly": {"deviceClassName": NODE_NAME}}
        document = {"metadata": {"name": name}, "spec": {"devices": {"requests": [wanted]}}}
        await self.client.create(RESOURCE_CLAIMS, document, namespace=NAMESPACE)
        stored = await self.client.get_raw(RESOURCE_CLAIMS, name, namespace=NAMESPACE)
        result = {"request": REQUEST, "driver": driver.name, "pool": pool, "device": device}
        pod = {"resource": "pods", "name": name, "uid": str(uuid.uuid4())}
        stored["status"] = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [pod]}
        await self.client.update(RESOURCE_CLAIMS, stored, subresource="status")
        return Allocated(Claim(namespace=NAMESPACE, name=name, uid=stored["metadata"]["uid"]), pool, device)

    async def _delete(self, names: Sequence[str]) -> None:
        assert self.client is not None
        for name in names:
            with suppress(Error):
                await self.client.delete(RESOURCE_CLAIMS, name, namespace=NAMESPACE)

    async def prepare(
        self, driver: Driver, claims: Sequence[Claim], version: str = ""
    ) -> Mapping[str, NodePrepareResourceResponse]:
        """As the kubelet calls it, in the version it would choose."""
        async with connect(driver.endpoint, timeout=dra.CALL_TIMEOUT) as channel:
            client = dra.dra_client(channel, version or _chosen(driver))
            answer = await client.node_prepare_resources(NodePrepareResourcesRequest(claims=claims))
        return dict(answer.claims)

    async def unprepare(self, driver: Driver, claims: Sequence[Claim], version: str = "") -> dict[str, str]:
        """The error of each claim that was answered."""
        async with connect(driver.endpoint, timeout=dra.CALL_TIMEOUT) as channel:
            client = dra.dra_client(channel, version or _chosen(driver))
            answer = await client.node_unprepare_resources(NodeUnprepareResourcesRequest(claims=claims))
        return {uid: one.error for uid, one in answer.claims.items()}


def _chosen(driver: Driver) -> str:
    return first_known(driver.versions, dra.VERSIONS) or dra.V1


def unknown_claim() -> Claim:
    """One that no API server has."""
    name = f"check-none-{uuid.uuid4().hex[:8]}"
    return Claim(namespace=NAMESPACE, name=name, uid=str(uuid.uuid4()))


Look = Callable[[DriverSubject, Driver], Awaitable[list[str] | Outcome]]


def each(look: Look) -> Callable[[DriverSubject], Awaitable[Outcome]]:
    """A rule about one driver, for all that the program serves."""

    async def check(subject: DriverSubject) -> Outcome:
        return together([(one.name, as_outcome(await look(subject, one))) for one in subject.drivers()])

    return check


def free_devices(slices: Iterable[ResourceSlice]) -> list[tuple[str, str]]:
    """Pool and name of what can be given at the same time: nothing that a taint keeps pods from, one of each counter set."""
    found: list[tuple[str, str]] = []
    drawn: set[tuple[str, str]] = set()
    for one in current(slices):
        for device in one.spec.devices or ():
            sets = {(one.spec.pool.name, each.counter_set) for each in device.consumes_counters}
            if sets & drawn or any(taint.effect in _KEEPS_OFF for taint in device.taints):
                continue
            drawn |= sets
            found.append((one.spec.pool.name, device.name))
    return found
