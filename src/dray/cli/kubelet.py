"""`dray kubelet`: gives devices to the pods of this machine and runs their containers, until it is told to stop."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli.feature_flags import add_feature_gates
from dray.errors import InvalidError
from dray.runtime.flags import add_metrics_readers, parse_address, read_metrics_readers

if TYPE_CHECKING:
    from dray.kubelet.runtimes.contract import LogLimits

METRICS_ADDRESS = "127.0.0.1:9615"
_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    pods = parser.add_argument_group("where pods come from (one at least)")
    pods.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="K",
        help="the API server: pods bound to this node, which it keeps Ready",
    )
    pods.add_argument(
        "--manifests", type=Path, metavar="D", help="a directory of pod manifests, followed as it changes"
    )
    pods.add_argument(
        "-f",
        "--filename",
        type=Path,
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        help="pods to run",
    )
    node = parser.add_argument_group("the node")
    node.add_argument("--node-name", default="", metavar="N", help="this node's name (default: the host's)")
    node.add_argument(
        "--node-label",
        action="append",
        default=[],
        metavar="K=V",
        help="a label of the Node; may be repeated",
    )
    node.add_argument(
        "--max-pods", type=int, default=110, metavar="N", help="so many pods at most (default 110)"
    )
    add_feature_gates(node)
    runtime = parser.add_argument_group("containers")
    runtime.add_argument(
        "--runtime",
        choices=["runc", "cri", "process"],
        default="runc",
        help=(
            "what runs them (default runc, which needs root); cri: containerd or another one over its socket; "
            "process: plain processes, without isolation"
        ),
    )
    runtime.add_argument(
        "--runc", type=Path, metavar="F", help="the program (default: where programs usually are)"
    )
    runtime.add_argument(
        "--cri-socket",
        type=Path,
        default=Path("/run/containerd/containerd.sock"),
        metavar="S",
        help="the runtime's, for --runtime cri (default /run/containerd/containerd.sock)",
    )
    runtime.add_argument(
        "--allow-host-image",
        action="store_true",
        help="`image: host` shows a container the files of this machine, read-only",
    )
    runtime.add_argument(
        "--image-dir",
        type=Path,
        action="append",
        metavar="D",
        help=(
            "images of --runtime runc are taken from below this directory; may be repeated "
            "(default /var/lib/dray/images; with --allow-host-image from anywhere)"
        ),
    )
    runtime.add_argument(
        "--cdi-dir",
        type=Path,
        action="append",
        metavar="D",
        help="where CDI files are; may be repeated, later ones win (default /etc/cdi and /var/run/cdi)",
    )
    runtime.add_argument(
        "--container-log-max-size",
        default="10Mi",
        metavar="SIZE",
        help="a log of this size is put aside, and a new one begun (default 10Mi)",
    )
    runtime.add_argument(
        "--container-log-max-files",
        type=int,
        default=5,
        metavar="N",
        help="so many files of a container's log are kept, 2 or more (default 5)",
    )
    topology = parser.add_argument_group("NUMA")
    topology.add_argument(
        "--topology-manager-policy",
        choices=_POLICIES,
        default="none",
        help="which misaligned pods are refused (default none)",
    )
    topology.add_argument(
        "--topology-manager-scope",
        choices=["container", "pod"],
        default="container",
        help="what is aligned as one (default container)",
    )
    topology.add_argument(
        "--topology-manager-policy-options", default="", metavar="K=V,…", help="as of a kubelet"
    )
    _add_places(parser.add_argument_group("places"))


def _add_places(places: argparse._ArgumentGroup) -> None:
    for flag, default, text in (
        ("--kubelet-dir", "/var/lib/kubelet", "the root: plugins_registry, pod-resources, state of claims"),
        ("--device-plugin-dir", "/var/lib/kubelet/device-plugins", "where device plugins register"),
        ("--state-dir", "/var/lib/dray/kubelet", "what must be known after a restart"),
        ("--log-dir", "/var/log/pods", "the containers' logs"),
    ):
        places.add_argument(
            flag, type=Path, default=Path(default), metavar="D", help=f"{text} (default {default})"
        )
    places.add_argument("--host-root", default="/", metavar="R", help="where the host's /sys is (default /)")
    places.add_argument(
        "--metrics-address",
        default=METRICS_ADDRESS,
        metavar="A",
        help=f"where /metrics and /healthz are served (default {METRICS_ADDRESS}; port 0: any; none: not served)",
    )
    add_metrics_readers(places)
    places.add_argument(
        "--listen",
        metavar="A",
        help=(
            "where the API server, and nobody else, gets the containers' logs "
            "(default: the node's address and a free port; none: not served)"
        ),
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    from dray.agent.config.config_file import parse_label
    from dray.cdi.registry import DIRECTORIES
    from dray.kubelet.runtimes.images import IMAGES
    from dray.kubelet.server.container_logs import ANYWHERE
    from dray.kubelet.topology.options import TopologyConfig
    from dray.processes.kubelet import KubeletOptions, run_kubelet
    from dray.runtime.tasks import run_until_signalled
    from dray.semantics.features import enabled_gates, parse_feature_gates

    options = KubeletOptions(
        node_name=arguments.node_name,
        root_dir=arguments.kubelet_dir.absolute(),
        device_plugin_dir=arguments.device_plugin_dir.absolute(),
        state_dir=arguments.state_dir.absolute(),
        log_dir=arguments.log_dir.absolute(),
        host_root=arguments.host_root,
        runtime=arguments.runtime,
        runc=arguments.runc,
        cri_socket=arguments.cri_socket.absolute(),
        allow_host_image=arguments.allow_host_image,
        image_dirs=tuple(one.absolute() for one in arguments.image_dir or (IMAGES,)),
        cdi_dirs=tuple(arguments.cdi_dir or DIRECTORIES),
        kubeconfig=arguments.kubeconfig,
        manifests=arguments.manifests and arguments.manifests.absolute(),
        files=tuple(arguments.filename),
        labels=dict(parse_label(text, "--node-label") for text in arguments.node_label),
        topology=TopologyConfig(
            arguments.topology_manager_policy,
            arguments.topology_manager_scope,
            _pairs(arguments.topology_manager_policy_options),
        ),
        max_pods=arguments.max_pods,
        metrics=parse_address(arguments.metrics_address),
        metrics_readers=read_metrics_readers(arguments),
        logs=parse_address(arguments.listen, "--listen") if arguments.listen is not None else ANYWHERE,
        container_logs=log_limits(arguments.container_log_max_size, arguments.container_log_max_files),
        feature_gates=enabled_gates(parse_feature_gates(arguments.feature_gates)),
    )
    run_until_signalled(lambda: run_kubelet(options))
    return 0


def log_limits(size: str, files: int) -> LogLimits:
    """From `--container-log-max-size` and `--container-log-max-files`."""
    from dray.api.quantity import parse_quantity
    from dray.kubelet.runtimes.contract import LogLimits

    try:
        found = parse_quantity(size).value()
    except InvalidError as error:
        raise InvalidError(
            f"--container-log-max-size {size!r}: {error}", field="--container-log-max-size"
        ) from error
    if found <= 0:
        raise InvalidError(
            f"--container-log-max-size must be more than 0, not {size!r}", field="--container-log-max-size"
        )
    if files < 2:
        raise InvalidError(
            f"--container-log-max-files must be 2 or more, not {files}", field="--container-log-max-files"
        )
    return LogLimits(found, files)


def _pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in filter(None, text.split(",")):
        key, separator, value = each.partition("=")
        if not separator:
            raise InvalidError(
                f"--topology-manager-policy-options {each!r} must be key=value",
                field="--topology-manager-policy-options",
            )
        found[key.strip()] = value.strip()
    return found
