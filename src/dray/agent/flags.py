"""The flags that `dray agent` and a driver's own program share. Imports little: every `dray --help` comes by."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dray.runtime.flags import add_metrics_readers, parse_address, read_metrics_readers

if TYPE_CHECKING:
    from dray.agent.options import AgentOptions

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
    from dray.agent.cluster import find_server, parse_node_name
    from dray.agent.options import AgentOptions

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
