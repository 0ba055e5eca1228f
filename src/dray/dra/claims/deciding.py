"""What comes next for a claim, out of the checkpoint alone. Pure: it is called under the checkpoint's lock."""

from __future__ import annotations

from dataclasses import dataclass

from dray.dra.claims.asking import Wanted
from dray.dra.claims.state import Entry, Holding, Phase, State
from dray.errors import ConflictError, Error


@dataclass(frozen=True, slots=True)
class Begun:
    """The entry is in the checkpoint now, as STARTED."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Done:
    """It was prepared before: this is the entry to answer from."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class RollBack:
    """This entry, of the claim itself or of another one, was left in the middle and must be undone first."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Relock:
    """Nothing may be done before these parts are locked too."""

    parts: frozenset[str]


Step = Begun | Done | RollBack | Relock


def begin(state: State, wanted: Wanted, planned: Entry | Error, locked: frozenset[str]) -> tuple[State, Step]:
    """What comes next for a claim, by who holds the locks of `locked`. `planned` is its entry, if it can be had now.

    ConflictError where a device is prepared for another claim, or where this one was prepared with other devices.
    """
    before = state.entry(wanted.ref.uid)
    if before is not None:
        return state, _again(before, wanted, locked)
    if isinstance(planned, Error):
        raise planned
    if not planned.parts <= locked:
        return state, Relock(planned.parts)
    if (other := find_overlap(state, planned)) is None:
        return state.with_entry(planned), Begun(planned)
    blocker, mine, theirs = other
    if blocker.phase is Phase.STARTED:
        return state, _undo_first(blocker, locked)
    what, whole = mine.wanted.device, theirs.wanted.device
    of_it = "" if whole == what else f", with {whole},"
    raise ConflictError(
        f"device {what} is prepared{of_it} for claim {blocker.claim}: it is free when the pod of that claim is gone"
    )


def _again(before: Entry, wanted: Wanted, locked: frozenset[str]) -> Step:
    if before.phase is Phase.STARTED or not before.parts <= locked:
        return _undo_first(before, locked)
    if before.allocation != wanted.allocation:
        text = f"claim {wanted.ref} is prepared with other devices than it has now"
        raise ConflictError(f"{text}: it is prepared anew when its pods of before are gone")
    return Done(before)


def _undo_first(entry: Entry, locked: frozenset[str]) -> Step:
    return RollBack(entry) if entry.parts <= locked else Relock(entry.parts)


def find_overlap(state: State, entry: Entry) -> tuple[Entry, Holding, Holding] | None:
    """The first other claim that has a part of what this one wants, with both devices. Shares of one device may be many."""
    wanted: dict[str, list[Holding]] = {}
    for mine in entry.held():
        for part in mine.parts:
            wanted.setdefault(part, []).append(mine)
    for other in state.with_parts(entry.parts):
        if other.claim.uid == entry.claim.uid:
            continue
        for theirs in other.held():
            for mine in (one for part in theirs.parts for one in wanted.get(part, ())):
                if not _share(mine, theirs):
                    return other, mine, theirs
    return None


def overlap_within(entry: Entry) -> Holding | None:
    """A device that the claim itself has twice, or has a part of twice."""
    held = list(entry.held())
    for position, one in enumerate(held):
        for other in held[:position]:
            if set(one.parts) & set(other.parts) and not _share(one, other):
                return one
    return None


def _share(one: Holding, other: Holding) -> bool:
    a, b = one.wanted, other.wanted
    return (
        a.device == b.device
        and a.share_id is not None
        and b.share_id is not None
        and a.share_id != b.share_id
    )
