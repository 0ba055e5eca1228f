"""`dray controllers`: the loops that keep a cluster's objects true, on shared pictures, and the guard beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.leader import LeaderConfig, LeaderElection
from dray.controllers import choice
from dray.controllers.claims.controller import ClaimController, ClaimControllerConfig
from dray.controllers.guard.callers import RENEW_SECONDS, Callers, kept_secret
from dray.controllers.guard.endpoints import endpoint_slice, publish
from dray.controllers.guard.guard import Guard, GuardConfig
from dray.controllers.guard.parameters import Parameters, Validator
from dray.controllers.guard.server import GuardServer, serve
from dray.controllers.guard.webhook import Service, Target, configuration, install
from dray.controllers.metrics import ControllerMetrics
from dray.controllers.node_taints import NodeTaintConfig, NodeTaintController
from dray.controllers.nodes import NodeConfig, NodeController
from dray.controllers.pictures import Surroundings
from dray.controllers.pod_gc import PodGc, PodGcConfig
from dray.controllers.taints.controller import TaintController, TaintControllerConfig
from dray.dra.names import NVIDIA
from dray.drivers.nvidia.parameters import check_parameters as check_nvidia
from dray.drivers.sim.parameters import check_parameters as check_sim
from dray.errors import ConflictError, InvalidError, UnavailableError
from dray.runtime.certificates import Serving, serving_certificate
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.garbage import settle
from dray.runtime.logs import get_log
from dray.runtime.metrics import Metrics, serve_metrics
from dray.runtime.pages import ANYBODY, Readers
from dray.runtime.tasks import running

_log = get_log("controllers")
VALIDATORS: Final[Mapping[str, Validator]] = {NVIDIA: check_nvidia, "sim.": check_sim}
"""Who checks opaque parameters of our own drivers, by name; `sim.` is in any domain."""
Address = tuple[str, int]
_AGAIN_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """The guard's server, and how API servers reach it. None: the address it listens on."""

    address: Address
    directory: Path
    leader: LeaderConfig
    where: str | Service | None = None
    installs: bool = True
    config: GuardConfig = field(default_factory=GuardConfig)
    validators: Mapping[str, Validator] = field(default_factory=dict)
    """Who checks opaque parameters, by driver name (`validators_of`)."""
    endpoint: str = ""
    """This guard's own address, which it writes into the EndpointSlice of its Service when it leads; none: it does not."""
    client_ca: Path | None = None
    """Who signs the certificates that API servers must show; None: they need not."""
    client_names: tuple[str, ...] = ()
    """The names of which such a certificate must have one: its authority may sign others too."""
    renew_seconds: float = RENEW_SECONDS


@dataclass(frozen=True, slots=True)
class ControllersOptions:
    """What the command line says. `state_dir`: where objects are noted that end the process; None: nowhere."""

    kubeconfig: Path | None
    controllers: tuple[str, ...]
    policies: choice.Policies
    context: str | None = None
    state_dir: Path | None = None
    workers: int = 10
    leader: LeaderConfig | None = None
    metrics: Address | None = None
    metrics_readers: Readers = ANYBODY
    guard: GuardOptions | None = None
    pod_gc: PodGcConfig = field(default_factory=PodGcConfig)
    nodes: NodeConfig = field(default_factory=NodeConfig)


def validators_of(
    drivers: Iterable[str], installed: Callable[[], Mapping[str, Validator]] = dict
) -> Mapping[str, Validator]:
    """For these drivers, who checks their parameters; InvalidError for one that nobody here knows.

    `installed` gives those of other packages. It is called where a driver is not Dray's own.
    """
    found: dict[str, Validator] = {}
    others: Mapping[str, Validator] | None = None
    for name in drivers:
        check = _own_validator(name)
        if check is None:
            others = installed() if others is None else others
            check = others.get(name)
        if check is None:
            there = ", ".join(sorted(others or ())) or "there is none"
            text = f"{name!r} is not known here: give {NVIDIA}, sim.DOMAIN or a driver of an installed package ({there})"
            raise InvalidError(f"--guard-parameters: {text}", field="--guard-parameters")
        found[name] = check
    return found


def _own_validator(name: str) -> Validator | None:
    kind, dot, _ = name.partition(".")
    return VALIDATORS.get(name) or (VALIDATORS.get(f"{kind}.") if dot else None)


async def run_controllers(options: ControllersOptions) -> None:
    """Until cancelled. LeadershipLostError ends the process: whoever supervises it starts it anew."""
    metrics, clock = Metrics(), SystemClock()
    shown = ControllerMetrics(metrics)
    async with AsyncExitStack() as stack:
        if options.metrics is not None:
            host, port = options.metrics
            served = serve_metrics(metrics, host=host, port=port, readers=options.metrics_readers)
            chosen = await stack.enter_async_context(served)
            _log.info("metrics are served", port=chosen)
        access = find_access(options.kubeconfig, context=options.context)
        client = await stack.enter_async_context(Client(access))
        async with asyncio.TaskGroup() as group:
            if options.controllers:
                group.create_task(_lead_controllers(client, options, shown, clock), name="controllers")
            if options.guard is not None:
                group.create_task(_lead_guard(client, options.guard, metrics, shown, clock), name="guard")


async def _lead_controllers(
    client: Client, options: ControllersOptions, metrics: ControllerMetrics, clock: Clock
) -> None:
    async with AsyncExitStack() as stack:
        if options.leader is not None:
            await stack.enter_async_context(LeaderElection(client, options.leader))
        around = Surroundings.of(client, clock, metrics, state_dir=options.state_dir)
        await stack.enter_async_context(controllers(around, options))
        settle()
        _log.info("ready", controllers=",".join(options.controllers))
        await asyncio.Event().wait()


class _Controller(Protocol):
    async def run(self) -> None: ...


@asynccontextmanager
async def controllers(around: Surroundings, options: ControllersOptions) -> AsyncIterator[None]:
    """Run those that were chosen. Entered: the pictures are there and all of them work."""
    around.metrics.follow_quarantine(around.quarantine)
    made = [(name, make(around)) for name, make in _makers(options).items() if name in options.controllers]
    async with AsyncExitStack() as stack:
        stack.enter_context(around.quarantine)
        await stack.enter_async_context(around.pictures)
        for name, controller in made:
            await stack.enter_async_context(running(controller.run(), name=name))
        yield


def _makers(options: ControllersOptions) -> dict[str, Callable[[Surroundings], _Controller]]:
    claims = ClaimControllerConfig(options.policies.claims, options.workers)
    taints = TaintControllerConfig(options.policies.eviction)
    return {
        choice.CLAIMS: lambda around: ClaimController(around, claims),
        choice.DEVICE_TAINTS: lambda around: TaintController(around, taints),
        choice.POD_GC: lambda around: PodGc(around, options.pod_gc),
        choice.NODES: lambda around: NodeController(around, options.nodes),
        choice.NODE_TAINTS: lambda around: NodeTaintController(around, NodeTaintConfig()),
    }


async def _lead_guard(
    client: Client, options: GuardOptions, metrics: Metrics, shown: ControllerMetrics, clock: Clock
) -> None:
    """The server answers from the start, and refuses until this guard leads."""
    guard, parameters = Guard(client, options.config, clock, shown), Parameters(options.validators)
    certificates, (host, port) = certificate(options, clock), options.address
    callers = _callers(options)
    server = GuardServer(guard, parameters, callers, metrics)
    async with serve(server, host, port, certificates, options.client_ca) as chosen:
        _log.info("the guard listens", port=chosen)
        async with (
            LeaderElection(client, options.leader),
            guard.leading(options.leader.identity),
        ):
            if options.endpoint and isinstance(options.where, Service):
                await publish(client, endpoint_slice(options.where, options.endpoint, chosen))
            if not options.installs:
                _log.info("guarding", webhook="not installed")
                await asyncio.Event().wait()

            def document() -> dict[str, Any]:
                return webhook(options, certificates, chosen, callers.secret)

            await install(client, document())
            _log.info("guarding", webhook="installed")
            await renew_path(client, callers, document, clock, options.renew_seconds)


def _callers(options: GuardOptions) -> Callers:
    """The guard that installs its webhook needs no secret that outlives it."""
    secret = "" if options.installs else kept_secret(options.directory)
    return Callers(secret, needs_certificate=options.client_ca is not None, names=options.client_names)


async def renew_path(
    client: Client, callers: Callers, document: Callable[[], dict[str, Any]], clock: Clock, seconds: float
) -> None:
    """Install the webhook with another path again and again, until cancelled. `document` makes it of the newest secret."""
    while True:
        await clock.sleep(seconds)
        callers.renew()
        await _install_again(client, document(), clock)


async def _install_again(client: Client, document: dict[str, Any], clock: Clock) -> None:
    """Until it is done: the secret before is good as long, and no newer one is made."""
    while True:
        try:
            return await install(client, document)
        except (ConflictError, UnavailableError) as error:
            _log.warning("the webhook's new path is not installed yet", error=str(error))
            await clock.sleep(_AGAIN_SECONDS)


def certificate(options: GuardOptions, clock: Clock) -> Serving:
    """The guard's own, made in its directory where there is none that fits."""
    return serving_certificate(options.directory, _names(options), clock.now())


def webhook(options: GuardOptions, certificates: Serving, port: int, secret: str) -> dict[str, Any]:
    """The ValidatingWebhookConfiguration for this guard, with the secret part of its path."""
    host = options.address[0]
    own = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    target = Target(options.where or own, certificates.ca.read_bytes(), secret)
    return configuration(target, Parameters(options.validators).drivers)


def _names(options: GuardOptions) -> tuple[str, ...]:
    """What API servers call it."""
    match options.where:
        case Service(namespace=namespace, name=name):
            return (f"{name}.{namespace}.svc",)
        case None:
            return (options.address[0],)
        case url:
            host = urlsplit(url).hostname
            if not url.startswith("https://") or host is None:
                raise InvalidError(f"--guard-url: {url!r} must be https://HOST:PORT", field="--guard-url")
            return (host,)
