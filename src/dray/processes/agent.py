"""The node agent: finds the devices of its machine and offers them to the kubelet as device plugins.

configuration → drivers → `Lookout` (looks at the machine) → inventory → `PluginController` (one plugin a resource).
Beside it: cards are split as configured (`CardKeeper`), and metrics are served.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from dray.cdi.edits import ContainerEdits
from dray.deviceplugin.controller import PluginController
from dray.deviceplugin.directory import following
from dray.deviceplugin.held import held_ids
from dray.deviceplugin.leftovers import SocketLedger
from dray.deviceplugin.metrics import PluginMetrics
from dray.deviceplugin.plugin import Offer
from dray.drivers.carry_out import HostWork
from dray.drivers.contract import Device, Driver, Prepared
from dray.drivers.iommufd.passing import Passing
from dray.drivers.naming import socket_name
from dray.hardware.change.executor import Executor
from dray.hardware.host_root import open_host_root
from dray.hardware.mount_namespace import Namespace
from dray.inventory.handouts import Handouts
from dray.inventory.inventory import InventoryFeed
from dray.inventory.looking import Lookout
from dray.inventory.remembered import RememberedDevices
from dray.processes.agent_config import Served
from dray.processes.agent_metrics import AgentMetrics
from dray.processes.card_keeper import CardKeeper
from dray.processes.config_file import ConfigFile
from dray.processes.kinds import Kinds, by_resource, permanent
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.logs import get_log
from dray.runtime.metrics import Metrics, serve_metrics
from dray.runtime.tasks import running, wait_first
from dray.runtime.threads import Threads
from dray.wire.deviceplugin import DIRECTORY

_log = get_log("agent")
_HOST_FROM_A_POD = Path("/proc/1/root")


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What the command line says. `metrics` None: none are served."""

    config: Path
    kubelet_dir: Path = Path("/var/lib/kubelet")
    device_plugin_dir: Path = Path(DIRECTORY)
    state_dir: Path = Path("/var/lib/dray")
    host_root: str = "/"
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_labels_file: Path | None = None
    metrics: tuple[str, int] | None = None


async def run_agent(options: AgentOptions, clock: Clock | None = None) -> None:
    """Until cancelled; then running calls are finished, and the kubelet is told that the devices are gone."""
    sys.setswitchinterval(0.0005)  # a look runs in a thread; an Allocate meanwhile must not wait for it
    config = ConfigFile(options.config, options.node_labels, options.node_labels_file)
    wanted = config.load()
    async with AsyncExitStack() as stack:
        agent = await _assemble(stack, options, config, clock or SystemClock())
        agent.want(wanted)
        await stack.enter_async_context(running(agent.lookout.run(), name="looking"))
        await agent.lookout.wait_looked()
        await stack.enter_async_context(running(agent.cards.run(), name="cards"))
        await stack.enter_async_context(running(agent.offer(), name="offers"))
        await stack.enter_async_context(running(agent.plugins.run(), name="plugins", stop_timeout=15.0))
        _log.info(
            "serving", node_devices=len(agent.feed.current.devices), directory=options.device_plugin_dir
        )
        async for newer in config.follow(agent.clock, wanted):
            agent.want(newer)


@dataclass
class Agent:
    """The parts, and what is wanted of them now. Made by `run_agent`; one event loop."""

    clock: Clock
    kinds: Kinds
    feed: InventoryFeed
    lookout: Lookout
    cards: CardKeeper
    plugins: PluginController
    sockets: SocketLedger
    socket_directory: str
    served: Served = field(default_factory=Served)
    drivers: Mapping[str, Driver] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def want(self, served: Served) -> None:
        """Serve this from now on. What stays as it was is not disturbed."""
        drivers = self.kinds.drivers(served)
        self.served, self.drivers = served, by_resource(served, drivers)
        self.lookout.set_drivers(drivers)
        self.cards.want(served)
        self.changed.set()

    async def offer(self) -> NoReturn:
        """Keep the offers up with the configuration and with what the machine has had since it was in force."""
        had: set[str] = set()
        while True:
            self.changed.clear()
            await self.lookout.wait_looked()
            inventory = self.feed.current
            had = (had | {device.resource for device in inventory.devices}) & self.drivers.keys()
            offers = offers_of(self.drivers, had | permanent(self.served), self.socket_directory)
            await self.sockets.want(offer.socket for offer in offers)
            self.plugins.want(offers)
            await wait_first(self.feed.wait_newer(inventory.generation), self.changed.wait())

    def why_unready(self) -> str:
        """Empty once the kubelet has all that is wanted."""
        if self.plugins.is_initialized:
            return ""
        states = sorted(self.plugins.states().items())
        return "\n".join(f"{resource}: {state}" for resource, state in states) or "starting"


def offers_of(drivers: Mapping[str, Driver], wanted: Collection[str], directory: str) -> tuple[Offer, ...]:
    """An offer for each wanted resource. Sockets are named with all resources in view, so that none changes later."""
    offers: list[Offer] = []
    taken: set[str] = set()
    for resource, driver in sorted(drivers.items()):
        socket = socket_name(driver.kind, resource, directory=directory, taken=taken)
        taken.add(socket)
        if resource in wanted:
            offers.append(Offer(resource, driver, socket))
    return tuple(offers)


async def _assemble(stack: AsyncExitStack, options: AgentOptions, config: ConfigFile, clock: Clock) -> Agent:
    root = open_host_root(options.host_root)
    metrics = Metrics()
    own, plugin_metrics = AgentMetrics(metrics), PluginMetrics(metrics)
    # Inside a container /sys may be read-only; the host's own is reached only where that is the host we serve.
    namespace = Namespace() if root.path == _HOST_FROM_A_POD else None
    executor = Executor(root.path, audit=own.audit, namespace=namespace)
    feed, handouts = InventoryFeed(), Handouts(clock)
    threads = Threads()
    passing = await stack.enter_async_context(Passing(root, executor, clock, threads))
    work = HostWork(root, executor, threads, passing)

    async def carry_out(prepared: Prepared) -> ContainerEdits:
        handouts.give([node.host_path for node in prepared.edits.device_nodes])
        return await work(prepared)

    remembered = stack.enter_context(RememberedDevices(options.state_dir / "devices", clock=clock))

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
        former=lambda: lookout.former,
        kubelet_dir=options.kubelet_dir,
        on_change=lookout.wake,
    )
    directory = await stack.enter_async_context(following(options.device_plugin_dir))
    plugins = PluginController(
        directory, feed, carry_out, clock, kubelet_dir=options.kubelet_dir, metrics=plugin_metrics
    )
    ledger = SocketLedger(options.state_dir / "sockets", options.device_plugin_dir, clock=clock)
    sockets = stack.enter_context(ledger)
    agent = Agent(clock, Kinds(clock), feed, lookout, cards, plugins, sockets, str(options.device_plugin_dir))
    own.follow(feed, lookout, config)
    if options.metrics is not None:
        await stack.enter_async_context(_serving_metrics(metrics, options.metrics, agent))
    return agent


@asynccontextmanager
async def _serving_metrics(metrics: Metrics, address: tuple[str, int], agent: Agent) -> AsyncIterator[None]:
    host, port = address
    async with serve_metrics(metrics, host=host, port=port, checks={"/readyz": agent.why_unready}) as chosen:
        _log.info("metrics", address=f"http://{host}:{chosen}/metrics")
        yield
