"""One feed for each door, made of the machine's inventory and of who holds what."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from dray.drivers.contract import Device
from dray.inventory.doors import DoorOf, dra_view, offers, plugin_view, ways
from dray.inventory.holds import Holds
from dray.inventory.inventory import Inventory, InventoryFeed
from dray.inventory.ledger import Door
from dray.runtime.tasks import wait_first

DriverOf = Callable[[str], str]
"""A kind, to the name of its DRA driver."""


class DoorFeeds:
    """`plugin` and `dra` follow `feed` and `holds` while `run` runs. `want` says what is offered where, at any time."""

    def __init__(self, feed: InventoryFeed, holds: Holds, door_of: DoorOf, driver_of: DriverOf) -> None:
        self._feed = feed
        self._holds = holds
        self._door_of = door_of
        self._driver_of = driver_of
        self.plugin = InventoryFeed()
        self.dra = InventoryFeed()
        self._offered: dict[Door, tuple[Device, ...]] = {}
        self._seen: Inventory | None = None

    def want(self, door_of: DoorOf, driver_of: DriverOf) -> None:
        """Offer it like this from now on: what moves to another door leaves the first one in the same moment."""
        self._door_of, self._driver_of, self._seen = door_of, driver_of, None
        self.refresh()

    def refresh(self) -> None:
        """Bring both up to date now; call it once before anybody reads them."""
        inventory, holds = self._feed.current, self._holds.current.holds
        if inventory is not self._seen:  # who holds what changes with every claim, what is offered does not
            self._seen, self._offered = inventory, offers(inventory, self._door_of)
            self._holds.contest(ways(self._offered))
        self.plugin.publish(plugin_view(self._offered[Door.PLUGIN], holds))
        self.dra.publish(dra_view(self._offered[Door.DRA], holds, self._driver_of), inventory.counters)

    async def run(self) -> NoReturn:
        """Until cancelled."""
        while True:
            self.refresh()
            await wait_first(
                self._feed.wait_newer(self._feed.current.generation),
                self._holds.wait_newer(self._holds.current.generation),
            )
