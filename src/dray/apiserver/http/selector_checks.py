"""The selectors of a request are compiled in a thread: a text may take a third of a second, and an object may bring 150.

Rules are asked inside a transaction, which is sync. So a request is decided up to the selectors that nobody knows yet, these
are checked in the thread, one by one in turn with those of other requests, and then it is decided again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
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
                seen.known[asked] = await self._checked(check, asked, ends)
            seen.unknown.clear()

    async def _checked(self, check: CheckSelector, asked: _Asked, ends: float) -> _Faults:
        found = self._known.get(asked)
        if found is not None:
            return found
        text, is_stored = asked

        def call() -> _Faults:
            return tuple(first_faults(lambda: check(text, Path(), is_stored)))

        if self._clock.monotonic() >= ends:
            raise UnavailableError(
                f"compiling the selectors of the object takes more than {SECONDS:g} s", retry_after=10.0
            )
        found = await self._threads.run(call, doing="compile a selector", seconds=SECONDS)
        self._known.put(asked, found, 1024 + 4 * len(text) + 4 * sum(len(one.message) for one in found))
        return found


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
