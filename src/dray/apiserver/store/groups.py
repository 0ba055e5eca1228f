"""Group commit: decisions wait for the disk together, and what is decided meanwhile goes into the next group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from dray.apiserver.store.history import History
from dray.apiserver.store.journal import Batch, Journal
from dray.apiserver.store.memory import Layer, Step
from dray.apiserver.store.transaction import Counter
from dray.apiserver.store.worker import Worker
from dray.errors import Error, HardwareError, UnavailableError
from dray.runtime.logs import get_log

_log = get_log("apiserver.store.groups")

_STOPS: Final = "the store stops, and the disk has not answered yet"

Settle = Callable[[Sequence[Step]], None]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A decision that is not durable yet; `durable` is done when it is, or failed. Without steps it only waits for
    what it saw.
    """

    steps: Sequence[Step]
    durable: asyncio.Future[None]


class Groups:
    """What is decided and not durable. `decided` is the newest state, on top of the durable one.

    `commits` counts those that succeeded; `bytes` is how much waits to be written.
    """

    def __init__(
        self, journal: Journal, worker: Worker, decided: Layer, history: History, counter: Counter
    ) -> None:
        self.decided = decided
        self.commits = 0
        self.bytes = 0
        self._journal = journal
        self._worker = worker
        self._history = history
        self._counter = counter
        self._running: list[Waiting] = []
        self._next: list[Waiting] = []
        self._arrived = asyncio.Event()
        self._is_over = False

    @property
    def waiting(self) -> int:
        """How many decisions wait."""
        return len(self._running) + len(self._next)

    def add(self, steps: Sequence[Step]) -> asyncio.Future[None]:
        """Take a decision in; the future is done when it is durable, and has the error where it never will be."""
        if self._is_over:
            raise UnavailableError(_STOPS)
        waiting = Waiting(steps, asyncio.get_running_loop().create_future())
        for step in steps:
            self.decided.apply(step)
            self.bytes += len(step.change.new.raw)
        self._next.append(waiting)
        self._arrived.set()
        return waiting.durable

    async def run(self, settle: Settle) -> None:
        """Commit group after group until cancelled; `settle` shows a durable one to everyone. Fails what is left then."""
        try:
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                while self._next:
                    await self._commit_next(settle)
        finally:
            self._is_over = True
            self._fail_all(UnavailableError(_STOPS))

    async def wait_empty(self, seconds: float) -> None:
        """Wait until nothing waits that waits now, but not longer than this."""
        if waiting := {waiting.durable for waiting in (*self._running, *self._next)}:
            await asyncio.wait(waiting, timeout=seconds)

    async def _commit_next(self, settle: Settle) -> None:
        self._running, self._next = self._next, []
        steps = [step for waiting in self._running for step in waiting.steps]
        try:
            if steps:
                await self._commit(steps)
        except Error as error:
            self._fail_all(error)
        else:
            self._succeed(steps, settle)

    async def _commit(self, steps: Sequence[Step]) -> None:
        rows = self._history.unneeded
        batch = Batch([step.change for step in steps], self._counter.given, self._history.floor, rows)
        await self._worker.submit(partial(self._journal.commit, batch))
        self.commits += 1
        self._history.removed(len(rows))

    def _succeed(self, steps: Sequence[Step], settle: Settle) -> None:
        """Everyone sees it first, and then its writers are told."""
        settle(steps)
        for step in steps:
            self.decided.settle(step)
            self.bytes -= len(step.change.new.raw)
        group, self._running = self._running, []
        for waiting in group:
            if not waiting.durable.done():  # nobody waits any more where it is
                waiting.durable.set_result(None)

    def _fail_all(self, error: Error) -> None:
        """What was decided after the failed group may rest on it, so it goes too."""
        undone = [*self._running, *self._next]
        self._running, self._next = [], []
        self.bytes = 0
        self.decided.clear()
        if undone:
            _log.warning("writes are not stored", count=len(undone), error=str(error))
        for waiting in undone:
            if not waiting.durable.done():
                waiting.durable.set_exception(_copy(error))


def _copy(error: Error) -> Error:
    """One for each: a traceback grows with every place that raises it."""
    if isinstance(error, HardwareError):
        return HardwareError(str(error), path=error.path)
    if isinstance(error, UnavailableError):
        return UnavailableError(str(error), retry_after=error.retry_after)
    return error
