"""From the sockets that are there and those that are registered to what is to be done. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

BACKOFF_FIRST = 0.5
BACKOFF_LIMIT = 122.0


@dataclass(frozen=True, slots=True)
class Register:
    """Ask the plugin behind a socket who it is, and take it."""

    path: str
    generation: int


@dataclass(frozen=True, slots=True)
class Unregister:
    """Drop a plugin: its socket is gone, or another file by now."""

    path: str


Operation = Register | Unregister


@dataclass(frozen=True, slots=True)
class Wait:
    """What the failures so far mean for the next try."""

    generation: int
    delay: float
    until: float


def failed(before: Wait | None, generation: int, now: float) -> Wait:
    """One more failure. A socket that was made anew starts over, and so does one that did not fail for long."""
    if before is None or before.generation != generation or now - before.until > BACKOFF_LIMIT:
        return Wait(generation, BACKOFF_FIRST, now + BACKOFF_FIRST)
    delay = min(before.delay * 2, BACKOFF_LIMIT)
    return Wait(generation, delay, now + delay)


@dataclass(frozen=True, slots=True)
class World:
    """Sockets by path, each with the generation of its file; paths with an operation under way; failures."""

    desired: Mapping[str, int]
    actual: Mapping[str, int]
    busy: Collection[str] = ()
    waits: Mapping[str, Wait] | None = None

    def wait_of(self, path: str, generation: int) -> Wait | None:
        """The failures of this very file."""
        wait = (self.waits or {}).get(path)
        return wait if wait is not None and wait.generation == generation else None


def operations(world: World, now: float) -> list[Operation]:
    """What may begin now, at most one for each path: first all that ends, then all that begins, what failed least first."""
    ends: list[Operation] = [
        Unregister(path)
        for path, generation in sorted(world.actual.items())
        if path not in world.busy and world.desired.get(path) != generation
    ]
    begins: list[Operation] = [
        Register(path, generation)
        for path, generation in sorted(world.desired.items(), key=lambda one: (_delay(world, *one), one))
        if path not in world.busy and path not in world.actual and _is_due(world, path, generation, now)
    ]
    return ends + begins


def next_due(world: World, now: float) -> float | None:
    """Seconds until the first failed registration is tried again; None where none is."""
    rests = [
        wait.until - now
        for path, generation in world.desired.items()
        if path not in world.actual and path not in world.busy
        if (wait := world.wait_of(path, generation)) is not None and wait.until > now
    ]
    return min(rests, default=None)


def _delay(world: World, path: str, generation: int) -> float:
    wait = world.wait_of(path, generation)
    return 0.0 if wait is None else wait.delay


def _is_due(world: World, path: str, generation: int, now: float) -> bool:
    wait = world.wait_of(path, generation)
    return wait is None or wait.until <= now
