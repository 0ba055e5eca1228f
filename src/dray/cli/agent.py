"""`dray agent`: finds this machine's devices and offers them to its kubelet, until it is told to stop."""

from __future__ import annotations

import argparse
from pathlib import Path

from dray.errors import InvalidError

METRICS_ADDRESS = "127.0.0.1:9614"
_LATER = ("cdi_dir", "kubeconfig", "node_name")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--config",
        required=True,
        type=Path,
        metavar="F",
        help="what to serve: KubeVirt's configuration, with additions under `dray:`; read again when it changes",
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
    later = parser.add_argument_group("for DRA, which this version does not serve yet")
    later.add_argument("--cdi-dir", type=Path, metavar="D", help="where CDI files are written")
    later.add_argument("--kubeconfig", type=Path, metavar="K", help="how to reach the API server")
    later.add_argument("--node-name", metavar="N", help="this node's name")


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    from dray.processes.agent import AgentOptions, run_agent
    from dray.processes.config_file import parse_label
    from dray.runtime.logs import get_log
    from dray.runtime.tasks import run_until_signalled

    for name in _LATER:
        if getattr(arguments, name) is not None:
            get_log("agent").warning("flag has no effect yet", flag=f"--{name.replace('_', '-')}")
    options = AgentOptions(
        config=arguments.config.absolute(),
        kubelet_dir=arguments.kubelet_dir.absolute(),
        device_plugin_dir=arguments.device_plugin_dir.absolute(),
        state_dir=arguments.state_dir.absolute(),
        host_root=arguments.host_root,
        node_labels=dict(parse_label(text, "--node-label") for text in arguments.node_label),
        node_labels_file=arguments.node_labels_file and arguments.node_labels_file.absolute(),
        metrics=parse_address(arguments.metrics_address),
    )
    run_until_signalled(lambda: run_agent(options))
    return 0


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
