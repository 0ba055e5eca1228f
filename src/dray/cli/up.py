"""`dray up`: everything on this machine until Ctrl-C, or in the background with --detach."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli.apiserver import add_allow_host
from dray.cli.feature_flags import add_feature_gates
from dray.errors import InvalidError

if TYPE_CHECKING:
    from dray.up.all_in_one import UpOptions

_QUIET = "warning"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_data_dir(parser)
    parser.add_argument(
        "--listen",
        metavar="A",
        help="HOST:PORT of the API server (default: on 127.0.0.1 the port of before, else 6443, else a free one)",
    )
    add_allow_host(parser, "programs may call the API server and browsers the dashboard")
    parser.add_argument(
        "--host-root", default="/", metavar="R", help="where the host's /sys, /proc and /dev are (default /)"
    )
    parser.add_argument(
        "--sim",
        default="",
        metavar="PROFILE",
        help="simulated devices here and simulated nodes: laptop, h200x8-mig, 100-nodes, 1000x8, or a YAML file",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="F",
        help="what the agent serves (default: what the machine has, see DATA-DIR/agent/config.yaml)",
    )
    parser.add_argument(
        "--runtime",
        choices=["auto", "runc", "cri", "process"],
        default="auto",
        help="what runs containers (default auto: as before, else runc for root where it is installed, else plain processes "
        "without isolation)",
    )
    parser.add_argument(
        "--node-name", default="", metavar="N", help="this node's name (default: as before, else the host's)"
    )
    parser.add_argument(
        "--metrics-token-file",
        type=Path,
        metavar="F",
        help="answer only who sends the token in this file (Authorization: Bearer) at the parts' metrics, /healthz and "
        "/readyz aside; nobody while there is none (default: everybody on this machine)",
    )
    add_feature_gates(parser)
    parser.add_argument("--no-dashboard", action="store_true", help="without the pages for a browser")
    parser.add_argument(
        "--detach",
        action="store_true",
        help="run in the background, supervised: it is started again when it dies; `dray down` ends it",
    )
    parser.add_argument("--supervise", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(log_level=_QUIET)


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """The flag of all who look for a `dray up`."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="D",
        help="where everything is kept (default: /var/lib/dray/up for root, else ~/.local/state/dray)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Until SIGINT or SIGTERM; with --detach until it is ready."""
    if arguments.detach or arguments.supervise:
        return _run_apart(arguments)
    from contextlib import ExitStack

    from dray.cli.tables import progress
    from dray.cli.up_view import show_up
    from dray.runtime.tasks import run_until_signalled
    from dray.up.all_in_one import Told, run_up
    from dray.up.place import RunningUp

    options = make_options(arguments)
    with ExitStack() as line:

        def ready(running: RunningUp) -> None:
            line.close()
            if not running.supervisor:
                show_up(running)

        def stopping() -> None:
            line.close()
            line.enter_context(progress())("stopping")
            if arguments.log_level == _QUIET:
                _hush()

        told = Told(line.enter_context(progress()), ready, stopping)
        run_until_signalled(lambda: run_up(options, told=told))
    return 0


def _hush() -> None:
    """That plugins go away while everything ends is no news to who ended it."""
    import logging

    logging.getLogger().setLevel(logging.ERROR)


def _run_apart(arguments: argparse.Namespace) -> int:
    from dray.cli.up_detach import detach, supervise

    if arguments.supervise:
        return supervise(_data_dir(arguments), words_of(arguments))
    make_options(arguments)  # what is wrong with them is told here, not in a log
    return detach(_data_dir(arguments), words_of(arguments))


def words_of(arguments: argparse.Namespace) -> list[str]:
    """The same flags for a process of its own, which may be in another directory."""
    words = [
        "--data-dir",
        str(_data_dir(arguments)),
        "--host-root",
        str(Path(arguments.host_root).absolute()),
    ]
    words += ["--runtime", arguments.runtime, "--log-format", arguments.log_format]
    words += ["--log-level", "info" if arguments.log_level == _QUIET else arguments.log_level]
    if arguments.listen:
        words += ["--listen", arguments.listen]
    for host in arguments.allow_host:
        words += ["--allow-host", host]
    if arguments.config:
        words += ["--config", str(arguments.config.absolute())]
    if arguments.metrics_token_file:
        words += ["--metrics-token-file", str(arguments.metrics_token_file.absolute())]
    if arguments.node_name:
        words += ["--node-name", arguments.node_name]
    if arguments.feature_gates:
        words += ["--feature-gates", arguments.feature_gates]
    if arguments.no_dashboard:
        words.append("--no-dashboard")
    if arguments.sim:
        path = Path(arguments.sim)
        words += ["--sim", str(path.absolute()) if path.is_file() else arguments.sim]
    return words


def make_options(arguments: argparse.Namespace) -> UpOptions:
    """InvalidError names the flag."""
    from dray.apiserver.http.server import Address
    from dray.runtime.flags import check_allowed, parse_address
    from dray.sdk.installed import installed_drivers
    from dray.semantics.features import parse_feature_gates
    from dray.up.all_in_one import UpOptions

    listen = None
    if arguments.listen is not None:
        found = parse_address(arguments.listen, "--listen")
        if found is None:
            raise InvalidError("--listen must be HOST:PORT, like 127.0.0.1:6443", field="--listen")
        listen = Address(*found)
    return UpOptions(
        data_dir=_data_dir(arguments),
        listen=listen,
        allowed_hosts=check_allowed(arguments.allow_host),
        host_root=arguments.host_root,
        config=arguments.config and arguments.config.absolute(),
        sim=arguments.sim,
        runtime=arguments.runtime,
        node_name=arguments.node_name,
        dashboard=not arguments.no_dashboard,
        metrics_token_file=arguments.metrics_token_file and arguments.metrics_token_file.absolute(),
        own=installed_drivers().kinds,
        feature_gates=parse_feature_gates(arguments.feature_gates),
    )


def _data_dir(arguments: argparse.Namespace) -> Path:
    from dray.up.place import default_data_dir

    found: Path = arguments.data_dir or default_data_dir()
    return found.absolute()
