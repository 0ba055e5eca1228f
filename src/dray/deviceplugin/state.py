"""How a plugin stands with the kubelet, in words for people and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """`REFUSED`: somebody else serves the resource or its socket. `FAILED`: anything else went wrong; both are retried."""

    STARTING = "starting"
    WAITING = "waiting for kubelet"
    REGISTERED = "registered"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PluginState:
    """`reason` is what an operator can act on; `retry_s` are the seconds between it and the next try."""

    phase: Phase
    reason: str = ""
    retry_s: float | None = None

    def __str__(self) -> str:
        retry = "" if self.retry_s is None else f", next try in {self.retry_s:g} s"
        return f"{self.phase.value}: {self.reason}{retry}" if self.reason else self.phase.value


STARTING = PluginState(Phase.STARTING)
WAITING = PluginState(Phase.WAITING)
REGISTERED = PluginState(Phase.REGISTERED)
