"""`dray agent`: finds this machine's devices and offers them to its kubelet, until it is told to stop."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from dray.agent.flags import add_cluster, add_host, read_options
from dray.runtime.flags import METRICS_ADDRESS

P = TypeVar("P")

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
    add_host(parser, metrics=METRICS_ADDRESS, reads_environment=False)
    parser.add_argument(
        "--state-dir",
        type=Path,
        default=Path("/var/lib/dray"),
        metavar="D",
        help="what must be known after a restart (default /var/lib/dray)",
    )
    parser.add_argument(
        "--node-label",
        action="append",
        default=[],
        metavar="K=V",
        help="a label of this node, for nodeMediatedDeviceTypes; may be repeated",
    )
    parser.add_argument(
        "--node-labels-file",
        type=Path,
        metavar="F",
        help="the same as lines of a file, which go before and are read again when it changes",
    )
    cluster = parser.add_argument_group("the API server, for DRA, Events and the labels of the Node")
    add_cluster(cluster, reads_environment=False)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    from dray.agent.config.config_file import parse_label
    from dray.agent.config.config_place import parse_additions_place, parse_place
    from dray.processes.agent import run_agent
    from dray.runtime.tasks import run_until_signalled
    from dray.sdk.installed import installed_drivers

    options = replace(
        read_options(arguments),
        config=_absolute(parse_place(arguments.config, "--config")),
        additions=_absolute(parse_additions_place(arguments.additions)),
        state_dir=arguments.state_dir.absolute(),
        node_labels=dict(parse_label(text, "--node-label") for text in arguments.node_label),
        node_labels_file=arguments.node_labels_file and arguments.node_labels_file.absolute(),
    )
    own = installed_drivers().kinds
    run_until_signalled(lambda: run_agent(options, own=own))
    return 0


def _absolute(place: P) -> P | Path:
    """A path of a file; what is at the API server as it is."""
    return place.absolute() if isinstance(place, Path) else place
