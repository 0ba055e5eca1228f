"""The flag that tells a part which of Kubernetes' feature gates are not as by default."""

from __future__ import annotations

import argparse


def add_feature_gates(parser: argparse._ActionsContainer) -> None:
    """The same for all parts, so that a cluster can be told the same everywhere; `semantics.features` reads it."""
    parser.add_argument(
        "--feature-gates",
        default="",
        metavar="GATE=BOOL,…",
        help="Kubernetes' feature gates that are not to be as by default, such as DRAWorkloadResourceClaims=true",
    )
