"""A pod that this node does not take. Final: the pod's phase becomes Failed, and nobody tries again."""

from __future__ import annotations

from dataclasses import dataclass

from dray.errors import Error

ADMISSION_ERROR = "UnexpectedAdmissionError"
TOPOLOGY_ERROR = "TopologyAffinityError"


@dataclass(frozen=True, slots=True)
class Rejection:
    """`reason` and `message` as a kubelet writes them into the pod's status, there after "Pod was rejected: "."""

    reason: str
    message: str


def unexpected(error: Error) -> Rejection:
    """For an Allocate that failed."""
    return Rejection(ADMISSION_ERROR, f"Allocate failed due to {error}, which is unexpected")


def misaligned() -> Rejection:
    """For a topology that the policy does not accept."""
    return Rejection(TOPOLOGY_ERROR, "Resources cannot be allocated with Topology locality")
