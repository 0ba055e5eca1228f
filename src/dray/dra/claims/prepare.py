"""Prepare a claim: note it, take its devices, change the host, write the files, note that it is done, answer.

It is noted before anything is touched, so a process that dies in between is cleaned up after, and answered for only when
all is durable, so the same claim gets the same answer for ever. (The first note survives any kill. A power cut it need not
survive: what was done to the host is gone then, and files of no claim are removed at the start.) The devices of a claim are locked meanwhile; claims of
different devices go side by side.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from msgspec.structs import replace

from dray.api.resource import ResourceClaim
from dray.cdi.edits import ContainerEdits
from dray.dra.claims.asking import Wanted, read_claim
from dray.dra.claims.books import Books, PrepareOptions, Surroundings, open_books
from dray.dra.claims.deciding import Begun, Done, Relock, RollBack, begin
from dray.dra.claims.planning import Plan, make_answer, make_plan, takes_claims
from dray.dra.claims.recover import Recovery
from dray.dra.claims.state import Entry, Phase
from dray.dra.claims.unprepare import TRIES, Unpreparer
from dray.dra.parcels import ClaimRef, PreparedDevice
from dray.drivers.contract import Asked, Device, Prepared
from dray.errors import Error, UnavailableError
from dray.runtime.logs import get_log
from dray.runtime.traces import span

_log = get_log("dra")


class Preparer:
    """Prepares and gives back the claims of one driver, many at once. Two processes may each have one for a directory."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._around = books.around
        self._unpreparer = Unpreparer(books)
        self.recovery = Recovery(books, self._unpreparer)

    @property
    def held(self) -> tuple[Device, ...]:
        """The devices of all claims that were prepared, or begun."""
        entries = self._books.checkpoint.latest.entries
        return tuple(device for entry in entries for device in entry.held_devices())

    @property
    def known(self) -> tuple[ClaimRef, ...]:
        """The claims that are prepared or begun, by this process or, when they were last read, by another."""
        return tuple(entry.claim for entry in self._books.checkpoint.latest.entries)

    async def noted(self) -> tuple[Entry, ...]:
        """What is prepared or begun, by this process or another."""
        return (await self._books.checkpoint.read()).entries

    def answered(self, ref: ClaimRef) -> tuple[PreparedDevice, ...] | None:
        """What the kubelet was answered for a claim; nothing while it is under way, None where it is not known."""
        entry = self._books.checkpoint.latest.entry(ref.uid)
        if entry is None or entry.phase is not Phase.COMPLETED:
            return None if entry is None else ()
        return make_answer(entry, self._books.options, self._books.metadata)

    async def unprepare(self, ref: ClaimRef) -> None:
        """As `Unpreparer.unprepare`."""
        await self._unpreparer.unprepare(ref)

    async def prepare(self, claim: ResourceClaim) -> tuple[PreparedDevice, ...]:
        """The claim's devices of our driver, ready for containers. The same again for a claim that is prepared already.

        Errors: InvalidError (the claim, its parameters), NotFoundError and HardwareError (a device is gone or not well),
        ConflictError (another claim or another door has it), UnavailableError (locks, disk), and those of host changes.
        After an error nothing is left, or it is cleaned up at the next try.
        """
        wanted = read_claim(claim, self._books.options.driver, self._books.options.pool)
        planned = self._plan(wanted)
        before = self._books.checkpoint.latest.entry(wanted.ref.uid)
        parts = before.parts if before is not None else frozenset()
        if isinstance(planned, Plan):
            parts |= planned.entry.parts
        for _ in range(TRIES):
            async with self._books.locks.held(parts, wanted.ref.uid):
                step = await self._begin(wanted, planned, parts)
                if isinstance(step, Done):
                    return await self._again(step.entry)
                if isinstance(step, Begun) and isinstance(planned, Plan):
                    with span("agent", "prepare", wanted.ref.uid, driver=self._books.options.driver):
                        return await self._go_through(planned)
            if isinstance(step, Relock):
                parts |= step.parts
        raise UnavailableError(f"the devices of claim {wanted.ref} change hands all the time: try again")

    def _plan(self, wanted: Wanted) -> Plan | Error:
        """An error counts only where the claim is not prepared yet."""
        try:
            return make_plan(wanted, self._books.options, self._around)
        except Error as error:
            return error

    async def _begin(
        self, wanted: Wanted, planned: Plan | Error, locked: frozenset[str]
    ) -> Begun | Done | Relock:
        entry = planned.entry if isinstance(planned, Plan) else planned
        while True:
            # It is for who comes after a kill: a power cut undoes changes of the host by itself.
            step = await self._books.checkpoint.change(
                lambda state: begin(state, wanted, entry, locked), durable=False
            )
            if not isinstance(step, RollBack):
                return step
            _log.info("claim was left in the middle, rolled back", claim=str(step.entry.claim))
            await self._unpreparer.release(step.entry)

    async def _go_through(self, plan: Plan) -> tuple[PreparedDevice, ...]:
        reached = self._around.reached
        reached("started")
        try:
            await self._around.door.take(plan.entry.claim, plan.entry.held_devices())
            reached("taken")
            completed = await self._change_host(plan.entry, plan.asked())
            reached("host changed")
            await self._books.note(completed)
            reached("completed")
        except Error:
            await self._give_up(plan.entry)
            raise
        return make_answer(completed, self._books.options, self._books.metadata)

    async def _again(self, entry: Entry) -> tuple[PreparedDevice, ...]:
        """It was prepared before, maybe by another process: the files may be gone, and descriptors are not served any more."""
        if entry.passes:
            asked = [request.asked(entry.claim.uid) for request in entry.requests]
            entry = await self._change_host(entry, asked)
            await self._books.note(entry)
        else:
            await self._books.ensure_files(entry)
        return make_answer(entry, self._books.options, self._books.metadata)

    async def _change_host(self, entry: Entry, asked: Iterable[Asked]) -> Entry:
        """The completed entry, with what containers get."""
        prepared = [self._ask_driver(one) for one in asked]
        edits: list[ContainerEdits] = [await self._around.carry_out(one) for one in prepared]
        requests = tuple(
            replace(request, edits=found) for request, found in zip(entry.requests, edits, strict=True)
        )
        passes = any(one.passes for one in prepared)
        return replace(entry, phase=Phase.COMPLETED, requests=requests, passes=passes)

    def _ask_driver(self, asked: Asked) -> Prepared:
        driver = self._around.driver()
        if takes_claims(driver):
            return driver.prepare_claim(asked)
        return driver.prepare(asked.label, asked.devices)

    async def _give_up(self, entry: Entry) -> None:
        """Undo it all. The first error is the one to tell: what fails here is done at the next try."""
        try:
            await self._unpreparer.release(entry)
        except Error as error:
            _log.warning("claim is left in the middle", claim=str(entry.claim), error=str(error))


@asynccontextmanager
async def open_preparer(options: PrepareOptions, around: Surroundings) -> AsyncIterator[Preparer]:
    """Open = recovered from what the process before left, and ready for claims."""
    async with open_books(options, around) as books:
        preparer = Preparer(books)
        await preparer.recovery.start()
        yield preparer
