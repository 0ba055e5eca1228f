"""The record of a leader election: what a Lease says, and what a candidate may make of it. Pure.

Times in a record are for people. When a lease runs out is told by the candidate's own monotonic clock, from the
moment it saw the record change: clocks of machines differ, and wall clocks jump.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dray.api.meta import format_micro_time
from dray.errors import InvalidError

JITTER = 1.2
"""A candidate waits up to this share more than the retry period, so that candidates do not march in step."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds. A leader that could not renew for `renew` seconds stops; others wait `lease` seconds before they lead."""

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if self.retry <= 0:
            raise InvalidError(f"retry period: is {self.retry:g} s; give more than 0", field="retry")
        if self.renew <= JITTER * self.retry:
            raise InvalidError(
                f"renew deadline: is {self.renew:g} s; must be more than {JITTER:g} × the retry period of {self.retry:g} s",
                field="renew",
            )
        if int(self.lease) <= self.renew:
            raise InvalidError(
                f"lease duration: is {int(self.lease)} whole s; must be more than the renew deadline of {self.renew:g} s",
                field="lease",
            )


@dataclass(frozen=True, slots=True)
class Seen:
    """A record as a candidate saw it, and when (monotonic) it saw it change."""

    spec: Mapping[str, Any] = field(default_factory=dict)
    at: float = 0.0

    @property
    def holder(self) -> str:
        """Who leads; "" for nobody."""
        holder = self.spec.get("holderIdentity")
        return holder if isinstance(holder, str) else ""

    def is_valid(self, now: float) -> bool:
        """Whether the holder may still think that it leads."""
        seconds = self.spec.get("leaseDurationSeconds")
        return bool(self.holder) and now < self.at + (seconds if isinstance(seconds, int) else 0)

    def after(self, spec: Mapping[str, Any], now: float) -> Seen:
        """What is known after the record was read again: the same record does not get younger by being read."""
        return self if spec == self.spec else Seen(spec, now)


def held(spec: Mapping[str, Any], identity: str, times: LeaseTimes, now: datetime) -> dict[str, Any]:
    """The record with which `identity` takes or renews the lease; fields we do not know stay."""
    stamp = format_micro_time(now)
    is_ours = spec.get("holderIdentity") == identity
    turns = spec.get("leaseTransitions") or 0
    return {
        **spec,
        "holderIdentity": identity,
        "leaseDurationSeconds": int(times.lease),
        "acquireTime": (spec.get("acquireTime") if is_ours else None) or stamp,
        "renewTime": stamp,
        "leaseTransitions": turns if is_ours or not spec else turns + 1,
    }


def released(spec: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The record that lets the next one in at once."""
    stamp = format_micro_time(now)
    kept = {name: value for name, value in spec.items() if name != "holderIdentity"}
    return {**kept, "leaseDurationSeconds": 1, "acquireTime": stamp, "renewTime": stamp}
