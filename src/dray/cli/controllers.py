"""`dray controllers`: claims made and freed, taints enforced, lost pods removed; with --guard, no device given twice."""

from __future__ import annotations

import argparse
import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli.cluster import add_kubeconfig_arguments
from dray.cli.feature_flags import add_feature_gates
from dray.cli.leader_flags import add_leader_flags, leader_config
from dray.errors import InvalidError
from dray.runtime.flags import add_metrics_readers, parse_address, read_metrics_readers

if TYPE_CHECKING:
    from dray.controllers.guard.webhook import Service
    from dray.processes.controllers import GuardOptions

METRICS_ADDRESS = "127.0.0.1:9616"
GUARD_ADDRESS = "127.0.0.1:9617"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_kubeconfig_arguments(parser, finds_up=False)
    _add_work(parser.add_argument_group("which controllers, and how they work"))
    add_leader_flags(
        parser.add_argument_group("one of several"),
        "dray-controllers",
        elect="work only while holding a Lease; without it several may run at once, which is safe but wasteful",
        namespace="where the Leases, and the guard's ConfigMap, are",
        lease="the controllers' Lease",
    )
    _add_guard(parser.add_argument_group("the guard: no device is allocated twice on a real API server"))
    parser.add_argument(
        "--metrics-address",
        default=METRICS_ADDRESS,
        metavar="A",
        help=f"where /metrics and /healthz are served (default {METRICS_ADDRESS}; port 0: any; none: not served)",
    )
    add_metrics_readers(parser)


def _add_work(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--controllers",
        default="*",
        metavar="LIST",
        help="NAME is on, -NAME is off, * are all that are on by default: resourceclaim-controller, "
        "device-taint-eviction-controller, pod-garbage-collector-controller; off: node-lifecycle-controller, "
        "taint-eviction-controller (default *; '' for the guard alone)",
    )
    group.add_argument(
        "--node-lifecycle",
        action="store_true",
        help="the two that are off too: for an API server without a controller manager, such as `dray apiserver`",
    )
    group.add_argument(
        "--profile",
        default="correct",
        metavar="P",
        help="whose mistakes to make: correct, k8s-1.36 or k8s-1.37 (default correct)",
    )
    group.add_argument(
        "--quirks", default="", metavar="LIST", help="single mistakes on top: Q7, Q8, Q13 on, -Q8 off"
    )
    add_feature_gates(group)
    group.add_argument(
        "--concurrent-resourceclaim-syncs",
        type=int,
        default=10,
        metavar="N",
        help="pods and claims that are worked on at once (default 10)",
    )
    group.add_argument(
        "--state-dir",
        type=Path,
        metavar="D",
        help="note there which object is looked at: one that ends the controllers three times is set aside (default: nowhere)",
    )


def _add_guard(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--guard",
        action="store_true",
        help="refuse double allocations: serve a validating webhook and install it; one leads, by Lease, the others wait",
    )
    group.add_argument(
        "--guard-address",
        default=GUARD_ADDRESS,
        metavar="A",
        help=f"HOST:PORT where API servers ask (default {GUARD_ADDRESS})",
    )
    where = group.add_mutually_exclusive_group()
    where.add_argument(
        "--guard-url",
        metavar="URL",
        help="what API servers call it (default https://HOST:PORT as it listens)",
    )
    where.add_argument(
        "--guard-service",
        metavar="NS/NAME[:PORT]",
        help="the Service in front of it: with a selector the readiness probe must be /readyz; without one see --guard-endpoint",
    )
    group.add_argument(
        "--guard-endpoint",
        metavar="IP",
        help="the guard's own address, such as a pod's: the one that leads writes it into the EndpointSlice of "
        "--guard-service, which must have no selector",
    )
    group.add_argument(
        "--guard-client-ca-file",
        type=Path,
        metavar="F",
        help="answer only API servers that show a client certificate of this authority (default: those that know the "
        "webhook's secret path)",
    )
    group.add_argument(
        "--guard-client-name",
        action="append",
        default=[],
        metavar="NAME",
        help="and that has this common name or DNS name; needed with --guard-client-ca-file, may be repeated",
    )
    group.add_argument(
        "--guard-dir",
        type=Path,
        default=Path("/var/lib/dray/guard"),
        metavar="D",
        help="its certificates, made where there are none (default /var/lib/dray/guard)",
    )
    group.add_argument(
        "--guard-name",
        default="dray-guard",
        metavar="NAME",
        help="its Lease, and the ConfigMap of what it let through (default dray-guard)",
    )
    group.add_argument(
        "--guard-patience",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="after this a write that was let through and never stored is shut out, and its devices are free (default 10)",
    )
    group.add_argument(
        "--guard-parameters",
        action="append",
        default=[],
        metavar="DRIVER",
        help="check opaque parameters of this driver too when they are written: gpu.nvidia.com, sim.DOMAIN, or one that an "
        "installed package names under the entry point group dray.drivers; may be repeated",
    )
    group.add_argument(
        "--no-guard-webhook", action="store_true", help="leave the ValidatingWebhookConfiguration to others"
    )
    group.add_argument(
        "--print-guard-webhook",
        action="store_true",
        help="print the ValidatingWebhookConfiguration as YAML, and end",
    )


def run(arguments: argparse.Namespace) -> int:
    """Work until SIGINT or SIGTERM."""
    from dray.controllers.choice import chosen, policies
    from dray.processes.controllers import ControllersOptions, run_controllers
    from dray.runtime.tasks import run_until_signalled
    from dray.semantics.features import enabled_gates, parse_feature_gates

    if arguments.print_guard_webhook:
        return _print_webhook(_guard(arguments))
    gates = enabled_gates(parse_feature_gates(arguments.feature_gates))
    names = chosen(arguments.controllers, gates, node_lifecycle=arguments.node_lifecycle)
    if not names and not arguments.guard:
        raise InvalidError(
            "--controllers: none is left to run; name one, or give --guard", field="--controllers"
        )
    if arguments.concurrent_resourceclaim_syncs < 1:
        raise InvalidError(
            "--concurrent-resourceclaim-syncs: must be 1 or more", field="--concurrent-resourceclaim-syncs"
        )
    leader = leader_config(arguments, arguments.leader_elect_resource_name)
    options = ControllersOptions(
        kubeconfig=arguments.kubeconfig,
        context=arguments.context,
        controllers=names,
        policies=policies(arguments.profile, arguments.quirks, gates),
        state_dir=arguments.state_dir and arguments.state_dir.absolute(),
        workers=arguments.concurrent_resourceclaim_syncs,
        leader=leader if arguments.leader_elect else None,
        metrics=parse_address(arguments.metrics_address),
        metrics_readers=read_metrics_readers(arguments),
        guard=_guard(arguments) if arguments.guard else None,
    )
    run_until_signalled(lambda: run_controllers(options))
    return 0


def _guard(arguments: argparse.Namespace) -> GuardOptions:
    from dray.controllers.guard.guard import GuardConfig
    from dray.controllers.guard.settling import SettlingConfig
    from dray.processes.controllers import GuardOptions, validators_of
    from dray.sdk.installed import installed_validators

    address = parse_address(arguments.guard_address, "--guard-address")
    if address is None:
        raise InvalidError(
            f"--guard-address must be HOST:PORT, like {GUARD_ADDRESS}", field="--guard-address"
        )
    if arguments.guard_patience <= 0:
        raise InvalidError("--guard-patience: must be more than 0", field="--guard-patience")
    _check_callers(arguments)
    where = arguments.guard_url or (_service(arguments.guard_service) if arguments.guard_service else None)
    return GuardOptions(
        address=address,
        directory=arguments.guard_dir.absolute(),
        leader=leader_config(arguments, arguments.guard_name),
        where=where,
        installs=not arguments.no_guard_webhook,
        endpoint=arguments.guard_endpoint or "",
        client_ca=arguments.guard_client_ca_file and arguments.guard_client_ca_file.absolute(),
        client_names=tuple(arguments.guard_client_name),
        validators=validators_of(arguments.guard_parameters, installed_validators),
        config=GuardConfig(
            arguments.leader_elect_resource_namespace,
            arguments.guard_name,
            settling=SettlingConfig(fence=arguments.guard_patience),
        ),
    )


def _check_callers(arguments: argparse.Namespace) -> None:
    if arguments.guard_client_name and arguments.guard_client_ca_file is None:
        raise InvalidError("--guard-client-name: needs --guard-client-ca-file", field="--guard-client-name")
    if arguments.guard_client_ca_file is not None and not any(arguments.guard_client_name):
        text = "--guard-client-ca-file: give --guard-client-name too, or every certificate of that authority is let in"
        raise InvalidError(text, field="--guard-client-name")
    if arguments.guard_endpoint is None:
        return
    if not arguments.guard_service:
        raise InvalidError("--guard-endpoint: needs --guard-service", field="--guard-endpoint")
    try:
        ipaddress.ip_address(arguments.guard_endpoint)
    except ValueError:
        text = f"--guard-endpoint: {arguments.guard_endpoint!r} must be an IP address, like 10.0.0.5"
        raise InvalidError(text, field="--guard-endpoint") from None


def _service(text: str) -> Service:
    from dray.controllers.guard.webhook import Service

    place, _, port = text.partition(":")
    namespace, slash, name = place.partition("/")
    if not (namespace and slash and name) or (port and not (port.isascii() and port.isdigit())):
        raise InvalidError(
            f"--guard-service {text!r} must be NAMESPACE/NAME or NAMESPACE/NAME:PORT", field="--guard-service"
        )
    return Service(namespace, name, int(port or 443))


def _print_webhook(options: GuardOptions) -> int:
    from dray.api.codec import dump_yaml
    from dray.controllers.guard.callers import kept_secret
    from dray.processes.controllers import certificate, webhook
    from dray.runtime.clock import SystemClock

    if options.where is None and options.address[1] == 0:
        raise InvalidError("--guard-address: give the port, or --guard-url", field="--guard-address")
    certificates, secret = certificate(options, SystemClock()), kept_secret(options.directory)
    print(dump_yaml(webhook(options, certificates, options.address[1], secret)), end="")
    return 0
