"""How long to wait before the next try."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """First delay, growth, ceiling and spread. `jitter` 0.2 means up to 20 % more, so that peers do not march in step."""

    first: float = 0.1
    factor: float = 2.0
    limit: float = 30.0
    jitter: float = 0.2


@dataclass(slots=True)
class Backoff:
    """One retry sequence: `next()` after each failure, `reset()` after a success. Owned by one task."""

    policy: BackoffPolicy = field(default_factory=BackoffPolicy)
    rng: random.Random = field(default_factory=random.Random)
    failures: int = 0

    def next(self) -> float:
        """Seconds to wait now; grows with every call until `reset`."""
        policy = self.policy
        # The exponent is bounded: 2.0**1024 would overflow a float after a long outage.
        delay = min(policy.limit, policy.first * policy.factor ** min(self.failures, 64))
        self.failures += 1
        return delay * (1.0 + policy.jitter * self.rng.random())

    def reset(self) -> None:
        """Start over: the last try worked."""
        self.failures = 0
