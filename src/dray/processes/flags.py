"""The flags that `dray agent` and a driver's own program share. Imports little: every `dray --help` comes by."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dray.errors import InvalidError

if TYPE_CHECKING:
    from dray.processes.agent_parts.options import AgentOptions
    from dray.runtime.pages import Readers

METRICS_ADDRESS: Final = "127.0.0.1:9614"
_PLACES: Final = (
    ("kubelet-dir", "/var/lib/kubelet", "the kubelet's root directory"),
    (
        "device-plugin-dir",
        "/var/lib/kubelet/device-plugins",
        "where the kubelet's device plugin socket is: a kubelet never moves it",
    ),
    ("cdi-dir", "/var/run/cdi", "where CDI files are written"),
)


def add_host(parser: argparse.ArgumentParser, *, metrics: str, reads_environment: bool) -> None:
    """Where things are on this machine, and where `metrics` are served. With `reads_environment` $KUBELET_DIR and its
    like are the defaults: it is how a program is told by who starts it."""
    for name, place, text in _PLACES:
        variable = name.upper().replace("-", "_")
        told = os.environ.get(variable) if reads_environment else None
        parser.add_argument(
            f"--{name}",
            type=Path,
            default=Path(told or place),
            metavar="D",
            help=f"{text} (default {f'${variable}, else ' if reads_environment else ''}{place})",
        )
    parser.add_argument(
        "--host-root", default="/", metavar="R", help="where the host's /sys, /proc and /dev are (default /)"
    )
    parser.add_argument(
        "--metrics-address",
        default=metrics,
        metavar="A",
        help=f"where /metrics, /healthz and /readyz are served (default {metrics}; port 0: any; none: not served)",
    )
    add_metrics_readers(parser)


def add_metrics_readers(parser: argparse._ActionsContainer) -> None:
    """Who may read what is served at `--metrics-address`; probes need neither."""
    parser.add_argument(
        "--metrics-token-file",
        type=Path,
        metavar="F",
        help="answer only who sends the token in this file (Authorization: Bearer), /healthz and /readyz aside; nobody "
        "while there is none (default: everybody who can connect)",
    )
    parser.add_argument(
        "--metrics-allow-host",
        action="append",
        default=[],
        metavar="HOST",
        help="a name, beside localhost and any address, by which the metrics' server may be called; may be repeated",
    )


def read_metrics_readers(arguments: argparse.Namespace) -> Readers:
    """What `add_metrics_readers` declared."""
    from dray.runtime.pages import Readers

    file = arguments.metrics_token_file
    names = check_allowed(arguments.metrics_allow_host)
    return Readers(names, file.absolute() if file is not None else None)


def add_feature_gates(parser: argparse._ActionsContainer) -> None:
    """The same for all parts, so that a cluster can be told the same everywhere; `semantics.features` reads it."""
    parser.add_argument(
        "--feature-gates",
        default="",
        metavar="GATE=BOOL,…",
        help="Kubernetes' feature gates that are not to be as by default, such as DRAWorkloadResourceClaims=true",
    )


def add_cluster(group: argparse._ArgumentGroup, *, reads_environment: bool) -> None:
    """How to reach the API server, and as whom. With `reads_environment` $KUBECONFIG counts."""
    told = os.environ.get("KUBECONFIG") if reads_environment else None
    source = "$KUBECONFIG, else " if reads_environment else ""
    group.add_argument(
        "--kubeconfig",
        type=Path,
        default=Path(told) if told else None,
        metavar="K",
        help=f"a cluster's file (default: {source}in a pod its service account, else there is none; none: ask no cluster)",
    )
    group.add_argument(
        "--node-name",
        default=os.environ.get("NODE_NAME", ""),
        metavar="N",
        help="this node's name (default: $NODE_NAME, else the host's)",
    )
    group.add_argument(
        "--instance-id",
        default=os.environ.get("POD_UID", ""),
        metavar="ID",
        help="tells two processes of a rolling update apart (default: $POD_UID; empty: one at a time)",
    )


def read_options(arguments: argparse.Namespace) -> AgentOptions:
    """What these flags say; the rest is as it is by default."""
    from dray.processes.agent_parts.cluster import find_server, parse_node_name
    from dray.processes.agent_parts.options import AgentOptions

    return AgentOptions(
        config=None,
        access=find_server(arguments.kubeconfig),
        node_name=parse_node_name(arguments.node_name),
        instance=arguments.instance_id,
        cdi_dir=arguments.cdi_dir.absolute(),
        kubelet_dir=arguments.kubelet_dir.absolute(),
        device_plugin_dir=arguments.device_plugin_dir.absolute(),
        host_root=arguments.host_root,
        metrics=parse_address(arguments.metrics_address),
        metrics_readers=read_metrics_readers(arguments),
    )


def check_allowed(hosts: Sequence[str]) -> tuple[str, ...]:
    """What `--allow-host` gave. InvalidError where one is no HOST and no HOST:PORT."""
    from dray.runtime.http_hosts import host_only

    return tuple(host for host in hosts if host_only(host))


def parse_address(text: str, flag: str = "--metrics-address") -> tuple[str, int] | None:
    """`host:port` or `[v6]:port` to bind to; None for `none`. InvalidError where it is neither."""
    if text == "none":
        return None
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidError(
            f"{flag} {text!r} must be HOST:PORT, like {METRICS_ADDRESS}, or none",
            field=flag,
        )
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)
