"""One pod that waits, with its history, and how long it backs off."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from dray.api.core import Pod
from dray.scheduler.fit.rejection import Rejection
from dray.scheduler.queue.ranked import Rank


class Place(StrEnum):
    """Where a pod is. A bound one is known until its binding is seen, so that late news does not bring it back."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    IN_FLIGHT = "in flight"
    BOUND = "bound"


class QueueOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds, as kube-scheduler has them. `is_eager` takes pods out of their backoff when there is nothing else to do.

    An eager queue ends backoffs on whole seconds, so that of those that end together the most important comes first.
    """

    first_backoff: float = 1.0
    longest_backoff: float = 10.0
    longest_wait: float = 300.0
    is_eager: bool = True


@dataclass(slots=True)
class Attempts:
    """How the tries of a pod went. An error is a try that no check is to blame for."""

    tries: int = 0
    refusals: int = 0
    errors: int = 0


@dataclass(slots=True)
class Waiting:
    """Changed by the queue alone. `since` is when it came, or when its last try ended.

    `rejectors` were against it at the last try or keep it out of the queue (`gate`); those of them that are `pending`
    wait for an answer from somewhere else, and when it comes there is no backoff.
    """

    pod: Pod
    since: float
    attempts: Attempts
    place: Place = Place.ACTIVE
    rejectors: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    gate: Rejection | None = None
    is_gone: bool = False
    came: float = 0.0
    """When it was seen first."""

    @property
    def uid(self) -> str:
        """Pods are told apart by it: a name may be used again."""
        return self.pod.metadata.uid

    @property
    def rank(self) -> Rank:
        """More important pods first, then those that wait longer."""
        return (-(self.pod.spec.priority or 0), self.since)

    def due(self, options: QueueOptions) -> float:
        """When its backoff ends."""
        failures = self.attempts.errors or self.attempts.refusals
        if not failures or not options.longest_backoff:
            return self.since
        # The exponent is bounded: 2.0**1024 would overflow a float.
        delay = min(options.first_backoff * 2.0 ** min(failures - 1, 64), options.longest_backoff)
        return math.floor(self.since + delay) + 1.0 if options.is_eager else self.since + delay
