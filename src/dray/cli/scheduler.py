"""`dray scheduler`: puts pods on nodes, with their devices."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dray.cli.cluster import add_kubeconfig_arguments
from dray.cli.feature_flags import add_feature_gates
from dray.cli.leader_flags import add_leader_flags, leader_config
from dray.errors import InvalidError
from dray.runtime.flags import add_metrics_readers, parse_address, read_metrics_readers

if TYPE_CHECKING:
    from dray.processes.scheduler import SchedulerOptions

METRICS_ADDRESS = "127.0.0.1:9618"
NAME = "dray"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_kubeconfig_arguments(parser, finds_up=False)
    parser.add_argument(
        "--scheduler-name",
        default=NAME,
        metavar="N",
        help=f"the pods with this schedulerName are ours (default {NAME}); default-scheduler where kube-scheduler is off",
    )
    parser.add_argument(
        "--metrics-address",
        default=METRICS_ADDRESS,
        metavar="A",
        help=f"where /metrics, /healthz and /readyz are served (default {METRICS_ADDRESS}; port 0: any; none: not served)",
    )
    add_metrics_readers(parser)
    _add_decisions(parser.add_argument_group("decisions"))
    work = parser.add_argument_group("work")
    work.add_argument(
        "--in-flight", type=int, default=64, metavar="N", help="pods written at once (default 64)"
    )
    work.add_argument(
        "--state-dir",
        type=Path,
        metavar="D",
        help="note there which pod is being decided: one that ends the scheduler three times is set aside (default: nowhere)",
    )
    add_leader_flags(
        parser.add_argument_group("one of several"),
        "dray-scheduler",
        elect="work only while holding a Lease; without it several may run at once, which is safe but wasteful",
        namespace="where the Lease is",
        lease="the scheduler's Lease",
    )


def _add_decisions(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--profile",
        default="correct",
        metavar="P",
        help="whose decisions about devices: correct, k8s-1.36 or k8s-1.37 (default correct)",
    )
    group.add_argument(
        "--quirks",
        default="",
        metavar="LIST",
        help="single mistakes on top of the profile: Q16, Q17 on, -Q16 off",
    )
    add_feature_gates(group)
    group.add_argument(
        "--score",
        choices=["kubernetes", "best-fit", "spread"],
        default="kubernetes",
        help="kubernetes scores no devices (default); best-fit fills nodes up, spread keeps devices free on each",
    )
    group.add_argument(
        "--nodes-to-score",
        type=int,
        default=0,
        metavar="PERCENT",
        help="how many of the nodes that do are compared: 1 to 100 percent, 0: a hundred nodes (default), "
        "-1: as kube-scheduler does",
    )
    group.add_argument(
        "--preempt", action="store_true", help="delete pods of lower priority for the devices they hold"
    )
    group.add_argument(
        "--filter-timeout",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="stop the search for devices on one node after so long (default 10, as kube-scheduler)",
    )
    group.add_argument(
        "--decision-timeout",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="stop the decision about one pod after so long; other pods are decided meanwhile (default 10)",
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="of the lot between equal nodes")


def run(arguments: argparse.Namespace) -> int:
    """Schedule until SIGINT or SIGTERM."""
    from dray.processes.scheduler import run_scheduler
    from dray.runtime.tasks import run_until_signalled

    options = make_options(arguments)
    run_until_signalled(lambda: run_scheduler(options))
    return 0


def make_options(arguments: argparse.Namespace) -> SchedulerOptions:
    """InvalidError names the flag."""
    from dataclasses import replace

    from dray.allocation.profiles import profile_named
    from dray.processes.scheduler import SchedulerOptions
    from dray.runtime.forked import Limits
    from dray.scheduler.apart import ApartOptions
    from dray.scheduler.claims.settings import Settings
    from dray.scheduler.cycle import CycleOptions, Score
    from dray.scheduler.scheduler import SchedulerConfig
    from dray.semantics.features import parse_feature_gates

    if arguments.in_flight < 1:
        raise InvalidError(f"--in-flight is {arguments.in_flight}: give at least 1", field="--in-flight")
    if not -1 <= arguments.nodes_to_score <= 100:
        raise InvalidError("--nodes-to-score must be -1 to 100", field="--nodes-to-score")
    for flag, seconds in (
        ("--filter-timeout", arguments.filter_timeout),
        ("--decision-timeout", arguments.decision_timeout),
    ):
        if not 0.1 <= seconds <= 3600:
            raise InvalidError(f"{flag} is {seconds:g}: give 0.1 to 3600 seconds", field=flag)
    if not arguments.scheduler_name:
        raise InvalidError("--scheduler-name must not be empty", field="--scheduler-name")
    leader = leader_config(arguments, arguments.leader_elect_resource_name)
    switches = parse_feature_gates(arguments.feature_gates)
    settings = Settings.of_gates(profile_named(arguments.profile), switches)
    settings = replace(
        settings,
        quirks=settings.quirks.switched(arguments.quirks),
        options=replace(settings.options, seconds=arguments.filter_timeout),
    )
    score = Score(arguments.score)
    config = SchedulerConfig(
        name=arguments.scheduler_name,
        settings=settings,
        cycle=CycleOptions(score, arguments.nodes_to_score, arguments.seed),
        in_flight=arguments.in_flight,
        preempt=arguments.preempt,
        apart=ApartOptions(limits=Limits(arguments.decision_timeout)),
        state_dir=arguments.state_dir,
    )
    return SchedulerOptions(
        kubeconfig=arguments.kubeconfig,
        context=arguments.context,
        config=config,
        metrics=parse_address(arguments.metrics_address),
        metrics_readers=read_metrics_readers(arguments),
        lease=leader if arguments.leader_elect else None,
    )
