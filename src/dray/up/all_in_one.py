"""`dray up`: everything in one process and one event loop, on one data directory.

API server → controllers, scheduler → kubelet → agent → hollow fleet, dashboard. Each is entered when it is ready and left
in the opposite order; they know each other through the API server and sockets alone, as anywhere else. Whatever fails
ends the process, and whoever supervises it starts it anew from what is on disk.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import dray
from dray.agent.own_kinds import OwnKind
from dray.api import names
from dray.apiserver.http.server import Address
from dray.client.kubeconfig import find_access
from dray.client.sharing import share_objects
from dray.drivers.contract import Device
from dray.drivers.sim.profile import SimProfile
from dray.errors import ConflictError, InvalidError
from dray.kubelet.runtimes.shim import boot_id, start_time
from dray.processes.agent import Agent
from dray.processes.apiserver import ApiServerOptions, Listening, api_server
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.files.filelock import FileLock
from dray.runtime.garbage import settle
from dray.runtime.logs import get_log
from dray.runtime.pages import Readers
from dray.runtime.tasks import running
from dray.semantics.features import GateSwitches, enabled_gates
from dray.up.choice import (
    AUTO,
    ChosenRuntime,
    choose_address,
    choose_runtime,
)
from dray.up.containers import end_containers
from dray.up.fleet.profile_file import load_profile
from dray.up.machine import MachineConfig
from dray.up.notify import notify, supervisor_of
from dray.up.parts import (
    Ground,
    agent_part,
    controllers_part,
    dashboard_part,
    enter_part,
    fleet_part,
    kubelet_part,
    scheduler_part,
)
from dray.up.place import Kept, RunningUp, Supervising, UpPlace, default_data_dir

_log = get_log("up")

NAMELESS: Final = "this-machine"
"""The node of a host whose own name no Node may have."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What the command line says. `listen` None: as before, else 6443 on loopback, else any port. `config` None: one is
    made from what the machine has. `sim`: a profile's name or file; empty: nothing is simulated."""

    data_dir: Path = field(default_factory=default_data_dir)
    listen: Address | None = None
    allowed_hosts: tuple[str, ...] = ()
    host_root: str = "/"
    config: Path | None = None
    sim: str = ""
    runtime: str = AUTO
    node_name: str = ""
    dashboard: bool = True
    metrics_token_file: Path | None = None
    """Who reads the parts' metrics must know the token in it; None: everybody on this machine may."""
    own: Sequence[OwnKind] = ()
    feature_gates: GateSwitches = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    """Who is told what while it starts and ends: `busy`, with what; `ready`; `stopping`, that it was asked to end."""

    busy: Callable[[str], None] = lambda _: None
    ready: Callable[[RunningUp], None] = lambda _: None
    stopping: Callable[[], None] = lambda: None


_NOBODY: Final = Told()


async def run_up(options: UpOptions, clock: Clock | None = None, told: Told = _NOBODY) -> None:
    """Until cancelled."""
    share_objects()
    async with up(options, clock, told) as found:
        settle()
        told.ready(found)
        notify("READY=1")
        await asyncio.Event().wait()


@asynccontextmanager
async def up(
    options: UpOptions, clock: Clock | None = None, told: Told = _NOBODY
) -> AsyncIterator[RunningUp]:
    """Entered: it is ready, and up.json says so. ConflictError where another one uses the data directory."""
    place = UpPlace(options.data_dir)
    profile = load_profile(options.sim) if options.sim else SimProfile()
    place.make()
    with alone(place):
        async with AsyncExitStack() as stack:
            try:
                record = await _start(stack, options, profile, clock or SystemClock(), told)
                place.write(record)
                stack.callback(place.remove, RunningUp)
                _log.info("ready", server=record.server, kubeconfig=record.kubeconfig, node=record.node)
                yield record
            except asyncio.CancelledError:
                told.stopping()
                notify("STOPPING=1")
                raise


async def _start(
    stack: AsyncExitStack, options: UpOptions, profile: SimProfile, clock: Clock, told: Told
) -> RunningUp:
    enter, place = partial(enter_part, stack), UpPlace(options.data_dir)
    runtime, kept = await _settle_kept(options, place, clock)
    told.busy("starting the API server")
    server = await enter(partial(_api_server, options, place, clock))
    ground = Ground(
        place=place,
        kubeconfig=server.kubeconfig,
        access=find_access(server.kubeconfig),
        node=kept.node,
        host_root=options.host_root,
        clock=clock,
        metrics_readers=Readers(token_file=options.metrics_token_file),
        feature_gates=options.feature_gates,
    )
    told.busy("starting controllers, scheduler and kubelet")
    await enter(partial(controllers_part, ground))
    await enter(partial(scheduler_part, ground))
    await enter(partial(kubelet_part, ground, runtime.name))
    told.busy("looking at the devices of this machine")
    config = options.config
    if config is None:
        machine = MachineConfig(place, options.host_root, profile)
        config = await asyncio.to_thread(machine.write)
        await stack.enter_async_context(running(machine.run(clock), name="new devices"))
    agent = await enter(partial(agent_part, ground, config, options.own))
    await enter(partial(fleet_part, ground, profile, told.busy))
    page = await enter(partial(dashboard_part, ground, options.allowed_hosts)) if options.dashboard else ""
    return _record(options, ground, server.url, runtime, agent, page)


def _api_server(options: UpOptions, place: UpPlace, clock: Clock) -> AbstractAsyncContextManager[Listening]:
    address = choose_address(options.listen, place.kubeconfig)
    server = ApiServerOptions(
        place.apiserver,
        address,
        allowed_hosts=options.allowed_hosts,
        feature_gates=enabled_gates(options.feature_gates),
    )
    return api_server(server, clock)


@contextmanager
def alone(place: UpPlace) -> Iterator[None]:
    """ConflictError says who has the directory. A process that was killed has nothing, but its supervisor has."""
    supervisor = place.read(Supervising)
    if supervisor is not None and supervisor.pid != os.getppid():
        raise ConflictError(
            f"a supervisor (process {supervisor.pid}) keeps a `dray up` on {str(place.data_dir)!r}: `dray down` stops it; "
            "or give this one another --data-dir"
        )
    lock = FileLock(place.lock)
    try:
        lock.acquire()
    except ConflictError as error:
        known = place.read(RunningUp)
        who = f"process {known.pid}, since {known.since}" if known else str(error)
        raise ConflictError(
            f"another `dray up` has the data directory {str(place.data_dir)!r} ({who}): `dray down` stops it; "
            "or give this one another --data-dir"
        ) from None
    try:
        yield
    finally:
        lock.release()


async def _settle_kept(options: UpOptions, place: UpPlace, clock: Clock) -> tuple[ChosenRuntime, Kept]:
    """What stays the same from start to start. Containers of another runtime, which nobody would know, are ended first."""
    before = place.read_kept()
    runtime = choose_runtime(options.runtime, before.runtime if before else "")
    node = _node_name(options.node_name, before.node if before else "")
    if before is not None and before.runtime != runtime.name:
        ended = await end_containers(place, before.runtime, forget=True, clock=clock)
        _log.warning("another runtime: containers were ended", before=before.runtime, ended=ended.running)
    kept = Kept(node=node, runtime=runtime.name, dashboard=before.dashboard if before else 0)
    place.write(kept)
    return runtime, kept


def _node_name(asked: str, before: str) -> str:
    """As asked; else as before, because the host may be called otherwise tomorrow while pods are bound to the name."""
    if asked and (faults := names.dns_subdomain(asked)):
        raise InvalidError(f"--node-name: {asked!r}: {faults[0]}", field="--node-name")
    name = asked or before or socket.gethostname().strip().lower()
    return NAMELESS if names.dns_subdomain(name) else name


def devices_told(devices: Sequence[Device]) -> str:
    """`4 generic (1 unhealthy), 2 nvidia`; empty for none."""
    kinds = Counter(one.kind for one in devices)
    bad = Counter(one.kind for one in devices if one.reason)
    return ", ".join(
        f"{kinds[kind]} {kind}" + (f" ({bad[kind]} unhealthy)" if bad[kind] else "") for kind in sorted(kinds)
    )


def _record(
    options: UpOptions, ground: Ground, url: str, runtime: ChosenRuntime, agent: Agent, page: str
) -> RunningUp:
    pid = os.getpid()
    return RunningUp(
        pid=pid,
        start_time=start_time(pid) or 0,
        boot=boot_id(),
        since=ground.clock.now().isoformat(timespec="seconds").replace("+00:00", "Z"),
        version=dray.__version__,
        server=url,
        kubeconfig=str(ground.kubeconfig),
        dashboard=page,
        node=ground.node,
        runtime=runtime.name,
        sim=options.sim,
        data_dir=str(ground.place.data_dir),
        supervisor=supervisor_of(),
        devices=devices_told(agent.machine.feed.current.devices),
        containers=runtime.why,
        unready=agent.why_unready(),
        metrics={name: f"http://{host}:{port}" for name, (host, port) in sorted(ground.addresses.items())},
    )
