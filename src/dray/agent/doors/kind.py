"""One kind of device as a DRA driver: its slices, its sockets, its claims. What the agent runs for each such kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from dray.agent.doors.reports import ClaimReports, PublishReports
from dray.agent.doors.restart import keep_holds, tell_again
from dray.agent.events import AgentEvents, Reason
from dray.api.kinds import RESOURCE_CLAIMS
from dray.api.resource import ResourceClaim
from dray.api.resource.slice import DeviceAttribute
from dray.cdi.edits import ContainerEdits
from dray.client.client import Client
from dray.dra.claims.books import PrepareOptions, Surroundings
from dray.dra.claims.metadata import KNOWN
from dray.dra.claims.prepare import Preparer, open_preparer
from dray.dra.claims.recover import ClaimState
from dray.dra.fetch import FetchedClaims
from dray.dra.health import HealthStreams
from dray.dra.lifetime import DraDriver
from dray.dra.metrics import DraMetrics
from dray.dra.names import device_name
from dray.dra.parcels import ClaimRef, NodeRef
from dray.dra.register import DriverSockets
from dray.dra.serve import ClaimCalls
from dray.dra.slices.layout import PoolContents
from dray.dra.slices.publish import SlicePublisher
from dray.dra.slices.reconcile import PoolOwner
from dray.dra.slices.view import pool_devices
from dray.dra.status import ClaimStatus
from dray.drivers.contract import Device, Driver, HasLeftovers, Prepared, Problem
from dray.errors import Error, NotFoundError
from dray.hardware.change import HostChange
from dray.hardware.host_root import HostRoot
from dray.inventory.holds import Holds
from dray.inventory.inventory import Inventory, InventoryFeed
from dray.inventory.story import tell_problems
from dray.runtime.clock import Clock
from dray.runtime.files.checkpoint import SetAside
from dray.runtime.logs import get_log
from dray.runtime.quarantine import PLACE, Quarantine
from dray.runtime.tasks import running
from dray.runtime.threads import Threads

_log = get_log("agent")
_AGAIN: Final = 5.0
_LEFTOVER_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class DraGround:
    """What all DRA drivers of a process stand on. `devices` is the whole inventory, `shown` what the DRA door shows of it."""

    client: Client
    node_name: str
    kubelet_dir: Path
    cdi_dir: Path
    instance: str
    boot_id: str
    devices: InventoryFeed
    shown: InventoryFeed
    holds: Holds
    carry_out: Callable[[Prepared], Awaitable[ContainerEdits]]
    undo: Callable[[Sequence[HostChange]], Awaitable[None]]
    root: HostRoot
    threads: Threads
    clock: Clock
    events: AgentEvents
    metrics: DraMetrics
    reached: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class KindWish:
    """A kind to be served: under which name, by which driver, with metadata files (KEP-5304) or without."""

    kind: str
    name: str
    driver: Driver
    metadata: bool = True

    @property
    def terms(self) -> tuple[str, bool]:
        """What a running driver cannot change."""
        return self.name, self.metadata


class DraKind:
    """A running one. `wish` may be replaced by one with equal terms: calls that begin later use its driver."""

    def __init__(self, ground: DraGround, wish: KindWish) -> None:
        self.wish = wish
        self._ground = ground
        self._seen: tuple[Inventory, Mapping[str, Device]] = (Inventory(-1), {})
        self._problems: frozenset[Problem] = frozenset()
        self._is_lost = asyncio.Event()
        self.driver: DraDriver | None = None
        self.quarantine = Quarantine(self._data_dir / PLACE, ground.clock)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Entered: the kubelet can find it, and slices are on their way. Left: its sockets are gone; slices stay.

        ConflictError where another process serves the name.
        """
        ground, name = self._ground, self.wish.name
        async with AsyncExitStack() as stack:
            preparer = await stack.enter_async_context(open_preparer(self._options(), self._around()))
            stack.enter_context(self.quarantine)
            await self._take_leftovers(preparer)
            owner = PoolOwner(name, NodeRef(ground.node_name, ""))
            metrics = ground.metrics.of(name)
            publisher = SlicePublisher(
                ground.client,
                owner,
                clock=ground.clock,
                observer=PublishReports(name, metrics, ground.events),
                reached=ground.reached,
            )
            publisher.want(self._contents(ground.shown.current))
            await stack.enter_async_context(publisher)
            status = ClaimStatus(ground.client, name, ground.clock)
            await stack.enter_async_context(status.writing())
            reports = ClaimReports(status, ground.events)
            claims = reports.noting(FetchedClaims(ground.client, name))
            calls = ClaimCalls(
                name,
                preparer,
                claims,
                ground.clock,
                metrics=metrics,
                reports=reports,
                quarantine=self.quarantine,
            )
            self.driver = DraDriver(
                DriverSockets(name, ground.kubelet_dir, ground.instance),
                calls,
                ground.clock,
                health=HealthStreams(ground.shown, self._mine, ground.node_name, ground.clock),
                on_registered=publisher.wake,
                metrics=metrics,
            )
            await stack.enter_async_context(running(self._publish(publisher), name=f"pool of {name}"))
            await stack.enter_async_context(
                running(preparer.recovery.run(self._look_up), name=f"claims of {name}")
            )
            await stack.enter_async_context(running(self._rebuild(preparer), name=f"lost claims of {name}"))
            holding = keep_holds(ground.holds, self.wish.kind, preparer, ground.clock)
            await stack.enter_async_context(running(holding, name=f"holds of {name}"))
            telling = tell_again(ground.client, self._is_ours, name, preparer, status, ground.clock)
            await stack.enter_async_context(running(telling, name=f"status of claims of {name}"))
            await stack.enter_async_context(self.driver)
            try:
                yield
            finally:
                self.driver = None

    async def _take_leftovers(self, preparer: Preparer) -> None:
        """What cannot be taken away is in use, or will be asked for again; it keeps nobody from starting."""
        driver, ground = self.wish.driver, self._ground
        if not isinstance(driver, HasLeftovers):
            return
        try:
            changes = await ground.threads.run(
                lambda: driver.leftovers(ground.root, preparer.held),
                doing=f"look for what is left of claims of {self.wish.name}",
                seconds=_LEFTOVER_SECONDS,
            )
        except Error as error:
            _log.warning("leftovers are not looked for", driver=self.wish.name, error=str(error))
            return
        for change in changes:
            try:
                await ground.undo([change])
            except Error as error:
                _log.warning("left over", what=change.describe(), error=str(error))

    @property
    def _data_dir(self) -> Path:
        return self._ground.kubelet_dir / "plugins" / self.wish.name

    def _options(self) -> PrepareOptions:
        ground = self._ground
        return PrepareOptions(
            driver=self.wish.name,
            pool=ground.node_name,
            data_dir=self._data_dir,
            cdi_dir=ground.cdi_dir,
            boot_id=ground.boot_id,
            metadata_versions=KNOWN if self.wish.metadata else (),
        )

    def _around(self) -> Surroundings:
        ground = self._ground
        return Surroundings(
            driver=lambda: self.wish.driver,
            find=self._find,
            attributes=self._attributes,
            carry_out=ground.carry_out,
            undo=ground.undo,
            door=ground.holds.claim_door(self.wish.kind),
            threads=Threads(),  # of its own: hung changes of the host must not hold up the checkpoint
            clock=ground.clock,
            lost=self._lost,
            reached=ground.reached,
        )

    def _mine(self, inventory: Inventory) -> Iterable[Device]:
        return (device for device in inventory.devices if device.kind == self.wish.kind)

    def _find(self, name: str) -> Device | None:
        """Also one that is not offered through DRA any more: a claim that has it is prepared again after a restart."""
        inventory = self._ground.devices.current
        if self._seen[0] is not inventory:
            self._seen = inventory, {device_name(one): one for one in self._mine(inventory)}
        return self._seen[1].get(name)

    def _attributes(self, device: Device) -> Mapping[str, DeviceAttribute]:
        shown = pool_devices([device], self.wish.name).items
        return shown[0].attributes if shown else {}

    async def _publish(self, publisher: SlicePublisher) -> NoReturn:
        shown = self._ground.shown
        while True:
            inventory = shown.current
            publisher.want(self._contents(inventory))
            await shown.wait_newer(inventory.generation)

    def _contents(self, inventory: Inventory) -> PoolContents:
        found = pool_devices(self._mine(inventory), self.wish.name)
        self._problems = tell_problems(self._problems, found.problems)
        return PoolContents(found.items, inventory.counters.get(self.wish.kind, ()))

    async def _look_up(self, ref: ClaimRef) -> ClaimState:
        try:
            claim = await self._ground.client.get(RESOURCE_CLAIMS, ref.name, namespace=ref.namespace)
        except NotFoundError:
            return ClaimState.GONE
        if claim.metadata.uid != ref.uid:
            return ClaimState.GONE
        return ClaimState.ALLOCATED if self._is_ours(claim) else ClaimState.UNALLOCATED

    def _lost(self, set_aside: SetAside) -> None:
        self._is_lost.set()
        self._ground.events.tell_node(Reason.CHECKPOINT_RESET, f"driver {self.wish.name}: {set_aside}")

    async def _rebuild(self, preparer: Preparer) -> NoReturn:
        """Whenever the checkpoint was lost: claims that are allocated to us may be in use."""
        while True:
            await self._is_lost.wait()
            self._is_lost.clear()
            try:
                claims = await self._ground.client.list(RESOURCE_CLAIMS)
                await preparer.recovery.rebuild(claim for claim in claims.items if self._is_ours(claim))
            except Error as error:
                _log.warning("claims of a lost checkpoint are not known yet", error=str(error))
                self._is_lost.set()
                await self._ground.clock.sleep(_AGAIN)

    def _is_ours(self, claim: ResourceClaim) -> bool:
        allocation = claim.status.allocation
        ours = (self.wish.name, self._ground.node_name)
        results = () if allocation is None else allocation.devices.results
        return any((one.driver, one.pool) == ours for one in results)
