"""Give a claim back, whole or left in the middle: undo the host's changes, free the devices, remove the files, forget it.

Each step may be repeated, and the entry goes last, so a process that dies anywhere leaves work that the next one does.
"""

from __future__ import annotations

from typing import Final

from dray.dra.claims.asking import check_ref
from dray.dra.claims.books import Books
from dray.dra.claims.state import Entry
from dray.dra.parcels import ClaimRef
from dray.drivers.contract import Asked, Releases, TakesClaims
from dray.errors import ConflictError, UnavailableError
from dray.runtime.logs import get_log
from dray.runtime.traces import span

_log = get_log("dra")

RELEASE_SECONDS: Final = 45.0
TRIES: Final = 10
"""How often the devices of a claim may change while their locks are waited for."""


class Unpreparer:
    """Called for several claims at once."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._around = books.around

    async def unprepare(self, ref: ClaimRef) -> None:
        """Give a claim back; one that is not known is given back already, and what is left of it goes.

        Errors: those of the driver's changes and of the disk; the claim stays then, and may be given back again.
        """
        check_ref(ref)
        checkpoint = self._books.checkpoint
        for _ in range(TRIES):
            hint = checkpoint.latest.entry(ref.uid)
            parts = frozenset() if hint is None else hint.parts
            async with self._books.locks.held(parts, ref.uid):
                entry = (await checkpoint.read()).entry(ref.uid)
                if entry is None:
                    await self.clear(ref)
                    return
                if entry.parts <= parts:
                    with span("agent", "release", ref.uid, driver=self._books.options.driver):
                        await self.release(entry)
                    return
        raise UnavailableError(f"claim {ref} is prepared and given back by somebody else all the time")

    async def release(self, entry: Entry) -> None:
        """All steps; the caller holds the locks of the entry's parts."""
        if await self._is_ours(entry):
            await self._restore_host(entry)
        self._around.reached("host restored")
        await self.clear(entry.claim)

    async def clear(self, ref: ClaimRef) -> None:
        """Holds, files and entry, without the host: for what is not known, or was before a reboot."""
        await self._around.door.give_back(ref)
        self._around.reached("given back")
        await self._books.forget(ref)
        self._around.reached("forgotten")

    async def _is_ours(self, entry: Entry) -> bool:
        """Whether it has its devices: a process may have died before it took them, or after it gave them back.

        What another door gave away since is not touched: its holder uses it.
        """
        try:
            await self._around.door.take(entry.claim, entry.held_devices())
        except ConflictError as conflict:
            _log.info(
                "devices of a claim are held by others, and are not touched",
                claim=str(entry.claim),
                why=str(conflict),
            )
            return False
        return True

    async def _restore_host(self, entry: Entry) -> None:
        driver = self._around.driver()
        if not isinstance(driver, TakesClaims):
            return
        for request in reversed(entry.requests):
            asked = request.asked(entry.claim.uid)
            if isinstance(driver, Releases):
                await self._let_go(driver, asked)
            if changes := driver.release_claim(asked):
                await self._around.undo(changes)

    async def _let_go(self, driver: Releases, asked: Asked) -> None:
        await self._around.threads.run(
            lambda: driver.release(asked), doing=f"release {asked.label}", seconds=RELEASE_SECONDS
        )
