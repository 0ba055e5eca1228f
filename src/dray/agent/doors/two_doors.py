"""One inventory, two doors: the ledger, the feed of each door, and the loops that keep them true, put together.

The order at start: open, look at the machine, `begin`, and only then serve plugins and drivers; each driver restores the
holds of the claims that it has on disk before it serves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from dray.agent.config import Served
from dray.agent.doors.holders import AllocatedClaims, KubeletLooks, LookPace, Pods
from dray.agent.own_kinds import OwnKind
from dray.client.client import Client
from dray.dra.in_use import names_in_use
from dray.dra.names import driver_name
from dray.dra.parcels import ClaimRef
from dray.dra.register import PLUGINS
from dray.drivers.contract import Device, Driver
from dray.inventory.door_feeds import DoorFeeds
from dray.inventory.doors import Offered
from dray.inventory.holds import Holds
from dray.inventory.inventory import InventoryFeed
from dray.inventory.ledger import Door
from dray.runtime.clock import Clock
from dray.runtime.tasks import single
from dray.runtime.threads import Threads


@dataclass(frozen=True, slots=True)
class DoorPlaces:
    """Where the ledger is, and where the kubelet is asked."""

    state_dir: Path
    kubelet_dir: Path
    device_plugin_dir: Path


@dataclass
class TwoDoors:
    """`holds.giving` and `feeds.plugin` are for the plugins, `claim_door` and `feeds.dra` for the drivers."""

    holds: Holds
    feeds: DoorFeeds
    looks: KubeletLooks
    feed: InventoryFeed
    clock: Clock
    served: Served = field(default_factory=Served)
    own: Mapping[str, OwnKind] = field(default_factory=dict)
    """What the program brings along, by kind."""
    has_dra: bool = True
    plugins: Path | None = None
    """Where drivers note what they have prepared."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Of kinds that claims have devices of: the driver that prepared them, whatever the configuration says by now."""
    claims: AllocatedClaims | None = None
    """Where there is an API server."""

    def want(self, served: Served) -> None:
        """Offer it like this from now on. A driver gets another name when its claims are given back: call it again then."""
        self.served = served
        claims = {hold.uid for hold in self.holds.current.holds if hold.door is Door.DRA}
        self.names = names_in_use(self.plugins, claims) if self.plugins is not None else {}
        self.feeds.want(self.door_of, self.driver_of)
        self.looks.wake()

    def door_of(self, kind: str, resource: str) -> Offered:
        """How a device is offered; through DRA only where there is an API server."""
        own = self.own.get(kind)
        wanted = self.served.door_of(kind, resource) if own is None else own.doors
        return wanted if self.has_dra or wanted is not Offered.BOTH else Offered.PLUGIN

    def driver_of(self, kind: str) -> str:
        """The name of the DRA driver of a kind."""
        own = self.own.get(kind)
        return self.names.get(kind, driver_name(kind, self.served.domain)) if own is None else own.name

    @property
    def is_renaming(self) -> bool:
        """Whether a driver has not the name that the configuration says."""
        domain = self.served.domain
        return any(
            name != driver_name(kind, domain) for kind, name in self.names.items() if kind not in self.own
        )

    def plugin_resources(self, drivers: Mapping[str, Driver]) -> frozenset[str]:
        """Those of these resources that are offered as device plugins."""
        return frozenset(
            resource
            for resource, driver in drivers.items()
            if self.door_of(driver.kind, resource).has(Door.PLUGIN)
        )

    def dra_kinds(self, drivers: Sequence[Driver], resources: Mapping[str, Driver]) -> frozenset[str]:
        """The kinds that are offered through DRA, all or some of their devices."""
        asked = {(driver.kind, "") for driver in drivers}
        asked |= {(driver.kind, resource) for resource, driver in resources.items()}
        return frozenset(kind for kind, resource in asked if self.door_of(kind, resource).has(Door.DRA))

    def claims_of(self, device: Device) -> Iterator[tuple[ClaimRef, Pods]]:
        """The claims that have a device or a share of it, sorted, with the pods they are reserved for."""
        found = set[ClaimRef]()
        for hold in self.holds.current.holds:
            if hold.door is Door.DRA and hold.covers(device):
                namespace, _, name = hold.owner.partition("/")
                found.add(ClaimRef(namespace, name, hold.uid))
        # What many share is in no ledger.
        for claim in self.claims.having(device) if self.claims is not None else ():
            meta = claim.metadata
            found.add(ClaimRef(meta.namespace, meta.name, meta.uid))
        for ref in sorted(found):
            yield ref, self.claims.pods_of(ref.uid) if self.claims is not None else ()

    async def begin(self) -> None:
        """Call once when the machine was looked at, before anybody is served. A kubelet that is away is asked again later."""
        self.feeds.refresh()  # what is offered where decides whether the kubelet must be asked
        await self.looks.look()
        self.feeds.refresh()

    async def run(self) -> NoReturn:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.feeds.run(), name="feeds of the doors")
                group.create_task(self.looks.run(), name="looks at the kubelet")
                await self.holds.run()
        except BaseExceptionGroup as failures:
            raise single(failures) from None

    async def follow_claims(self, client: Client, node: str) -> NoReturn:
        """Beside `run`, where there is an API server. Without one call `holds.allocated(())` once."""
        self.claims = AllocatedClaims(self.holds, client, node, self.feed, self.driver_of, self.clock)
        await self.claims.run()


@contextmanager
def two_doors(
    places: DoorPlaces,
    feed: InventoryFeed,
    clock: Clock,
    *,
    former: Callable[[], Sequence[Device]] = tuple,
    threads: Threads | None = None,
    pace: LookPace | None = None,
    takes_over: bool = False,
    own: Sequence[OwnKind] = (),
    has_dra: bool = True,
) -> Iterator[TwoDoors]:
    """Entered: the ledger is read, and ours alone, or with `takes_over` soon (`Holds`).

    `former` are devices that had other names (`Lookout.former`).
    """
    served = Served()
    with Holds(places.state_dir / "holds", clock, threads, takes_over=takes_over) as holds:
        looks = KubeletLooks(
            holds,
            clock,
            lambda: (*feed.current.devices, *former()),
            kubelet_dir=places.kubelet_dir,
            device_plugin_dir=places.device_plugin_dir,
            pace=pace,
            threads=threads,
        )
        feeds = DoorFeeds(feed, holds, served.door_of, lambda kind: driver_name(kind, served.domain))
        kinds = {one.driver.kind: one for one in own}
        plugins = places.kubelet_dir / PLUGINS
        yield TwoDoors(holds, feeds, looks, feed, clock, own=kinds, has_dra=has_dra, plugins=plugins)
