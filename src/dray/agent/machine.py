"""The agent's side towards its machine: looks, changes, and who holds what; below both doors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.agent.card_keeper import CardKeeper
from dray.agent.doors.two_doors import DoorPlaces, TwoDoors, two_doors
from dray.agent.options import AgentOptions
from dray.agent.own_kinds import OwnKind
from dray.cdi.edits import ContainerEdits
from dray.deviceplugin.held import held_ids
from dray.drivers.carry_out import HostWork
from dray.drivers.contract import Device, Prepared
from dray.drivers.iommufd.passing import Passing
from dray.errors import Error
from dray.hardware.change import HostChange
from dray.hardware.change.executor import Audit, Executor
from dray.hardware.host_root import HostRoot, open_host_root
from dray.hardware.mount_namespace import Namespace
from dray.inventory.handouts import Handouts
from dray.inventory.inventory import InventoryFeed
from dray.inventory.ledger import Door
from dray.inventory.looking import Lookout
from dray.inventory.remembered import RememberedDevices
from dray.runtime.clock import Clock
from dray.runtime.threads import Threads

_HOST_FROM_A_POD: Final = Path("/proc/1/root")
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Machine:
    """Made by `open_machine`; one event loop."""

    root: HostRoot
    feed: InventoryFeed
    lookout: Lookout
    cards: CardKeeper
    doors: TwoDoors
    handouts: Handouts
    work: HostWork
    threads: Threads

    async def carry_out(self, prepared: Prepared) -> ContainerEdits:
        """What a container needs done before it has its devices."""
        self.handouts.give([node.host_path for node in prepared.edits.device_nodes])
        return await self.work(prepared)

    async def undo(self, changes: Sequence[HostChange]) -> None:
        """What is to be done when a claim is given back."""
        await self.work.release(changes)

    @property
    def boot_id(self) -> str:
        """Another one after every boot; empty where the machine does not tell."""
        try:
            return self.root.read_text(_BOOT_ID).strip()
        except Error:
            return ""


async def open_machine(
    stack: AsyncExitStack, options: AgentOptions, clock: Clock, audit: Audit, own: Sequence[OwnKind]
) -> Machine:
    """Ready when this returns, until the stack is left; nothing was looked at yet.

    ConflictError where another agent has the state directory.
    """
    root = open_host_root(options.host_root)
    # Inside a container /sys may be read-only; the host's own is reached only where that is the host we serve.
    namespace = Namespace() if root.path == _HOST_FROM_A_POD else None
    executor = Executor(root.path, audit=audit, namespace=namespace)
    feed, handouts, threads = InventoryFeed(), Handouts(clock), Threads()
    passing = await stack.enter_async_context(Passing(root, executor, clock, threads))
    work = HostWork(root, executor, threads, passing)
    remembered = stack.enter_context(
        RememberedDevices(options.state_dir / "devices", clock=clock, takes_over=bool(options.instance))
    )
    doors = stack.enter_context(
        two_doors(
            DoorPlaces(options.state_dir, options.kubelet_dir, options.device_plugin_dir),
            feed,
            clock,
            former=lambda: lookout.former,
            threads=threads,
            takes_over=bool(options.instance),
            own=own,
            has_dra=options.access is not None,
        )
    )
    holds = doors.holds

    async def after_look(devices: Sequence[Device]) -> None:
        await work.upkeep(devices)
        cards.wake()

    async def still_held(devices: Sequence[Device]) -> Collection[Device]:
        ids = await held_ids(options.kubelet_dir)
        return [
            device
            for device in devices
            if ids is None
            or not ids.get(device.resource, frozenset()).isdisjoint(device.share_ids)
            or handouts.is_new(device.watch)
            or holds.current.has(device, Door.DRA)
        ]

    lookout = Lookout(
        root,
        feed,
        clock,
        remembered=remembered,
        after_look=after_look,
        still_held=still_held,
        threads=threads,
    )
    cards = CardKeeper(
        root,
        options.state_dir,
        executor.apply,
        clock,
        feed=feed,
        handouts=handouts,
        holds=holds,
        former=lambda: lookout.former,
        kubelet_dir=options.kubelet_dir,
        on_change=lookout.wake,
    )
    return Machine(root, feed, lookout, cards, doors, handouts, work, threads)
