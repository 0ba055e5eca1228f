"""After a restart, a reboot, or the loss of the checkpoint: what is left of claims is found and put in order.

`start` runs before the first claim is served; `rebuild` when the checkpoint was lost and the claims of this node are
known; `run` looks after claims that were left in the middle and that nobody asks for any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final, NoReturn

from dray.api.resource import ResourceClaim
from dray.dra.claims.asking import read_claim
from dray.dra.claims.books import Books
from dray.dra.claims.claim_files import orphans
from dray.dra.claims.deciding import find_overlap
from dray.dra.claims.planning import make_plan
from dray.dra.claims.state import Entry, Phase, State
from dray.dra.claims.unprepare import Unpreparer
from dray.dra.parcels import ClaimRef
from dray.errors import Error
from dray.runtime.logs import get_log

_log = get_log("dra")

EVERY: Final = 600.0
"""Seconds between two looks after claims that were left in the middle."""


class ClaimState(StrEnum):
    """A claim in the API server, as the injected lookup sees it. GONE: it is not there, or another has its name."""

    ALLOCATED = "allocated to this driver and node"
    UNALLOCATED = "not allocated to this driver and node"
    GONE = "gone"


Lookup = Callable[[ClaimRef], Awaitable[ClaimState]]
"""A Dray error means that it cannot be told now."""


@dataclass(frozen=True, slots=True)
class Started:
    """What `start` found: claims of before a reboot, and files and directories that were no claim's."""

    dropped: tuple[ClaimRef, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look found. `given_back` were left in the middle; `stale` are prepared, and the kubelet should give them back."""

    given_back: tuple[ClaimRef, ...] = ()
    stale: tuple[ClaimRef, ...] = ()


class Recovery:
    """All of it may be repeated, and be done by two processes at once."""

    def __init__(self, books: Books, unpreparer: Unpreparer) -> None:
        self._books = books
        self._unpreparer = unpreparer
        self._told: frozenset[ClaimRef] = frozenset()

    async def start(self) -> Started:
        """Drop what was before a reboot, remove what belongs to no claim, and make sure that the ledger has the rest."""
        dropped = [entry.claim for entry in self._books.checkpoint.latest.entries if await self._drop(entry)]
        removed = await self._books.checkpoint.change(lambda state: (state, self._sweep(state)))
        for entry in self._books.checkpoint.latest.entries:
            if entry.phase is Phase.COMPLETED:
                self._books.around.door.restore(entry.claim, entry.held_devices())
        if dropped or removed:
            _log.info("claims recovered", dropped=len(dropped), files_removed=len(removed))
        return Started(tuple(dropped), removed)

    async def rebuild(self, claims: Iterable[ResourceClaim]) -> tuple[ClaimRef, ...]:
        """Note claims that are allocated to us and not known: they may be in use. Those that were noted.

        They count as left in the middle: their devices go to nobody else as long as they are allocated, and preparing
        one starts over.
        """
        noted: list[ClaimRef] = []
        for claim in claims:
            entry = self._lost(claim)
            if entry is not None and await self._books.checkpoint.change(partial(_note, entry)):
                await self._take(entry)
                noted.append(entry.claim)
        return tuple(noted)

    async def look(self, lookup: Lookup) -> Looked:
        """Give back what was left in the middle and is wanted no more; tell, once, of prepared claims that are gone."""
        given_back: list[ClaimRef] = []
        stale: list[ClaimRef] = []
        for entry in (await self._books.checkpoint.read()).entries:
            if await self._is_wanted(entry.claim, lookup):
                continue
            if entry.phase is Phase.COMPLETED:
                stale.append(entry.claim)
            elif await self._give_back(entry.claim):
                given_back.append(entry.claim)
        for ref in sorted(set(stale) - self._told):
            _log.warning(
                "claim is gone and still prepared: the kubelet gives it back", claim=str(ref), uid=ref.uid
            )
        self._told = frozenset(stale)
        return Looked(tuple(given_back), tuple(stale))

    async def run(self, lookup: Lookup, every: float = EVERY) -> NoReturn:
        """Look now and then, for ever."""
        while True:
            try:
                await self.look(lookup)
            except Error as error:
                _log.warning("claims cannot be looked after", error=str(error))
            await self._books.around.clock.sleep(every)

    async def _drop(self, entry: Entry) -> bool:
        """A claim of before a reboot: its changes of the host are gone by themselves."""
        boot = self._books.options.boot_id
        if entry.boot in ("", boot) or not boot:
            return False
        async with self._books.locks.held(entry.parts, entry.claim.uid):
            now = (await self._books.checkpoint.read()).entry(entry.claim.uid)
            if now is None or now.boot != entry.boot:  # another process was faster
                return False
            await self._unpreparer.clear(now.claim)
        return True

    def _sweep(self, state: State) -> tuple[str, ...]:
        """In a thread, under the lock of the checkpoint: no claim can begin meanwhile, and none has files before it began."""
        files, metadata = self._books.files, self._books.metadata
        known = [entry.claim for entry in state.entries]
        removed: list[str] = []
        try:
            for uid in orphans((*files.uids(), *metadata.uids()), known):
                files.remove(uid)
                metadata.remove(uid, requests=None)
                removed.append(uid)
        except Error as error:
            _log.warning("files of no claim are not removed", error=str(error))
        return tuple(removed)

    async def _take(self, entry: Entry) -> None:
        try:
            await self._books.around.door.take(entry.claim, entry.held_devices())
        except Error as error:
            _log.error("allocated claim does not hold its devices", claim=str(entry.claim), error=str(error))

    def _lost(self, claim: ResourceClaim) -> Entry | None:
        try:
            wanted = read_claim(claim, self._books.options.driver, self._books.options.pool)
            return make_plan(wanted, self._books.options, self._books.around, strict=False).entry
        except Error as error:
            _log.debug("allocated claim is not noted", claim=claim.metadata.name, why=str(error))
            return None

    async def _is_wanted(self, ref: ClaimRef, lookup: Lookup) -> bool:
        try:
            return await lookup(ref) is ClaimState.ALLOCATED
        except Error as error:
            _log.debug("claim cannot be looked up", claim=str(ref), error=str(error))
            return True

    async def _give_back(self, ref: ClaimRef) -> bool:
        try:
            await self._unpreparer.unprepare(ref)
        except Error as error:
            _log.warning("claim left in the middle is not given back", claim=str(ref), error=str(error))
            return False
        _log.info("claim left in the middle, and gone: given back", claim=str(ref), uid=ref.uid)
        return True


def _note(entry: Entry, state: State) -> tuple[State, bool]:
    if state.entry(entry.claim.uid) is not None or find_overlap(state, entry) is not None:
        return state, False
    return state.with_entry(entry), True
