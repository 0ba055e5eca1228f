"""The parts of `dray up`, each an async context manager: entered, it works. They share nothing but the API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from msgspec import structs

from dray.agent.options import AgentOptions
from dray.agent.own_kinds import OwnKind
from dray.allocation.profiles import CORRECT
from dray.api.core import Node
from dray.api.kinds import NODES
from dray.client.access import ClusterAccess
from dray.client.client import Client
from dray.controllers import choice
from dray.controllers.metrics import ControllerMetrics
from dray.controllers.pictures import Surroundings
from dray.drivers.sim.profile import SimProfile
from dray.errors import NotFoundError, UnavailableError
from dray.processes.agent import Agent, run_agent
from dray.processes.controllers import ControllersOptions, controllers
from dray.processes.dashboard import ADDRESS as DASHBOARD
from dray.processes.dashboard import DashboardOptions, dashboard
from dray.processes.kubelet import KubeletOptions, run_kubelet
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.metrics import Metrics, serve_metrics
from dray.runtime.pages import ANYBODY, Readers
from dray.runtime.ports import is_port_taken
from dray.runtime.tasks import running
from dray.scheduler import scheduler
from dray.scheduler.claims.settings import Settings
from dray.scheduler.scheduler import SchedulerConfig
from dray.semantics.features import GateSwitches, enabled_gates
from dray.up.choice import free_port
from dray.up.fleet.hollow_fleet import HollowFleet
from dray.up.place import UpPlace

_log = get_log("up")

SCHEDULER: Final = SchedulerConfig(name="default-scheduler", also=("dray",))
"""Pods that name no scheduler have the first of these names by default."""
PATIENCE: Final = 20.0
"""Seconds that the node, and what it offers, may take to be there; after that it is said, and we go on."""
DASHBOARD_PORT: Final = DASHBOARD[1]
_LOOK: Final = 0.05
_AGENT_STOP: Final = 60.0
_TRIES: Final = 10
METRICS: Final = {"agent": 9614, "kubelet": 9615, "controllers": 9616, "scheduler": 9618}
"""The ports that the parts have alone, too."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ground:
    """What all parts stand on. `addresses`: where each serves its metrics, by name, once it was started."""

    place: UpPlace
    kubeconfig: Path
    access: ClusterAccess
    node: str
    host_root: str
    clock: Clock
    metrics_readers: Readers = ANYBODY
    feature_gates: GateSwitches = field(default_factory=dict)
    addresses: dict[str, tuple[str, int]] = field(default_factory=dict)

    def address(self, part: str) -> tuple[str, int]:
        """Where it is to serve its metrics: on its usual port, or one that is free. Asked once, when it starts."""
        self.addresses[part] = ("127.0.0.1", free_port(METRICS[part]))
        return self.addresses[part]

    def client(self) -> Client:
        """A new one: no part waits for the requests of another."""
        return Client(self.access, clock=self.clock)


async def enter_part(stack: AsyncExitStack, start: Callable[[], AbstractAsyncContextManager[T]]) -> T:
    """Enter it. Nobody keeps a port between the look and the use: where another program was faster, one is chosen anew."""
    for _ in range(_TRIES):
        try:
            return await stack.enter_async_context(start())
        except UnavailableError as error:
            if not is_port_taken(error):
                raise
            _log.info("another program took the port, chosen anew", error=str(error))
    return await stack.enter_async_context(start())


@asynccontextmanager
async def controllers_part(ground: Ground) -> AsyncIterator[None]:
    """All of them: nobody else keeps the nodes of this server."""
    gates = enabled_gates(ground.feature_gates)
    options = ControllersOptions(
        kubeconfig=ground.kubeconfig,
        controllers=choice.chosen("*", gates, node_lifecycle=True),
        policies=choice.policies("correct", "", gates),
    )
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(ground.client())
        shown, place = ControllerMetrics(metrics), ground.place.controllers
        around = Surroundings.of(client, ground.clock, shown, state_dir=place)
        await stack.enter_async_context(controllers(around, options))
        await stack.enter_async_context(_served(metrics, ground, "controllers"))
        yield


@asynccontextmanager
async def scheduler_part(ground: Ground) -> AsyncIterator[None]:
    """One scheduler under both names, so that there is one picture of what is free."""
    metrics, ready = Metrics(), asyncio.Event()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(ground.client())
        settings = Settings.of_gates(CORRECT, ground.feature_gates)
        config = replace(SCHEDULER, settings=settings, state_dir=ground.place.scheduler)
        work = scheduler.run(client, config, metrics=metrics, clock=ground.clock, ready=ready.set)
        await stack.enter_async_context(running(work, name="scheduler"))
        await ready.wait()
        await stack.enter_async_context(_served(metrics, ground, "scheduler"))
        yield


@asynccontextmanager
async def kubelet_part(ground: Ground, runtime: str) -> AsyncIterator[None]:
    """Entered: plugins may register, and the Node is Ready or has had its time."""
    ready = asyncio.Event()
    options = replace(
        kubelet_options(ground.place, runtime),
        node_name=ground.node,
        host_root=ground.host_root,
        kubeconfig=ground.kubeconfig,
        metrics=ground.address("kubelet"),
        metrics_readers=ground.metrics_readers,
        feature_gates=enabled_gates(ground.feature_gates),
    )
    work = run_kubelet(options, ground.clock, ready=ready.set)
    async with ground.client() as client, running(work, name="kubelet"):
        await ready.wait()

        async def why() -> str:
            return "" if await is_node_ready(client, ground.node) else f"node {ground.node} is not Ready"

        await wait_for(why, ground.clock)
        yield


def kubelet_options(place: UpPlace, runtime: str) -> KubeletOptions:
    """Where it keeps things, and what runs its containers; the API server is to be added."""
    return KubeletOptions(
        root_dir=place.kubelet,
        device_plugin_dir=place.device_plugins,
        state_dir=place.kubelet_state,
        log_dir=place.pod_logs,
        runtime=runtime,
        allow_host_image=True,
        cdi_dirs=(place.cdi,),
    )


@asynccontextmanager
async def agent_part(ground: Ground, config: Path, own: Sequence[OwnKind]) -> AsyncIterator[Agent]:
    """Entered: the kubelet has all that is offered, or it has had its time."""
    place = ground.place
    found: asyncio.Future[Agent] = asyncio.get_running_loop().create_future()
    options = AgentOptions(
        config=config,
        access=ground.access,
        node_name=ground.node,
        cdi_dir=place.cdi,
        kubelet_dir=place.kubelet,
        device_plugin_dir=place.device_plugins,
        state_dir=place.agent,
        host_root=ground.host_root,
        metrics=ground.address("agent"),
        metrics_readers=ground.metrics_readers,
    )
    work = run_agent(options, ground.clock, own=own, serving=found.set_result)
    async with running(work, name="agent", stop_timeout=_AGENT_STOP):
        agent = await found

        async def why() -> str:
            return agent.why_unready()

        await wait_for(why, ground.clock)
        yield agent


@asynccontextmanager
async def fleet_part(ground: Ground, profile: SimProfile, say: Callable[[str], None]) -> AsyncIterator[None]:
    """Entered: all hollow nodes are there, and those of an earlier profile are not."""

    def tell(done: int, total: int) -> None:
        if done == total or done % 10 == 0:
            say(f"writing simulated nodes: {done} of {total}")

    async with ground.client() as client:
        fleet = HollowFleet(client, profile, ground.clock, tell)
        async with fleet.running():
            await fleet.wait_written()
            yield


@asynccontextmanager
async def dashboard_part(ground: Ground, allowed: tuple[str, ...]) -> AsyncIterator[str]:
    """Gives its address, without the token: that is in the data directory. The port is that of before, if it is free."""
    kept = ground.place.read_kept()
    port = free_port(*((kept.dashboard,) if kept and kept.dashboard else ()), DASHBOARD_PORT)
    if kept is not None and kept.dashboard != port:
        ground.place.write(structs.replace(kept, dashboard=port))
    place = ground.place
    options = DashboardOptions(
        ground.access,
        ("127.0.0.1", port),
        place.dashboard_token,
        allowed,
        place.dashboard,
        feature_gates=ground.feature_gates,
    )
    async with dashboard(options, ground.clock) as found:
        yield found.url


async def is_node_ready(client: Client, name: str) -> bool:
    """Whether there is such a Node, and it says so."""
    try:
        return is_ready(await client.get(NODES, name))
    except NotFoundError:
        return False


def is_ready(node: Node) -> bool:
    """Whether it says so."""
    return any(one.type == "Ready" and one.status == "True" for one in node.status.conditions)


async def wait_for(why_not: Callable[[], Awaitable[str]], clock: Clock) -> None:
    """Until `why_not` has nothing more to say, for `PATIENCE` seconds; what it says then is logged."""
    end = clock.monotonic() + PATIENCE
    while said := await why_not():
        if clock.monotonic() > end:
            _log.warning("goes on without", why=said)
            return
        await clock.sleep(_LOOK)


@asynccontextmanager
async def _served(metrics: Metrics, ground: Ground, part: str) -> AsyncIterator[None]:
    host, port = ground.address(part)
    checks, readers = {"/readyz": str}, ground.metrics_readers
    async with serve_metrics(metrics, host=host, port=port, checks=checks, readers=readers):
        yield
