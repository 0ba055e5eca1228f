"""`dray agent`: finds this machine's devices and offers them to its kubelet, until it is told to stop."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TypeVar

from dray.errors import InvalidError

P = TypeVar("P")

METRICS_ADDRESS = "127.0.0.1:9614"
_CONFIG_HELP = (
    "what to serve: KubeVirt's configuration, with additions under `dray:`; a file, kubevirt:NAMESPACE/NAME, "
    "kubevirt: for the only one, or configmap:NAMESPACE/NAME[/KEY]; read again when it changes"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--config", required=True, metavar="F", help=_CONFIG_HELP)
    parser.add_argument(
        "--additions",
        default="",
        metavar="F",
        help="Dray's part (`dray:`) where --config is a KubeVirt object: a file or configmap:NAMESPACE/NAME[/KEY]",
    )
    parser.add_argument(
        "--kubelet-dir",
        type=Path,
        default=Path("/var/lib/kubelet"),
        metavar="D",
        help="the kubelet's root directory (default /var/lib/kubelet)",
    )
    parser.add_argument(
        "--device-plugin-dir",
        type=Path,
        default=Path("/var/lib/kubelet/device-plugins"),
        metavar="D",
        help="where the kubelet's device plugin socket is (default /var/lib/kubelet/device-plugins; a kubelet never moves it)",
    )
    parser.add_argument(
        "--state-dir",
        type=Path,
        default=Path("/var/lib/dray"),
        metavar="D",
        help="what must be known after a restart (default /var/lib/dray)",
    )
    parser.add_argument(
        "--host-root", default="/", metavar="R", help="where the host's /sys, /proc and /dev are (default /)"
    )
    parser.add_argument(
        "--node-label",
        action="append",
        default=[],
        metavar="K=V",
        help="a label of this node, for nodeMediatedDeviceTypes; may be given several times",
    )
    parser.add_argument(
        "--node-labels-file",
        type=Path,
        metavar="F",
        help="the same as lines of a file, which go before and are read again when it changes",
    )
    parser.add_argument(
        "--metrics-address",
        default=METRICS_ADDRESS,
        metavar="A",
        help=f"where /metrics, /healthz and /readyz are served (default {METRICS_ADDRESS}; port 0: any; none: not served)",
    )
    _add_cluster(parser.add_argument_group("the API server, for DRA, Events and the labels of the Node"))


def _add_cluster(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="K",
        help="how to reach it (default: in a pod its service account, else there is none; none: do not)",
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
        help="tells two agents of a rolling update apart (default: $POD_UID; empty: one at a time)",
    )
    group.add_argument(
        "--cdi-dir",
        type=Path,
        default=Path("/var/run/cdi"),
        metavar="D",
        help="where CDI files are written (default /var/run/cdi)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    from dray.processes.agent import AgentOptions, run_agent
    from dray.processes.agent_cluster import find_server, parse_node_name
    from dray.processes.agent_config.config_file import parse_label
    from dray.processes.agent_config.config_place import parse_additions_place, parse_place
    from dray.runtime.tasks import run_until_signalled
    from dray.sdk.installed import installed_drivers

    options = AgentOptions(
        config=_absolute(parse_place(arguments.config, "--config")),
        additions=_absolute(parse_additions_place(arguments.additions)),
        access=find_server(arguments.kubeconfig),
        node_name=parse_node_name(arguments.node_name),
        instance=arguments.instance_id,
        cdi_dir=arguments.cdi_dir.absolute(),
        kubelet_dir=arguments.kubelet_dir.absolute(),
        device_plugin_dir=arguments.device_plugin_dir.absolute(),
        state_dir=arguments.state_dir.absolute(),
        host_root=arguments.host_root,
        node_labels=dict(parse_label(text, "--node-label") for text in arguments.node_label),
        node_labels_file=arguments.node_labels_file and arguments.node_labels_file.absolute(),
        metrics=parse_address(arguments.metrics_address),
    )
    own = installed_drivers().kinds
    run_until_signalled(lambda: run_agent(options, own=own))
    return 0


def _absolute(place: P) -> P | Path:
    """A path of a file; what is at the API server as it is."""
    return place.absolute() if isinstance(place, Path) else place


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
