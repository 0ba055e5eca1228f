"""Keeps cards split as configured: mediated devices made and removed, vGPU profiles written, never under a workload."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from dray.agent.config import Served
from dray.deviceplugin.held import held_ids
from dray.drivers.contract import Device
from dray.drivers.failures import Apply
from dray.drivers.mdev.manager import MdevManager
from dray.drivers.mdev.situation import Wishes
from dray.drivers.pci.profile_steps import VgpuProfiles
from dray.drivers.pci.profiles import ProfileRule
from dray.drivers.stepping import Step
from dray.hardware.host_root import HostRoot
from dray.inventory.handouts import Handouts
from dray.inventory.holds import Holds
from dray.inventory.inventory import InventoryFeed
from dray.inventory.ledger import Door
from dray.runtime.clock import Clock
from dray.runtime.tasks import wait_first
from dray.runtime.threads import Threads

_STEP_SECONDS = 600.0
_REST = 300.0


class CardKeeper:
    """One task runs `run`; `want` and `wake` may be called at any time. `on_change` is called when the host was changed.

    A device counts as held when the kubelet or the ledger says so, or when it was handed out a moment ago; the executor looks for
    processes that have it open besides.
    """

    def __init__(
        self,
        root: HostRoot,
        state_dir: Path,
        apply: Apply,
        clock: Clock,
        *,
        feed: InventoryFeed,
        handouts: Handouts,
        holds: Holds,
        former: Callable[[], Sequence[Device]],
        kubelet_dir: Path,
        on_change: Callable[[], None],
    ) -> None:
        self._mdevs = MdevManager(root, state_dir, apply, clock=clock, may_take=self._may_take)
        self._profiles = VgpuProfiles(root, apply, clock=clock, may_take=self._may_take)
        self._clock = clock
        self._feed = feed
        self._handouts = handouts
        self._holds = holds
        self._former = former
        self._kubelet_dir = kubelet_dir
        self._on_change = on_change
        self._due = asyncio.Event()
        self._wishes = Wishes(managed=False)
        self._rules: tuple[ProfileRule, ...] = ()

    def want(self, served: Served) -> None:
        """Split cards like this from now on."""
        types = served.mdev_types
        self._wishes = Wishes(types.desired, frozenset(types.external), managed=types.managed)
        self._rules = tuple(
            ProfileRule(one.profile, one.selector, one.address) for one in served.vgpu_profiles
        )
        self.wake()

    def wake(self) -> None:
        """Something on the host may have changed."""
        self._due.set()

    async def run(self) -> NoReturn:
        """Until cancelled. A process before us knows what it gave away a moment ago: until its end the cards are its."""
        threads = Threads(1)
        await self._holds.wait_ours()
        with self._mdevs:
            while True:
                await self._due.wait()
                self._due.clear()
                seconds = await self._step(threads)
                if seconds is not None:
                    await wait_first(self._due.wait(), self._clock.sleep(seconds))
                    self._due.set()

    async def _step(self, threads: Threads) -> float | None:
        if not self._wishes.managed and not self._rules:
            return None
        held = self._held(await held_ids(self._kubelet_dir))
        steps = await threads.run(lambda: self._take_steps(held), doing="split cards", seconds=_STEP_SECONDS)
        if any(step.changed for step in steps):
            self._on_change()
        return min((step.again_in for step in steps if step.again_in is not None), default=_REST)

    def _take_steps(self, held: frozenset[str]) -> tuple[Step, Step]:
        with self._handouts.taking():
            return self._mdevs.step(self._wishes, held), self._profiles.step(self._rules, held)

    def _held(self, ids: Mapping[str, frozenset[str]] | None) -> frozenset[str]:
        """The UUIDs and PCI addresses of what containers hold; all, where the kubelet does not say."""
        return frozenset(
            address
            for device in self._devices()
            if ids is None
            or not ids.get(device.resource, frozenset()).isdisjoint(device.share_ids)
            or self._holds.current.has(device, Door.DRA)
            for address in device.addresses
        )

    def _devices(self) -> tuple[Device, ...]:
        """Also those that containers hold under names which the configuration does not have any more."""
        return (*self._feed.current.devices, *self._former())

    def _may_take(self, address: str) -> bool:
        devices = [device for device in self._devices() if address in device.addresses]
        return self._handouts.take([node for device in devices for node in device.watch])
