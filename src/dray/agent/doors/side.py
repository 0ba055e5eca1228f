"""The DRA door of the agent: one driver for each kind that is offered there, started and stopped as the configuration says."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

from dray.agent.doors.kind import DraGround, DraKind, KindWish
from dray.errors import ConflictError, Error
from dray.inventory.ledger import Door
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.logs import get_log
from dray.runtime.tasks import STOP_TIMEOUT, single, wait_first
from dray.wire.registration_state import STARTING, RegistrationPhase, RegistrationState

_log = get_log("agent")
_PAUSES: Final = BackoffPolicy(first=0.5, limit=30.0)
_STOP_SECONDS: Final = 40.0
"""A driver that leaves finishes running calls first."""


class DraSide:
    """One task runs `run`; `want` may be called at any time, before it too, and only the newest wish counts.

    A kind of which claims hold something is served until it is given back, whatever the wish.
    """

    def __init__(self, ground: DraGround) -> None:
        self._ground = ground
        self._wanted: dict[str, KindWish] = {}
        self._others: dict[str, KindWish] = {}
        self._running: dict[str, _Running] = {}
        self._changed = asyncio.Event()
        self._has_served: set[str] = set()
        ground.metrics.follow(
            lambda: {name: one.phase is RegistrationPhase.REGISTERED for name, one in self.states().items()},
            self.prepared,
            lambda: {one.kind.wish.name: one.kind.quarantine for one in self._running.values()},
        )

    def want(self, wishes: Iterable[KindWish], others: Iterable[KindWish] = ()) -> None:
        """Replace the wish. A driver that runs is restarted only where it must be (`KindWish.terms`).

        `others` are kinds that are offered through plugins alone: served while claims still hold something of them.
        """
        self._wanted = {wish.kind: wish for wish in wishes}
        self._others = {wish.kind: wish for wish in others}
        known = self._others | self._wanted
        for kind, one in self._running.items():
            wish = known.get(kind)
            if wish is not None and wish.terms == one.kind.wish.terms:
                one.kind.wish = wish
        self._changed.set()

    def states(self) -> Mapping[str, RegistrationState]:
        """How each wanted driver stands with the kubelet, by its name."""
        return {wish.name: self._state(kind) for kind, wish in sorted(self._wanted.items())}

    def prepared(self) -> Mapping[str, int]:
        """How many devices claims have through each wanted driver."""
        held = Counter(
            one.kind for one in self._ground.holds.current.holds if one.door is Door.DRA and one.confirmed
        )
        return {wish.name: held[kind] for kind, wish in sorted(self._wanted.items())}

    @property
    def is_initialized(self) -> bool:
        """Whether the kubelet has every wanted driver."""
        return all(state.phase is RegistrationPhase.REGISTERED for state in self.states().values())

    async def run(self) -> NoReturn:
        """Until cancelled; then running calls are finished. ConflictError where another process serves a name at start."""
        holds = self._ground.holds
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._changed.clear()
                    generation = holds.current.generation
                    kept = self._kept()
                    await self._stop(kept)
                    for kind, wish in sorted(kept.items()):
                        if kind not in self._running:
                            self._start(group, wish)
                    await wait_first(self._changed.wait(), holds.wait_newer(generation))
        except BaseExceptionGroup as failures:
            raise one_of(failures) from None
        finally:
            self._running.clear()

    def _state(self, kind: str) -> RegistrationState:
        one = self._running.get(kind)
        if one is None or one.kind.driver is None:
            return (
                RegistrationState(RegistrationPhase.FAILED, one.failure) if one and one.failure else STARTING
            )
        return one.kind.driver.state

    def _kept(self) -> dict[str, KindWish]:
        """What is wanted, and what cannot be left yet."""
        held = self._ground.holds.current.kinds(Door.DRA)
        left = {kind: one.kind.wish for kind, one in self._running.items()} | self._others
        return {kind: wish for kind, wish in left.items() if kind in held} | self._wanted

    def _start(self, group: asyncio.TaskGroup, wish: KindWish) -> None:
        one = _Running(DraKind(self._ground, wish))
        one.task = group.create_task(self._serve(one), name=f"DRA driver {wish.name}")
        one.task.add_done_callback(lambda _: self._changed.set())
        self._running[wish.kind] = one
        _log.info("DRA driver starts", driver=wish.name, kind=wish.kind)

    async def _serve(self, one: _Running) -> NoReturn:
        """Where it cannot start, it is tried again; a name that somebody else has when the process starts ends the process."""
        backoff = Backoff(_PAUSES)
        while True:
            name = one.kind.wish.name
            try:
                async with one.kind.serving():
                    one.failure = ""
                    self._has_served.add(name)
                    await asyncio.Event().wait()
            except Error as error:
                if isinstance(error, ConflictError) and not self._has_served:
                    raise
                _log.error("DRA driver does not serve, will try again", driver=name, error=str(error))
                one.failure = str(error)
            await self._ground.clock.sleep(backoff.next())

    async def _stop(self, kept: Mapping[str, KindWish]) -> None:
        """Cancel and join what is not wanted as it runs."""
        ending = {
            kind: one.task
            for kind, one in self._running.items()
            if one.task is not None
            and (one.task.done() or kind not in kept or kept[kind].terms != one.kind.wish.terms)
        }
        for task in ending.values():
            task.cancel()
        if ending:
            await asyncio.wait(ending.values(), timeout=_STOP_SECONDS + STOP_TIMEOUT)
        for kind, task in ending.items():
            if task.done():
                del self._running[kind]
                _log.info("DRA driver stopped", kind=kind)
            else:
                _log.error("DRA driver does not stop", kind=kind)


def one_of(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """As `single`; and where several drivers found their names taken, the first: a user needs one line."""
    found = single(failures)
    _, others = failures.split(ConflictError)
    while others is None and isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


class _Running:
    """A driver that was started."""

    def __init__(self, kind: DraKind) -> None:
        self.kind = kind
        self.task: asyncio.Task[NoReturn] | None = None
        self.failure = ""
