"""`dray dashboard`: the fleet in a browser, against any API server that lets it read. Part of `dray up` too."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dray.client.access import ClusterAccess, read_file
from dray.client.client import Client
from dray.dashboard.fleet.fleet import Fleet
from dray.dashboard.fleet.watching import Watching, WatchOptions
from dray.dashboard.http.files import read_files
from dray.dashboard.http.security import Doorkeeper, check_token_text, new_token
from dray.dashboard.http.server import Server, serve
from dray.dashboard.http.stream import Stream, StreamOptions
from dray.dashboard.telling.explanations import Questions
from dray.dashboard.telling.pages import Pages
from dray.errors import InvalidError
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.files.durable import make_directory, write_durably
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.garbage import settle
from dray.runtime.http_hosts import Hosts, in_url, is_any
from dray.runtime.logs import get_log
from dray.runtime.quarantine import PLACE, Quarantine
from dray.runtime.tasks import running
from dray.semantics.features import GateSwitches

_log = get_log("dashboard")

ADDRESS: Final = ("127.0.0.1", 9620)


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """What the command line says. Without `token_file` each start has a token of its own; a file that is missing is made.
    `state_dir`: where objects are noted whose explanation ends the dashboard.
    """

    access: ClusterAccess
    address: tuple[str, int] = ADDRESS
    token_file: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    state_dir: Path | None = None
    stream: StreamOptions = field(default_factory=StreamOptions)
    watch: WatchOptions = field(default_factory=WatchOptions)
    feature_gates: GateSwitches = field(default_factory=dict)
    """Where the cluster's gates are not as in its release."""


@dataclass(frozen=True, slots=True)
class DashboardAt:
    """A dashboard that answers. `entrance` lets in whoever opens it: show it to the user, and to no log."""

    url: str
    token: str = field(repr=False)

    @property
    def entrance(self) -> str:
        """The address with the token where browsers keep it to themselves."""
        return f"{self.url}/#token={self.token}"


async def run_dashboard(options: DashboardOptions) -> None:
    """Until cancelled. The address goes to stdout, once; with the token, unless that is in a file and stdout may be a log."""
    async with dashboard(options) as found:
        settle()
        is_told = options.token_file is None or sys.stdout.isatty()
        sys.stdout.write(f"{found.entrance if is_told else found.url}\n")
        sys.stdout.flush()
        _log.info("ready", url=found.url, server=options.access.server)
        await asyncio.Event().wait()


@asynccontextmanager
async def dashboard(options: DashboardOptions, clock: Clock | None = None) -> AsyncIterator[DashboardAt]:
    """Entered: it answers, with a first picture unless the cluster keeps it waiting. Left: nobody follows any more."""
    clock = clock or SystemClock()
    token = _token(options.token_file)
    fleet = Fleet(options.access.server, secrets.token_hex(4))
    stream = Stream(fleet, clock, options.stream)
    quarantine = Quarantine(options.state_dir / PLACE if options.state_dir is not None else None, clock)
    questions = Questions(fleet, clock=clock, quarantine=quarantine, switches=options.feature_gates)
    server = Server(Pages(fleet, questions, clock), stream, read_files())
    async with AsyncExitStack() as stack:
        stack.enter_context(quarantine)
        client = await stack.enter_async_context(Client(options.access, clock=clock))
        host, _ = options.address
        port = await stack.enter_async_context(serve(server, *options.address))
        hosts = Hosts.at(host, port, options.allowed_hosts)
        await stack.enter_async_context(Watching(client, fleet, clock, options.watch).running())
        await stack.enter_async_context(running(stream.run(), name="dashboard's stream"))
        server.open_for(Doorkeeper(token, hosts, f"dray_dashboard_{port}", clock))
        yield DashboardAt(_url(host, port), token)


def _url(host: str, port: int) -> str:
    return f"http://{in_url('127.0.0.1' if is_any(host) else host)}:{port}"


def _token(path: Path | None) -> str:
    """That of the file, or a new one, which is kept there for the next start."""
    if path is None:
        return new_token()
    if path.exists():
        data = read_file(path, "the dashboard's token")
        try:
            return check_token_text(data.decode(), str(path))
        except UnicodeDecodeError:
            raise InvalidError(f"{path}: is not text", field=str(path)) from None
    token = new_token()
    try:
        make_directory(path.parent)
        write_durably(path, f"{token}\n".encode())
    except OSError as error:
        raise from_os_error(error, "write", str(path)) from error
    return token
