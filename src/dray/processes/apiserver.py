"""`dray apiserver`: the embedded API server alone. store → rules of writes → HTTP over TLS; beside it the upkeep."""

from __future__ import annotations

import asyncio
import base64
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from dray.allocation.features import features_of_gates
from dray.allocation.profiles import CORRECT
from dray.allocation.selector import check_selector
from dray.api.codec import dump_yaml
from dray.apiserver.access.identity import Identity, admin
from dray.apiserver.access.published import publish_trust
from dray.apiserver.access.service_accounts import ServiceAccountTokens
from dray.apiserver.access.signing import Signer
from dray.apiserver.access.tokens import Tokens
from dray.apiserver.custom.live import Live
from dray.apiserver.http.container_logs import USER as LOGS_USER
from dray.apiserver.http.container_logs import kubelet_logs
from dray.apiserver.http.doorkeeper import server_hosts
from dray.apiserver.http.handler import Handler
from dray.apiserver.http.measures import Measures
from dray.apiserver.http.server import Address, serve
from dray.apiserver.http.writes import INDEXES
from dray.apiserver.store.contract import Transaction
from dray.apiserver.store.sqlite import open_store
from dray.apiserver.upkeep import EVENT_SECONDS, Upkeep
from dray.apiserver.writing import indexes
from dray.apiserver.writing.removing.emptying import create_namespaces
from dray.apiserver.writing.request import Rules
from dray.client.kubeconfig import find_access
from dray.errors import DeniedError, Error
from dray.runtime.certificates import Serving, client_certificate, serving_certificate
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.files.durable import write_durably
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.files.private import make_private
from dray.runtime.garbage import settle
from dray.runtime.http_hosts import LOOPBACK, host_only, in_url, is_any
from dray.runtime.logs import get_log
from dray.runtime.metrics import Metrics
from dray.runtime.quarantine import PLACE, Quarantine
from dray.runtime.tasks import running
from dray.semantics.features import EnabledGates, enabled_gates

_log = get_log("apiserver")

KUBECONFIG = "admin.kubeconfig"
TOKENS = "tokens.json"


@dataclass(frozen=True, slots=True)
class ApiServerOptions:
    """What the command line says."""

    data_dir: Path
    address: Address
    event_ttl: float = EVENT_SECONDS
    allowed_hosts: tuple[str, ...] = ()
    """Further names by which clients may call it; its certificate has them too."""
    feature_gates: EnabledGates = field(default_factory=enabled_gates)


@dataclass(frozen=True, slots=True)
class Listening:
    """A server that answers."""

    url: str
    kubeconfig: Path


async def run_apiserver(options: ApiServerOptions) -> None:
    """Until cancelled."""
    async with api_server(options) as found:
        settle()
        _log.info("ready", url=found.url, kubeconfig=str(found.kubeconfig))
        await asyncio.Event().wait()


@asynccontextmanager
async def api_server(options: ApiServerOptions, clock: Clock | None = None) -> AsyncIterator[Listening]:
    """Entered: it answers. Everything it must know after a restart, tokens and certificates too, is in the data directory."""
    clock = clock or SystemClock()
    _allow_connections()
    features = features_of_gates(options.feature_gates, CORRECT)
    rules = Rules(check_selector=partial(check_selector, features=features))
    directory, host = options.data_dir, options.address.host
    make_private(directory, ours=("pki", "store.db", TOKENS), flag="--data-dir")
    allowed = options.allowed_hosts
    names = (*_names(host), *map(host_only, allowed))
    certificates = serving_certificate(directory / "pki", names, clock.now())
    to_kubelets = client_certificate(directory / "pki", "kubelet-client", LOGS_USER, clock.now())
    kept = (*INDEXES, *indexes())
    async with (
        open_store(directory / "store.db", indexes=kept, clock=clock) as store,
        kubelet_logs(to_kubelets) as logs,
    ):
        authority = certificates.ca.read_text()
        await store.write(lambda transaction: _make_always_there(transaction, rules, authority, clock.now()))
        signer = Signer(directory / "pki" / "service-accounts.key")
        tokens = Tokens(directory / TOKENS, ServiceAccountTokens(signer, clock, store))
        live, measures = Live(store, rules), Measures(Metrics(), clock)
        measures.of_store(store, lambda: [str(one.resource) for one in live.rules.serving.all])
        hosts = server_hosts(_names(host), allowed)
        handler = Handler(store, rules, tokens, clock, live, measures, logs, hosts)
        quarantine = Quarantine(directory / PLACE, clock)
        measures.of_upkeep(quarantine)
        upkeep = Upkeep(store, rules, clock, live, options.event_ttl, quarantine)
        with quarantine:
            async with (
                running(upkeep.run(), name="upkeep"),
                serve(handler, options.address, certificates) as port,
            ):
                url = _url(host, port)
                yield Listening(url, _write_kubeconfig(directory / KUBECONFIG, url, tokens, certificates))


def _allow_connections() -> None:
    """As many as the system lets us have: the usual soft limit of 1,024 files is few for watchers."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _make_always_there(transaction: Transaction, rules: Rules, authority: str, now: datetime) -> None:
    create_namespaces(transaction, rules, now)
    publish_trust(transaction, rules, authority, now)


def _names(host: str) -> tuple[str, ...]:
    """What clients may call it: loopback always, and the address it was told, unless that is all of them."""
    return LOOPBACK if is_any(host) else (*LOOPBACK, host)


def _url(host: str, port: int) -> str:
    return f"https://{in_url('127.0.0.1' if is_any(host) else host)}:{port}"


def issue_kubeconfig(directory: Path, identity: Identity) -> str:
    """A kubeconfig with a new token, for the server of this directory, which may run meanwhile."""
    cluster = find_access(directory / KUBECONFIG)
    tokens = Tokens(directory / TOKENS)
    return _kubeconfig(cluster.server, tokens.issue(identity), identity, directory / "pki" / "ca.crt")


def _write_kubeconfig(path: Path, url: str, tokens: Tokens, certificates: Serving) -> Path:
    """For the admin of this machine. The token in the file is kept while it is good, so copies of it stay good too."""
    token = _token_in(path, tokens) or tokens.issue(admin())
    try:
        write_durably(path, _kubeconfig(url, token, admin(), certificates.ca).encode())
    except OSError as error:
        raise from_os_error(error, "write", str(path)) from error
    return path


def _kubeconfig(url: str, token: str, user: Identity, authority: Path) -> str:
    encoded = base64.b64encode(authority.read_bytes()).decode()
    return dump_yaml(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "dray", "cluster": {"server": url, "certificate-authority-data": encoded}}],
            "users": [{"name": user.name, "user": {"token": token}}],
            "contexts": [{"name": "dray", "context": {"cluster": "dray", "user": user.name}}],
            "current-context": "dray",
        }
    )


def _token_in(path: Path, tokens: Tokens) -> str:
    """The token of a file that an earlier run wrote, or nothing where it is no good any more."""
    try:
        token = find_access(path).user.token
        return token if token and tokens.identity(f"Bearer {token}") == admin() else ""
    except DeniedError:
        return ""
    except Error as error:
        _log.info("a new kubeconfig is written", path=str(path), why=str(error))
        return ""
