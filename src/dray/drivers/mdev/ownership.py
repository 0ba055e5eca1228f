"""Which mediated devices are ours, known even after a kill: only those may ever be removed.

An intent is on the disk before the kernel hears of a new device, so there is no moment at which a device of ours exists
and no file says so. A device that the file does not name is somebody else's, and so is every device when the file is
lost or damaged: it is then used as it is, and never removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dray.drivers.failures import Apply, Attempts, Failures
from dray.drivers.mdev.plan import MdevPlan
from dray.drivers.mdev.situation import View
from dray.errors import Error
from dray.hardware.change import CreateMdev, RemoveMdev
from dray.runtime.clock import Clock
from dray.runtime.files.checkpoint import Checkpoint
from dray.runtime.files.checkpoint_format import Format


class OwnedMdevs(msgspec.Struct, frozen=True):
    """The file's content. Intents may have become devices, or may still: they count as ours as well."""

    boot_id: str = ""
    intended: tuple[CreateMdev, ...] = ()
    made: tuple[CreateMdev, ...] = ()


_FORMAT = Format(OwnedMdevs)


class Ownership:
    """What we made on this boot, in one file. Entered = loaded, and no other process writes it. One thread uses it.

    `boot_id` (/proc/sys/kernel/random/boot_id) lets a start after a reboot forget all, because no device survives one;
    where it is empty, what was recorded is believed. `lost` says what happened to a file that could not be used: tell it
    to the operator, who alone can then say which devices may go. Errors on entering: ConflictError (another process),
    DeniedError.
    """

    def __init__(self, path: Path, boot_id: str = "", *, clock: Clock | None = None) -> None:
        self._checkpoint = Checkpoint(path, _FORMAT, clock=clock)
        self._boot_id = boot_id
        self._intended: frozenset[CreateMdev] = frozenset()
        self._made: frozenset[CreateMdev] = frozenset()
        self._saved = OwnedMdevs(boot_id)
        self.lost = ""

    def __enter__(self) -> Ownership:
        loaded = self._checkpoint.open()
        data = self._saved = loaded.data or OwnedMdevs(self._boot_id)
        if self._boot_id and data.boot_id != self._boot_id:
            data = OwnedMdevs(self._boot_id)
        self._intended, self._made = frozenset(data.intended), frozenset(data.made)
        self.lost = (
            f"{loaded.set_aside}; the mediated devices that exist are taken for somebody else's and are never "
            "removed: remove by hand those that nobody needs"
            if loaded.set_aside
            else ""
        )
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._checkpoint.__exit__(*exc_info)

    @property
    def owned(self) -> frozenset[CreateMdev]:
        """All that is ours, or about to be."""
        return self._intended | self._made

    def intend(self, changes: Iterable[CreateMdev]) -> None:
        """Call before creating: when it returns, these are ours even if we are killed.

        On an error (UnavailableError on a full disk, …) nothing was recorded: do not create.
        """
        before = self._intended
        self._intended |= frozenset(changes) - self._made
        try:
            self._save()
        except Error:
            self._intended = before
            raise

    def record(
        self,
        *,
        made: Iterable[CreateMdev] = (),
        removed: Iterable[str] = (),
        withdrawn: Iterable[CreateMdev] = (),
    ) -> str:
        """What became of it: intents that are devices now, UUIDs that are gone, intents given up.

        Returns why it could not be saved, else nothing. It then holds in this process, and the next call saves it; the
        file meanwhile calls ours what is gone or only intended, which harms nothing.
        """
        made, gone, withdrawn = frozenset(made), frozenset(removed), frozenset(withdrawn)
        self._made = frozenset(one for one in self._made | made if one.uuid not in gone)
        self._intended = frozenset(one for one in self._intended - made - withdrawn if one.uuid not in gone)
        try:
            self._save()
        except Error as error:
            return str(error)
        return ""

    def see(self, view: View) -> str:
        """Compare with the host, before each plan; returns as `record`.

        Intents that exist are made; what was made and is gone is forgotten, so that somebody else may use the UUID.
        An intent without a device stays, since a slow one may still appear.
        """
        if view.blind:
            return ""
        found = {(mdev.parent, mdev.type_id, mdev.uuid) for mdev in view.mdevs}
        here = {one for one in self.owned if (one.parent, one.type_id, one.uuid) in found}
        return self.record(made=here, removed={one.uuid for one in self._made - here} - view.hidden.keys())

    def _save(self) -> None:
        state = OwnedMdevs(self._boot_id, _sorted(self._intended), _sorted(self._made))
        if state != self._saved:
            self._checkpoint.save(state)
            self._saved = state


def _sorted(changes: Iterable[CreateMdev]) -> tuple[CreateMdev, ...]:
    return tuple(sorted(changes, key=lambda one: (one.parent, one.type_id, one.uuid)))


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """What became of a plan. `failures` go into the next one; `unsaved` says why the file lags behind, if it does."""

    created: tuple[CreateMdev, ...]
    removed: tuple[RemoveMdev, ...]
    failures: Failures
    unsaved: str = ""


def carry_out(
    plan: MdevPlan, apply: Apply, ownership: Ownership, failures: Failures, clock: Clock
) -> CarriedOut:
    """Do it, removals first. Waits for the hardware: call it from a thread. A failure stops its card's type, no more.

    Killed at any point, the next process finds its devices by `Ownership` and plans what is missing.
    """
    attempts = Attempts(apply, failures, clock)
    removed = [change for change in plan.remove if attempts.make(change) is not None]
    unsaved = ownership.record(removed=[change.uuid for change in removed])
    created, later = _create_all(plan.create, attempts, ownership)
    return CarriedOut(tuple(created), tuple(removed), attempts.failures, later or unsaved)


def _create_all(
    changes: tuple[CreateMdev, ...], attempts: Attempts, ownership: Ownership
) -> tuple[list[CreateMdev], str]:
    """Those that are ours now, and why they could not be recorded, if so."""
    earlier = ownership.owned
    try:
        ownership.intend(changes)
    except Error as error:
        for change in {(change.parent, change.type_id): change for change in changes}.values():
            attempts.fail(change, str(error))
        return [], ""
    created: list[CreateMdev] = []
    withdrawn: list[CreateMdev] = []
    stopped: set[tuple[str, str]] = set()
    for change in changes:
        if (change.parent, change.type_id) in stopped:
            withdrawn.append(change)
            continue
        changed = attempts.make(change)
        if changed is None:  # the intent stays: the device may appear late
            stopped.add((change.parent, change.type_id))
        elif changed or change in earlier:
            created.append(change)
        else:  # it was there already, and never ours
            withdrawn.append(change)
    return created, ownership.record(made=created, withdrawn=set(withdrawn) - earlier)
