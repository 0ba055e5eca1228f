"""Check a DRA driver, on its live socket or started privately."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from dray.api.kinds import NODES
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.errors import Error, ProtocolError
from dray.runtime.clock import Clock, SystemClock
from dray.testing.check.api_server import SmallApiServer, served
from dray.testing.check.driver import lifetime, prepare, registration
from dray.testing.check.driver.pod_resources import pod_resources
from dray.testing.check.driver.subject import Driver, DriverSubject, Private
from dray.testing.check.plugin.run import environ
from dray.testing.check.program import NODE_NAME, Program, Room, fill_in, private_room
from dray.testing.check.registry import get_info
from dray.testing.check.rules import Pace, Report, Rule, Say, apply
from dray.wire.connect import connect

RULES: tuple[Rule[DriverSubject], ...] = (
    *registration.RULES,
    *prepare.RULES,
    *lifetime.RULES,
    *registration.LAST_RULES,
    *lifetime.LAST_RULES,
)


async def check_socket(
    path: Path,
    *,
    pace: Pace,
    say: Say,
    cdi_dir: Path,
    kubeconfig: Path | None = None,
    clock: Clock | None = None,
) -> Report:
    """Only what is safe while a kubelet uses it. `path` is its registration socket, or else the one it prepares on."""
    async with AsyncExitStack() as stack:
        async with connect(path):
            pass
        client = await stack.enter_async_context(Client(find_access(kubeconfig))) if kubeconfig else None
        subject = DriverSubject(clock=clock or SystemClock(), pace=pace, cdi_dir=cdi_dir, client=client)
        subject.found[str(path)] = await _asked(path)
        return Report(f"driver {path}", await apply(RULES, subject, say))


async def _asked(path: Path) -> Driver:
    try:
        info = await get_info(path)
    except ProtocolError:
        return Driver(path.parent.name, None, path)
    return Driver(info.name, path, Path(info.endpoint) if info.endpoint else path, info)


async def check_command(
    command: Sequence[str],
    *,
    pace: Pace,
    say: Say,
    kubeconfig: Path | None = None,
    clock: Clock | None = None,
) -> Report:
    """All rules, on a driver that is started here and ended when this returns. Without a kubeconfig it gets ours."""
    clock = clock or SystemClock()
    with private_room() as room:
        async with (
            pod_resources(room.kubelet),
            _cluster(room, kubeconfig, clock) as (used, api, client),
        ):
            program = Program(fill_in(command, room.words(used)), room, environ(room, used), clock)
            subject = DriverSubject(
                clock=clock, pace=pace, cdi_dir=room.cdi, client=client, private=Private(room, program, api)
            )
            try:
                results = await apply(RULES, subject, say)
            finally:
                await program.kill()
        return Report(f"driver {command[0]}", results)


@asynccontextmanager
async def _cluster(
    room: Room, kubeconfig: Path | None, clock: Clock
) -> AsyncIterator[tuple[Path, SmallApiServer | None, Client]]:
    """The user's cluster or a small one of our own, with a node for the driver in it."""
    async with AsyncExitStack() as stack:
        api = None if kubeconfig else SmallApiServer(clock)
        used = kubeconfig or room.root / "kubeconfig"
        if api is not None:
            await stack.enter_async_context(served(api, used))
        client = await stack.enter_async_context(Client(find_access(used)))
        await stack.enter_async_context(_node(client))
        yield used, api, client


@asynccontextmanager
async def _node(client: Client) -> AsyncIterator[None]:
    """A node for the driver, deleted after. ConflictError where there is one: another check may use it."""
    await client.create(NODES, {"metadata": {"name": NODE_NAME}})
    try:
        yield
    finally:
        with suppress(Error):
            await client.delete(NODES, NODE_NAME)
