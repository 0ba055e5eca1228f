"""The loops that feed the ledger of holders (`inventory/holds.py`), and the feed of each door.

Device plugins are never told that a container has ended: the kubelet is asked for it. Claims are followed at the API
server, from the moment when they are allocated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from dray.api.kinds import PODS, RESOURCE_CLAIMS, Resource
from dray.api.meta import Model, ObjectMeta
from dray.api.resource.claim_status import DeviceRequestAllocationResult
from dray.client.client import Client
from dray.client.informer import Informer
from dray.deviceplugin.held import holders
from dray.deviceplugin.kubelet_notes import noted_devices
from dray.dra.names import device_name
from dray.drivers.contract import Device
from dray.errors import UnavailableError
from dray.inventory.door_feeds import DriverOf
from dray.inventory.holds import Holds
from dray.inventory.inventory import Inventory, InventoryFeed
from dray.inventory.ledger import ClaimDevices, KubeletLook
from dray.runtime.clock import Clock
from dray.runtime.tasks import wait_first
from dray.runtime.threads import Threads
from dray.wire.podresources import SOCKET

_NOTES_SECONDS: Final = 5.0
Pods = tuple[tuple[str, str], ...]
"""Name and uid of each."""


@dataclass(frozen=True, slots=True)
class LookPace:
    """Seconds between two looks. `first` after something was given, then longer and longer up to `most`, until the kubelet
    has told of it; `rest` while pods have something that claims could get; `idle` else."""

    first: float = 0.25
    most: float = 5.0
    rest: float = 5.0
    idle: float = 60.0

    def quick(self, looks: int) -> float:
        """While something is unsettled since that many looks."""
        return min(self.first * 2.0 ** min(looks, 16), self.most)


class KubeletLooks:
    """Asks the kubelet who has what through plugins. One task runs `run`; `look` may be called before, at start.

    `devices` gives all that there are now, and those that had other names (`Lookout.former`).
    """

    def __init__(
        self,
        holds: Holds,
        clock: Clock,
        devices: Callable[[], Iterable[Device]],
        *,
        kubelet_dir: Path,
        device_plugin_dir: Path,
        pace: LookPace | None = None,
        threads: Threads | None = None,
    ) -> None:
        self._holds = holds
        self._clock = clock
        self._devices = devices
        self._kubelet_dir = kubelet_dir
        self._device_plugin_dir = device_plugin_dir
        self._pace = pace or LookPace()
        self._threads = threads or Threads(1)
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Look now: what is offered has changed, or somebody was refused."""
        self._woken.set()

    async def look(self) -> bool:
        """Ask once; whether the kubelet answered. Where it did not, nothing is dropped; without a socket it is not asked."""
        at, noted = self._clock.monotonic(), await self._noted()
        missing = _missing(self._kubelet_dir / SOCKET)
        self._holds.lacks_socket(missing)
        listed = None if missing else await holders(self._kubelet_dir)
        if listed is None:
            return False
        self._holds.looked(KubeletLook(at, listed, noted), self._devices())
        return True

    async def run(self) -> NoReturn:
        """Until cancelled."""
        quick = 0
        while True:
            self._woken.clear()
            await self.look()
            if self._holds.is_waiting:
                await wait_first(self._woken.wait(), self._clock.sleep(self._pace.quick(quick)))
                quick += 1
            else:
                quick = 0
                pause = self._pace.rest if self._holds.is_lent else self._pace.idle
                await wait_first(self._woken.wait(), self._wait_given(), self._clock.sleep(pause))

    async def _noted(self) -> frozenset[tuple[str, str]]:
        """The kubelet's own notes, where they are needed."""
        if not self._holds.needs_notes:
            return frozenset()
        try:
            return await self._threads.run(
                lambda: noted_devices(self._device_plugin_dir, self._kubelet_dir),
                doing="read the kubelet's notes",
                seconds=_NOTES_SECONDS,
                alone_on=("kubelet notes",),
            )
        except UnavailableError:
            return frozenset()

    async def _wait_given(self) -> None:
        held = self._holds.current
        while not self._holds.is_waiting:
            held = await self._holds.wait_newer(held.generation)


def _missing(socket: Path) -> Path | None:
    return None if socket.exists() else socket


class _Results(Model, frozen=True, kw_only=True):
    results: tuple[DeviceRequestAllocationResult, ...] = ()


class _Allocation(Model, frozen=True, kw_only=True):
    devices: _Results = _Results()


class _User(Model, frozen=True, kw_only=True):
    resource: str = ""
    name: str = ""
    uid: str = ""


class _Status(Model, frozen=True, kw_only=True):
    allocation: _Allocation | None = None
    reserved_for: tuple[_User, ...] = ()


class ClaimPicture(Model, frozen=True, kw_only=True):
    """Of a claim what is needed here: all claims of the cluster are kept like this."""

    metadata: ObjectMeta = ObjectMeta()
    status: _Status = _Status()

    @property
    def results(self) -> tuple[DeviceRequestAllocationResult, ...]:
        """What it was given; nothing while it is not allocated."""
        return () if self.status.allocation is None else self.status.allocation.devices.results

    @property
    def pods(self) -> Pods:
        """Those it is reserved for."""
        return tuple((one.name, one.uid) for one in self.status.reserved_for if one.resource == PODS.plural)


_CLAIMS: Final = Resource(
    RESOURCE_CLAIMS.group,
    RESOURCE_CLAIMS.version,
    RESOURCE_CLAIMS.plural,
    RESOURCE_CLAIMS.kind,
    True,
    ClaimPicture,
    has_status=True,
)


class AllocatedClaims:
    """Follows the claims that have devices of this node, whether they are prepared or not.

    `driver_of` names the DRA driver of a kind.
    """

    def __init__(
        self, holds: Holds, client: Client, node: str, feed: InventoryFeed, driver_of: DriverOf, clock: Clock
    ) -> None:
        self._holds = holds
        self._client = client
        self._node = node
        self._feed = feed
        self._driver_of = driver_of
        self._clock = clock
        self._claims: Mapping[str, ClaimPicture] = {}

    def pods_of(self, uid: str) -> Pods:
        """The pods that a claim with devices of this node is reserved for, as far as it is known."""
        return self._claims[uid].pods if uid in self._claims else ()

    def having(self, device: Device) -> Iterator[ClaimPicture]:
        """The claims that were given it, alone or with others, but not those that only look on (adminAccess)."""
        wanted = (self._driver_of(device.kind), self._node, device_name(device), False)
        for claim in self._claims.values():
            given = {(one.driver, one.pool, one.device, bool(one.admin_access)) for one in claim.results}
            if wanted in given:
                yield claim

    async def run(self) -> NoReturn:
        """Until cancelled. While the API server is away, what was known stays."""
        async with Informer(self._client, _CLAIMS, indexers={"pool": _pools}, clock=self._clock) as informer:
            while True:
                generation, inventory = informer.generation, self._feed.current
                claims = informer.indexed("pool", self._node)
                self._claims = {claim.metadata.uid: claim for claim in claims}
                self._tell(self._claims.values(), inventory)
                await wait_first(
                    informer.wait_changed(generation), self._feed.wait_newer(inventory.generation)
                )

    def _tell(self, claims: Iterable[ClaimPicture], inventory: Inventory) -> None:
        held = self._holds.current.holds
        kinds = {device.kind for device in inventory.devices} | {hold.kind for hold in held}
        drivers = frozenset(map(self._driver_of, kinds))
        names = {(self._driver_of(one.kind), device_name(one)): one for one in inventory.devices}
        found = (devices_of(claim, names, drivers, self._node) for claim in claims)
        self._holds.allocated([claim for claim in found if claim is not None])


def devices_of(
    claim: ClaimPicture, names: Mapping[tuple[str, str], Device], drivers: Collection[str], node: str
) -> ClaimDevices | None:
    """The devices that a claim has from these drivers in the node's pool; None without any. With adminAccess it has none.

    `names` are driver and name in the pool.
    """
    ours = [
        (result.driver, result.device)
        for result in claim.results
        if result.pool == node and not result.admin_access and result.driver in drivers
    ]
    if not ours:
        return None
    meta, known = claim.metadata, tuple(names[name] for name in dict.fromkeys(ours) if name in names)
    return ClaimDevices(
        meta.namespace, meta.name, meta.uid, known, complete=all(name in names for name in ours)
    )


def _pools(claim: ClaimPicture) -> Iterable[str]:
    return {result.pool for result in claim.results}
