"""What preparing, giving back and recovering share: the checkpoint, the locks and the files of one driver's claims."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from dray.api.resource.slice import DeviceAttribute
from dray.cdi.edits import ContainerEdits
from dray.dra.claims.claim_files import ClaimFiles
from dray.dra.claims.deciding import find_overlap
from dray.dra.claims.directories import check_own
from dray.dra.claims.locks import LIMIT, DeviceLocks
from dray.dra.claims.metadata import MetadataFiles
from dray.dra.claims.state import STATE_FORMAT, Entry, Phase, State
from dray.dra.parcels import ClaimDoor, ClaimRef
from dray.drivers.contract import Device, Driver, Prepared
from dray.errors import Error
from dray.hardware.change import HostChange
from dray.runtime.clock import Clock
from dray.runtime.files.checkpoint import SetAside
from dray.runtime.files.private import make_private
from dray.runtime.files.shared_checkpoint import Lost, SharedCheckpoint, SharedOptions
from dray.runtime.logs import get_log
from dray.runtime.threads import Threads

_log = get_log("dra")

CHECKPOINT: Final = "prepared-claims"
DISK_LIMIT: Final = 30.0
"""Seconds for the files of one claim."""

Attributes = Callable[[Device], Mapping[str, DeviceAttribute]]


@dataclass(frozen=True, slots=True)
class PrepareOptions:
    """One driver on one node. `metadata_versions` of KEP-5304, none: containers get no metadata file.

    `data_dir` and `cdi_dir` must be the same paths for the kubelet and the container runtime.
    """

    driver: str
    pool: str
    data_dir: Path
    cdi_dir: Path
    boot_id: str
    metadata_versions: tuple[str, ...] = ()
    lock_limit: float = LIMIT


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the rest of the process gives. The first two are asked anew for each claim: configs and inventories change."""

    driver: Callable[[], Driver]
    find: Callable[[str], Device | None]
    """A device of the current inventory by its name in the slice."""
    attributes: Attributes
    """Those that the slice shows, for the metadata file; asked once for each look at a device."""
    carry_out: Callable[[Prepared], Awaitable[ContainerEdits]]
    undo: Callable[[Sequence[HostChange]], Awaitable[None]]
    """Make the changes of `TakesClaims.release_claim`, in this order; twice is fine."""
    door: ClaimDoor
    threads: Threads
    clock: Clock
    lost: Callable[[SetAside], None] = lambda _: None
    """Told, in the loop, that the checkpoint was unusable; `Recovery.rebuild` is due then."""
    reached: Callable[[str], None] = lambda _: None
    """Called between any two steps with a word for the place: tests end the process there."""


@dataclass(frozen=True, slots=True)
class Books:
    """Open books; made by `open_books`."""

    options: PrepareOptions
    around: Surroundings
    checkpoint: SharedCheckpoint[State]
    locks: DeviceLocks
    files: ClaimFiles
    metadata: MetadataFiles

    async def note(self, entry: Entry) -> None:
        """Write a completed claim's files, and then the entry, in one turn at the checkpoint."""

        def put(state: State) -> tuple[State, None]:
            self._ensure(entry, fresh=True)
            return state.with_entry(entry), None

        await self.checkpoint.change(put)

    async def ensure_files(self, entry: Entry) -> None:
        """Make all files of a claim so."""
        await self.around.threads.run(
            partial(self._ensure, entry), doing=f"write the files of {entry.claim}", seconds=DISK_LIMIT
        )

    async def forget(self, ref: ClaimRef) -> None:
        """Remove the files of a claim, and then its entry, in one turn. What cannot be removed goes at the next start."""

        def drop(state: State) -> tuple[State, None]:
            entry = state.entry(ref.uid)
            requests = None if entry is None else [one.base_name for one in entry.requests]
            try:
                self._remove(ref.uid, requests)
            except Error as error:
                _log.warning(
                    "files of a claim are not removed", claim=str(ref), uid=ref.uid, error=str(error)
                )
            return state.without([ref.uid]), None

        await self.checkpoint.change(drop)

    def _ensure(self, entry: Entry, *, fresh: bool = False) -> None:
        changed = self.files.ensure(entry, fresh=fresh)
        if self.metadata.ensure(entry, fresh=fresh) or changed:
            _log.debug("files of a claim written", claim=str(entry.claim))

    def _remove(self, uid: str, requests: list[str] | None) -> None:
        try:
            self.files.remove(uid)
        finally:
            self.metadata.remove(uid, requests=requests)


@asynccontextmanager
async def open_books(options: PrepareOptions, around: Surroundings) -> AsyncIterator[Books]:
    """Open = the checkpoint is read; where there is none, or it cannot be used, what the CDI files tell is taken.

    Errors: UnavailableError (another process holds the lock), DeniedError (the data directory is a link or belongs to another
    user). An existing data directory that is open to other users is closed.
    """
    check_own(options.data_dir)
    make_private(options.data_dir, None, flag="--kubelet-dir")
    around = replace(around, attributes=_remembering(around.attributes))
    files = ClaimFiles(options.driver, options.cdi_dir)
    metadata = MetadataFiles(options.driver, options.pool, options.cdi_dir, options.metadata_versions)
    locks = DeviceLocks(options.data_dir, around.threads, around.clock, options.lock_limit)
    loop = asyncio.get_running_loop()

    def rescue(lost: Lost[State]) -> State:
        if lost.set_aside is not None:
            loop.call_soon_threadsafe(around.lost, lost.set_aside)
        known = read_back(lost.last or State(), files, options.boot_id)
        return known if lost.recent is None else with_begun(known, lost.recent)

    checkpoint = SharedCheckpoint(
        options.data_dir / CHECKPOINT,
        STATE_FORMAT,
        rescue,
        around.threads,
        SharedOptions(lock_limit=options.lock_limit, clock=around.clock),
    )
    async with checkpoint:
        try:
            yield Books(options, around, checkpoint, locks, files, metadata)
        finally:
            locks.close()
            files.close()
            metadata.close()


def _remembering(attributes: Attributes) -> Attributes:
    """A device is the same value for as long as nobody found it changed."""
    known: dict[str, tuple[Device, Mapping[str, DeviceAttribute]]] = {}

    def of(device: Device) -> Mapping[str, DeviceAttribute]:
        found = known.get(device.id)
        if found is None or found[0] is not device:
            found = known[device.id] = (device, attributes(device))
        return found[1]

    return of


def read_back(known: State, files: ClaimFiles, boot_id: str) -> State:
    """What is known, and what the files of this boot tell beyond it."""
    try:
        entries = files.read_back()
    except Error as error:
        _log.error("CDI files cannot be read back", error=str(error))
        return known
    for entry in entries:
        if known.entry(entry.claim.uid) is None and entry.boot in ("", boot_id):
            known = known.with_entry(entry)
    return known


def with_begun(known: State, recent: State) -> State:
    """What is known, and what was left in the middle by then. Where somebody got a device since, that was given back."""
    for entry in recent.entries:
        is_new = entry.phase is Phase.STARTED and known.entry(entry.claim.uid) is None
        if is_new and find_overlap(known, entry) is None:
            known = known.with_entry(entry)
    return known
