"""The node agent: finds the devices of its machine and offers them to the kubelet, as device plugins and through DRA.

configuration (a file, or an object of the API server) → drivers → `Lookout` (looks at the machine) → inventory → a view
for each door, which leaves out what the other gave away → `PluginController` (one plugin a resource) and `DraSide` (one
driver a kind). Beside it: cards are split as configured (`CardKeeper`), and metrics are served.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from dray.agent.classes import DeviceClasses, classes_for
from dray.agent.cluster import AgentCluster, agent_cluster
from dray.agent.config import Served
from dray.agent.doors.kind import DraGround, KindWish
from dray.agent.doors.side import DraSide
from dray.agent.health_events import tell_health
from dray.agent.kinds import Kinds, by_device, by_resource, permanent
from dray.agent.machine import Machine, open_machine
from dray.agent.metrics import AgentMetrics
from dray.agent.options import AgentOptions
from dray.agent.own_kinds import OwnKind
from dray.client.client import Client
from dray.deviceplugin.controller import PluginController
from dray.deviceplugin.directory import following
from dray.deviceplugin.leftovers import SocketLedger
from dray.deviceplugin.metrics import PluginMetrics
from dray.deviceplugin.plugin import Offer
from dray.dra.metrics import DraMetrics
from dray.drivers.contract import Driver
from dray.drivers.naming import socket_name
from dray.inventory.doors import Offered
from dray.inventory.ledger import Door
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.garbage import settle
from dray.runtime.logs import get_log
from dray.runtime.metrics import Metrics, serve_metrics
from dray.runtime.pages import Readers
from dray.runtime.tasks import running, wait_first

__all__ = ["AgentOptions", "run_agent"]

_log = get_log("agent")
_RENAME_SECONDS: Final = 5.0


async def run_agent(
    options: AgentOptions,
    clock: Clock | None = None,
    *,
    own: Sequence[OwnKind] = (),
    serving: Callable[[Agent], None] = lambda _: None,
) -> None:
    """Until cancelled; then running calls are finished, and the kubelet is told that the devices are gone.

    `own` are kinds that the program brings along, beside those of the configuration. `serving` is told the agent once it
    has looked at the machine and begins to register.
    """
    sys.setswitchinterval(0.0005)  # a look runs in a thread; an Allocate meanwhile must not wait for it
    clock = clock or SystemClock()
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(agent_cluster(options.cluster, clock))
        wanted = cluster.config.load()
        agent = await _assemble(stack, options, cluster, clock, own)
        agent.want(wanted)
        machine = agent.machine
        await stack.enter_async_context(running(machine.lookout.run(), name="looking"))
        await machine.lookout.wait_looked()
        await machine.doors.begin()
        for name, task in _tasks(agent, cluster):
            await stack.enter_async_context(running(task, name=name, stop_timeout=50.0))
        settle()
        _log.info(
            "serving",
            node_devices=len(agent.machine.feed.current.devices),
            directory=options.device_plugin_dir,
        )
        serving(agent)
        async for newer in cluster.config.follow(clock, wanted):
            agent.want(newer)


def _tasks(agent: Agent, cluster: AgentCluster) -> Iterator[tuple[str, Coroutine[Any, Any, NoReturn]]]:
    """All but the looks, in the order in which they start; they end the other way round."""
    machine = agent.machine
    yield "doors", machine.doors.run()
    yield "cards", machine.cards.run()
    if cluster.client is not None and cluster.node is not None:
        yield "claims", machine.doors.follow_claims(cluster.client, cluster.node.name)
    else:
        machine.doors.holds.allocated(())
    if agent.classes is not None and agent.dra is not None:
        yield "health", tell_health(machine.feed, cluster.events, machine.doors.claims_of)
        yield "classes", agent.classes.run()
        yield "DRA", agent.dra.run()
        yield "names", agent.rename()
    yield "offers", agent.offer()
    yield "plugins", agent.plugins.run()


@dataclass
class Agent:
    """The parts, and what is wanted of them now. Made by `run_agent`; one event loop.

    `dra` and `classes` are None without an API server: then there are device plugins alone.
    """

    machine: Machine
    kinds: Kinds
    plugins: PluginController
    sockets: SocketLedger
    socket_directory: str
    dra: DraSide | None = None
    classes: DeviceClasses | None = None
    served: Served = field(default_factory=Served)
    drivers: Sequence[Driver] = ()
    resources: Mapping[str, Driver] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def want(self, served: Served) -> None:
        """Serve this from now on. What stays as it was is not disturbed."""
        own = self.machine.doors.own.values()
        drivers = (*self.kinds.drivers(served), *(one.driver for one in own))
        self.served, self.drivers = served, drivers
        self.resources = {**by_resource(served, drivers), **_resources(own)}
        self.machine.lookout.set_drivers(drivers)
        self.machine.cards.want(served)
        self.machine.doors.want(served)
        self._want_dra(drivers)
        self.changed.set()

    async def offer(self) -> NoReturn:
        """Keep the offers up with the configuration and with what the machine has had since it was in force."""
        had: set[str] = set()
        doors = self.machine.doors
        feed = doors.feeds.plugin
        while True:
            self.changed.clear()
            await self.machine.lookout.wait_looked()
            inventory = feed.current
            resources = {**self.resources, **by_device(self.drivers, inventory.devices)}
            had = (had | {device.resource for device in inventory.devices}) & resources.keys()
            always = permanent(self.served) | _resources(doors.own.values()).keys()
            wanted = (had | always) & doors.plugin_resources(resources)
            offers = offers_of(resources, wanted, self.socket_directory)
            await self.sockets.want(offer.socket for offer in offers)
            self.plugins.want(offers)
            await wait_first(feed.wait_newer(inventory.generation), self.changed.wait())

    async def rename(self) -> NoReturn:
        """A driver that kept its name because claims had its devices gets that of the configuration when they are gone."""
        doors = self.machine.doors
        while True:
            await doors.holds.wait_newer(doors.holds.current.generation)
            while doors.is_renaming:
                newer = doors.holds.wait_newer(doors.holds.current.generation)
                await wait_first(newer, doors.clock.sleep(_RENAME_SECONDS))
                self.want(self.served)

    def why_unready(self) -> str:
        """Empty once the kubelet has all that is wanted; from the process before us, as long as that one serves plugins: in
        a rolling update it is told to end when we are ready.
        """
        is_next = not self.machine.doors.holds.is_ours and self.plugins.is_in_line
        has_plugins = self.plugins.is_initialized or is_next
        if has_plugins and (self.dra is None or self.dra.is_initialized):
            return ""
        plugins = {name: str(state) for name, state in self.plugins.states().items()}
        drivers = {} if self.dra is None else {name: str(one) for name, one in self.dra.states().items()}
        return (
            "\n".join(f"{name}: {state}" for name, state in sorted((plugins | drivers).items())) or "starting"
        )

    def _want_dra(self, drivers: Sequence[Driver]) -> None:
        doors, settings = self.machine.doors, self.served.dra
        kinds = doors.dra_kinds(drivers, self.resources)
        if self.dra is None or self.classes is None:
            if kinds:
                _log.warning("no API server: not offered through DRA", kinds=",".join(sorted(kinds)))
            return
        wishes = {
            driver.kind: KindWish(driver.kind, doors.driver_of(driver.kind), driver, settings.metadata)
            for driver in reversed(drivers)
        }
        for kind in sorted(doors.holds.current.kinds(Door.DRA) - wishes.keys()):
            wishes[kind] = KindWish(kind, doors.driver_of(kind), self.kinds.left(kind), settings.metadata)
        self.dra.want(
            [wish for kind, wish in wishes.items() if kind in kinds],
            [wish for kind, wish in wishes.items() if kind not in kinds],
        )
        names = {kind: doors.driver_of(kind) for kind in sorted(kinds)}
        moved = [
            (names[driver.kind], resource)
            for resource, driver in sorted(self.resources.items())
            if doors.door_of(driver.kind, resource) is Offered.DRA
        ]
        self.classes.want(classes_for(names.values(), moved) if settings.create_classes else ())


def _resources(own: Iterable[OwnKind]) -> dict[str, Driver]:
    return {resource: one.driver for one in own for resource in one.resources}


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


async def _assemble(
    stack: AsyncExitStack, options: AgentOptions, cluster: AgentCluster, clock: Clock, own: Sequence[OwnKind]
) -> Agent:
    metrics = Metrics()
    agent_metrics = AgentMetrics(metrics)
    machine = await open_machine(stack, options, clock, agent_metrics.audit, own)
    directory = await stack.enter_async_context(following(options.device_plugin_dir))
    plugins = PluginController(
        directory,
        machine.doors.feeds.plugin,
        machine.carry_out,
        clock,
        kubelet_dir=options.kubelet_dir,
        metrics=PluginMetrics(metrics),
        giving=machine.doors.holds.giving,
    )
    takes_over = bool(options.instance)
    path = options.state_dir / "sockets"
    ledger = SocketLedger(path, options.device_plugin_dir, clock=clock, takes_over=takes_over)
    sockets = stack.enter_context(ledger)
    agent = Agent(machine, Kinds(clock), plugins, sockets, str(options.device_plugin_dir))
    if cluster.client is not None and cluster.node is not None:
        agent.dra = DraSide(_ground(machine, options, cluster.client, cluster, clock, metrics))
        agent.classes = DeviceClasses(cluster.client, clock)
    agent_metrics.follow(machine.feed, machine.lookout, cluster.config)
    if options.metrics is not None:
        await stack.enter_async_context(
            _serving_metrics(metrics, options.metrics, agent, options.metrics_readers)
        )
    return agent


def _ground(
    machine: Machine,
    options: AgentOptions,
    client: Client,
    cluster: AgentCluster,
    clock: Clock,
    metrics: Metrics,
) -> DraGround:
    return DraGround(
        client=client,
        node_name=options.cluster.node_name,
        kubelet_dir=options.kubelet_dir,
        cdi_dir=options.cdi_dir,
        instance=options.instance,
        boot_id=machine.boot_id,
        devices=machine.feed,
        shown=machine.doors.feeds.dra,
        holds=machine.doors.holds,
        carry_out=machine.carry_out,
        undo=machine.undo,
        root=machine.root,
        threads=machine.threads,
        clock=clock,
        events=cluster.events,
        metrics=DraMetrics(metrics),
        reached=options.reached,
    )


@asynccontextmanager
async def _serving_metrics(
    metrics: Metrics, address: tuple[str, int], agent: Agent, readers: Readers
) -> AsyncIterator[None]:
    (host, port), checks = address, {"/readyz": agent.why_unready}
    async with serve_metrics(metrics, host=host, port=port, checks=checks, readers=readers) as chosen:
        _log.info("metrics", address=f"http://{host}:{chosen}/metrics")
        yield
