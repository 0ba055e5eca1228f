"""The flags of programs of which one works and the others wait: the same names, help and defaults for all of them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dray.client.leader import LeaderConfig


def add_leader_flags(
    group: argparse._ArgumentGroup, name: str, *, elect: str, namespace: str, lease: str
) -> None:
    """`name` is the Lease's by default; the others are the help of the flags that differ."""
    group.add_argument("--leader-elect", action="store_true", help=elect)
    group.add_argument(
        "--leader-elect-resource-namespace",
        default="kube-system",
        metavar="NS",
        help=f"{namespace} (default kube-system)",
    )
    group.add_argument(
        "--leader-elect-resource-name", default=name, metavar="NAME", help=f"{lease} (default {name})"
    )
    for flag, default, text in (
        ("lease-duration", 15.0, "how long others wait for a leader that went silent"),
        ("renew-deadline", 10.0, "how long a leader works without having renewed"),
        ("retry-period", 2.0, "how often it is tried"),
    ):
        group.add_argument(
            f"--leader-elect-{flag}",
            type=float,
            default=default,
            metavar="SECONDS",
            help=f"{text} (default {default:g})",
        )


def leader_config(arguments: argparse.Namespace, name: str) -> LeaderConfig:
    """InvalidError where the times do not go together."""
    from dray.client.leader import LeaderConfig
    from dray.client.lease import LeaseTimes

    times = LeaseTimes(
        arguments.leader_elect_lease_duration,
        arguments.leader_elect_renew_deadline,
        arguments.leader_elect_retry_period,
    )
    return LeaderConfig(arguments.leader_elect_resource_namespace, name, times=times)
