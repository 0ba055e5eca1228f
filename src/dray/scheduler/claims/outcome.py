"""How a step ended, in the scheduler framework's terms."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Code(StrEnum):
    """UNRESOLVABLE: no eviction of pods helps, only a change of the cluster. ERROR ends the attempt on all nodes."""

    SUCCESS = "Success"
    SKIP = "Skip"
    UNSCHEDULABLE = "Unschedulable"
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    ERROR = "Error"


@dataclass(frozen=True, slots=True)
class Status:
    """`reason` is kube-scheduler's text where it has one."""

    code: Code = Code.SUCCESS
    reason: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the next step may follow."""
        return self.code is Code.SUCCESS


SUCCESS: Final = Status()
SKIP: Final = Status(Code.SKIP)


def unresolvable(reason: str) -> Status:
    """The pod waits until something in the cluster changes."""
    return Status(Code.UNRESOLVABLE, reason)


def unschedulable(reason: str) -> Status:
    """As `unresolvable`, where a step after filtering says so."""
    return Status(Code.UNSCHEDULABLE, reason)


def failure(reason: str) -> Status:
    """The pod is tried again after a pause."""
    return Status(Code.ERROR, reason)
