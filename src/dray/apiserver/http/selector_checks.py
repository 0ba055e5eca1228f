"""The selectors of a request are compiled in a thread: a text may take a third of a second, and an object may bring 150.

Rules are asked inside a transaction, which is sync. So a request is decided up to the selectors that nobody knows yet, these
are checked in the thread, one by one, and then it is decided again. Namespaces take turns at the thread: whoever writes a
hundred objects at once waits for himself.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from dray.api.field_errors import FieldError, Path, first_faults
from dray.api.validation.faults import CheckSelector
from dray.apiserver.store.contract import LiveStore, Transaction
from dray.apiserver.writing.request import Write
from dray.cel.memo import Memo
from dray.errors import Error, InvalidError, UnavailableError
from dray.runtime.clock import Clock
from dray.runtime.threads import Threads

SECONDS: Final = 60.0
"""For all selectors of a request, with the wait for its turns: Kubernetes ends a request after so long."""
KEPT_BYTES: Final = 16 << 20

T = TypeVar("T")
_Asked = tuple[str, bool]
"""A text, and whether it was stored before."""
_Faults = tuple[FieldError, ...]


class _UnknownError(InvalidError):
    """Ends a transaction that came to texts that were not checked yet."""


class SelectorChecks:
    """For one server and its loop. Verdicts are remembered: most texts come again and again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._threads = Threads(1)
        self._turns = _Turns()
        self._known: Memo[_Asked, _Faults] = Memo(KEPT_BYTES)

    async def write(self, store: LiveStore, write: Write, decide: Callable[[Transaction, Write], T]) -> T:
        """`store.write`. `decide` may be called several times; UnavailableError where the selectors take too long."""
        check = write.rules.check_selector
        if check is None:
            return await store.write(lambda transaction: decide(transaction, write))
        ends = self._clock.monotonic() + SECONDS
        seen = _Seen(self._known)
        asking = dataclasses.replace(write, rules=dataclasses.replace(write.rules, check_selector=seen.check))

        def decided(transaction: Transaction) -> T:
            found = decide(transaction, asking)
            if seen.unknown:
                raise _UnknownError("selectors are to be checked")
            return found

        while True:
            try:
                return await store.write(decided)
            except Error:
                if not seen.unknown:
                    raise
            for asked in seen.unknown:
                seen.known[asked] = await self._checked(check, asked, write.namespace, ends)
            seen.unknown.clear()

    async def _checked(self, check: CheckSelector, asked: _Asked, namespace: str, ends: float) -> _Faults:
        found = self._known.get(asked)
        if found is not None:
            return found
        late = UnavailableError(
            f"compiling the selectors of the object takes more than {SECONDS:g} s", retry_after=10.0
        )
        left = ends - self._clock.monotonic()
        if left <= 0:
            raise late
        try:
            async with asyncio.timeout(left), self._turns.of(namespace):
                # It may have been another's, who was first.
                return self._known.get(asked) or await self._compiled(check, asked, left)
        except TimeoutError:
            raise late from None

    async def _compiled(self, check: CheckSelector, asked: _Asked, seconds: float) -> _Faults:
        text, is_stored = asked

        def call() -> _Faults:
            return tuple(first_faults(lambda: check(text, Path(), is_stored)))

        found = await self._threads.run(call, doing="compile a selector", seconds=seconds)
        self._known.put(asked, found, 1024 + 4 * len(text) + 4 * sum(len(one.message) for one in found))
        return found


class _Turns:
    """One at a time: of those who wait, the namespace whose last turn was longest ago, however many of another wait."""

    def __init__(self) -> None:
        self._is_taken = False
        self._count = 0
        self._last: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncIterator[None]:
        """Entered when it is the namespace's turn."""
        await self._take(namespace)
        try:
            yield
        finally:
            self._give_back()

    async def _take(self, namespace: str) -> None:
        if not self._is_taken:
            self._is_taken = True
            self._mark(namespace)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it came in the same moment
                self._give_back()
            raise

    def _mark(self, namespace: str) -> None:
        self._count += 1
        self._last[namespace] = self._count

    def _give_back(self) -> None:
        while self._waiting:
            namespace = min(self._waiting, key=lambda name: self._last.get(name, 0))
            turns = self._waiting[namespace]
            turn = turns.popleft()
            if not turns:
                del self._waiting[namespace]
            if not turn.done():
                self._mark(namespace)
                turn.set_result(None)
                return
        self._is_taken = False
        self._last.clear()


class _Seen:
    """The texts that one request has brought so far. A verdict is held here as well, so that it is there the next time."""

    def __init__(self, remembered: Memo[_Asked, _Faults]) -> None:
        self._remembered = remembered
        self.known: dict[_Asked, _Faults] = {}
        self.unknown: dict[_Asked, None] = {}

    def check(self, text: str, path: Path, is_stored: bool) -> list[FieldError]:
        asked = text, is_stored
        found = self.known.get(asked)
        if found is None:
            found = self._remembered.get(asked)
        if found is None:
            self.unknown[asked] = None
            return []
        self.known[asked] = found
        return [dataclasses.replace(one, field=path.text) for one in found]
