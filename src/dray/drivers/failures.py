"""What failed of late when the host was to be changed, and when it may be tried again. Plans take it as a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dray.errors import Error
from dray.hardware.change import CreateMdev, HostChange, SetVgpuProfile
from dray.hardware.change.executor import Applied
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import Clock

RETRIES = BackoffPolicy(first=2.0, factor=2.0, limit=300.0, jitter=0.0)

Apply = Callable[[HostChange], Applied]
"""An executor's `apply`."""

Key = tuple[str, ...]


def key_of(change: HostChange) -> Key:
    """What fails as one: creations by card and type, whatever the UUID; profiles by function and profile; else the device."""
    if isinstance(change, CreateMdev):
        return (change.parent, change.type_id)
    if isinstance(change, SetVgpuProfile):
        return (change.address, str(change.profile))
    return (change.device,)


@dataclass(frozen=True, slots=True)
class Failure:
    """A change that failed `tries` times in a row. It is not planned again before `retry_at`."""

    change: HostChange
    error: str
    tries: int
    retry_at: float

    @property
    def how_often(self) -> str:
        """The tries, in words."""
        return "the first time" if self.tries == 1 else f"in {self.tries} tries"


@dataclass(frozen=True, slots=True)
class Failures:
    """What failed of late, by `key_of`. A value, as a plan is.

    The first retry comes after 2 s, the next ones after twice as long each, up to 5 minutes. A restart forgets all.
    """

    by_key: Mapping[Key, Failure] = field(default_factory=dict)
    policy: BackoffPolicy = RETRIES

    def after(self, change: HostChange, error: str, now: float) -> Failures:
        """With one failure more."""
        before = self.by_key.get(key_of(change))
        tries = before.tries if before else 0
        delay = min(self.policy.limit, self.policy.first * self.policy.factor ** min(tries, 64))
        failure = Failure(change, error, tries + 1, now + delay)
        return Failures({**self.by_key, key_of(change): failure}, self.policy)

    def without(self, change: HostChange) -> Failures:
        """After a success."""
        return Failures({k: f for k, f in self.by_key.items() if k != key_of(change)}, self.policy)

    def joined(self, other: Failures) -> Failures:
        """Both; of two for one key the one that waits longer."""
        both = dict(self.by_key)
        for key, failure in other.by_key.items():
            both[key] = max(failure, both.get(key, failure), key=lambda one: one.retry_at)
        return Failures(both, self.policy)

    def waiting(self, key: Key, now: float) -> Failure | None:
        """The failure whose time has not come."""
        failure = self.by_key.get(key)
        return failure if failure is not None and now < failure.retry_at else None


class Attempts:
    """Changes made one after another; `failures` is what the caller had, with what became of each."""

    def __init__(self, apply: Apply, failures: Failures, clock: Clock) -> None:
        self._apply, self._clock = apply, clock
        self.failures = failures

    def make(self, change: HostChange) -> bool | None:
        """Whether the host was changed; None where it failed."""
        try:
            applied = self._apply(change)
        except Error as error:
            self.fail(change, str(error))
            return None
        self.failures = self.failures.without(change)
        return applied.changed

    def fail(self, change: HostChange, error: str) -> None:
        """It was not even tried, for this reason."""
        self.failures = self.failures.after(change, error, self._clock.monotonic())
