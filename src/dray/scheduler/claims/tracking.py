"""What the scheduler knows of claims and devices, in three layers, kept up to date change by change.

1. Claims as the informer saw them, and on top of that as the API server answered to our own writes (assumed): the watch
   may be behind, so an older version never replaces an assumed one.
2. Allocations in flight: decided, not yet stored. Each has the pods that rely on it; the last one to let go ends it.
3. The devices that both hold, in an `Index` that answers for any node. Nothing is built anew for a pod.

An allocation in flight counts beside its claim until the claim is known to hold the very same: only then is it stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import msgspec

from dray.allocation.index.index import Index
from dray.allocation.results import NewShareID
from dray.allocation.state import AllocatedState
from dray.api.meta import ObjectMeta
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import AllocationResult
from dray.scheduler.claims.catalogue import Catalogue
from dray.scheduler.claims.extended import owner_of
from dray.scheduler.claims.groups import PodGroups
from dray.scheduler.claims.settings import Settings

Key = tuple[str, str]
_NOBODY: Final = frozenset[str]()


@dataclass(frozen=True, slots=True)
class ClaimChange:
    """A claim is another one now, to be shown to the queue's hints. `old` or `new` is None where there is none."""

    old: ResourceClaim | None
    new: ResourceClaim | None


@dataclass(frozen=True, slots=True)
class PendingAllocation:
    """A claim with the allocation it shall get, and the uids of the pods that rely on it.

    `ends` is set where nobody is at work on it any more but its write may still have been stored: then it is dropped
    when the claim (or `successor`, the one that was stored in its place) is seen newer than `version`, when that one is
    gone, or when that (monotonic) time has passed.
    """

    claim: ResourceClaim
    sharers: frozenset[str] = _NOBODY
    ends: float | None = None
    version: int = 0
    successor: ResourceClaim | None = None


@dataclass(slots=True)
class _Known:
    stored: ResourceClaim
    latest: ResourceClaim


class Tracker:
    """One owner feeds it and asks. `revision` grows with every change that may alter an answer."""

    def __init__(self, settings: Settings, *, new_share_id: NewShareID | None = None) -> None:
        self.index = Index(settings.options, new_share_id=new_share_id)
        self.catalogue = Catalogue(self.index, settings)
        self.groups = PodGroups()
        self._known: dict[Key, _Known] = {}
        self._in_flight: dict[str, PendingAllocation] = {}
        self._special: dict[str, Key] = {}
        self._successors: dict[str, str] = {}
        self._revision = 0

    @property
    def revision(self) -> int:
        """An answer is good while it stays the same."""
        return self._revision + self.catalogue.revision

    @property
    def claims(self) -> tuple[ResourceClaim, ...]:
        """All that are known, as they are assumed to be."""
        return tuple(one.latest for one in self._known.values())

    @property
    def in_flight(self) -> tuple[PendingAllocation, ...]:
        """All allocations that are not known to be stored."""
        return tuple(self._in_flight.values())

    def allocated(self) -> AllocatedState:
        """A copy of what is in use. For tests and explanations: it looks at everything."""
        return self.index.allocator().rules.allocated

    def get(self, namespace: str, name: str) -> ResourceClaim | None:
        """The claim as it is assumed to be."""
        known = self._known.get((namespace, name))
        return known.latest if known else None

    def special_of(self, pod_uid: str) -> ResourceClaim | None:
        """The claim that was made for the extended resources of a pod, if there is one."""
        key = self._special.get(pod_uid)
        return self._known[key].latest if key else None

    def set_claim(self, claim: ResourceClaim) -> ClaimChange | None:
        """From the informer: new or changed. None where something newer is assumed."""
        key, known = _key(claim), self._known.get(_key(claim))
        if known is None:
            self._known[key] = _Known(claim, claim)
        elif known.latest is not known.stored and _is_older(claim, known.latest):
            known.stored = claim
            return None
        else:
            known.stored = claim
            return self._replace(known, claim)
        self._show(None, claim)
        return ClaimChange(None, claim)

    def remove_claim(self, claim: ResourceClaim) -> ClaimChange | None:
        """From the informer: gone. Whoever is about to write its allocation will fail, and lets go of it then."""
        known = self._known.pop(_key(claim), None)
        if known is None:
            return None
        self._show(known.latest, None)
        return ClaimChange(known.latest, None)

    def assume(self, claim: ResourceClaim) -> bool:
        """The API server's answer to a write of ours. False where the informer has not seen the claim at all yet, or
        knows something newer: then this is no news.
        """
        known = self._known.get(_key(claim))
        if known is None or known.latest.metadata.uid != claim.metadata.uid or _is_older(claim, known.latest):
            return False
        self._replace(known, claim)
        return True

    def restore(self, namespace: str, name: str) -> ClaimChange | None:
        """Forget what was assumed."""
        known = self._known.get((namespace, name))
        if known is None or known.latest is known.stored:
            return None
        return self._replace(known, known.stored)

    def pending(self, uid: str) -> AllocationResult | None:
        """What a claim is about to get."""
        entry = self._in_flight.get(uid)
        return entry.claim.status.allocation if entry else None

    def signal(self, claim: ResourceClaim, pod_uid: str) -> bool:
        """A claim with the allocation it shall get goes in flight, for this pod too.

        False where that is refused: the claim is allocated by now, or another allocation is on its way.
        """
        uid = claim.metadata.uid
        entry, known = self._in_flight.get(uid), self._known.get(_key(claim))
        if known and known.latest.metadata.uid == uid and known.latest.status.allocation is not None:
            return False
        if entry is None:
            entry = PendingAllocation(claim)
        elif entry.ends is not None or not has_same_devices(
            entry.claim.status.allocation, claim.status.allocation
        ):
            return False
        self._put(uid, replace(entry, sharers=entry.sharers | {pod_uid}))
        return True

    def release(self, uid: str, pod_uid: str, *, force: bool = False) -> bool:
        """The pod relies on the allocation no more. True where it is in flight no more: nobody else does, or `force`
        says that the claim itself holds it now. A second call changes nothing.
        """
        entry = self._in_flight.get(uid)
        if entry is None or entry.ends is not None:
            return False
        left = entry.sharers - {pod_uid}
        if left and not force:
            self._put(uid, replace(entry, sharers=left))
            return False
        self._put(uid, None)
        return True

    def store(self, uid: str, claim: ResourceClaim, until: float) -> None:
        """The allocation in flight under `uid` is stored: in this claim, the API server's answer.

        A claim that was made for it, and that the informer has not seen yet, is waited for: nothing else holds its devices.
        """
        is_made = uid != claim.metadata.uid
        if not self.assume(claim) and is_made:
            self.linger(uid, until, version=version_of(claim) - 1, successor=claim)
        else:
            self.release(uid, "", force=True)

    def linger(
        self, uid: str, until: float, *, version: int = 0, successor: ResourceClaim | None = None
    ) -> None:
        """Nobody knows yet whether the allocation was stored (see `PendingAllocation`), so it holds its devices a while."""
        entry = self._in_flight.get(uid)
        if entry is None:
            return
        entry = replace(entry, sharers=_NOBODY, ends=until, version=version, successor=successor)
        self._put(uid, None if self._is_settled(entry) else entry)

    def drop_overdue(self, now: float) -> tuple[ResourceClaim, ...]:
        """The claims whose lingering allocations are given up. For a loop that looks from time to time."""
        late = [uid for uid, one in self._in_flight.items() if one.ends is not None and one.ends <= now]
        dropped = tuple(self._in_flight[uid].claim for uid in late)
        for uid in late:
            self._put(uid, None)
        return dropped

    def _replace(self, known: _Known, claim: ResourceClaim) -> ClaimChange | None:
        old, known.latest = known.latest, claim
        self._show(old, claim)
        return ClaimChange(old, claim) if old != claim else None

    def _show(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Bring the index, and what is in flight for these claims, up to date."""
        self._revision += 1
        if old is not None and self._special.get(owner := owner_of(old)) == _key(old):
            del self._special[owner]
        if new is not None and (owner := owner_of(new)):
            self._special[owner] = _key(new)
        if new is not None:
            self.index.set_claim(new)
        elif old is not None:
            self.index.remove_claim(old)
        is_gone = old is not None and (new is None or new.metadata.uid != old.metadata.uid)
        if old is not None and is_gone:
            self._review(old.metadata.uid, is_gone=True)
        if new is not None:
            self._review(new.metadata.uid)

    def _review(self, uid: str, *, is_gone: bool = False) -> None:
        """What is in flight for the claim of this uid, now that the claim is another one."""
        uid = self._successors.get(uid, uid)
        if entry := self._in_flight.get(uid):
            is_over = entry.ends is not None and is_gone
            self._put(uid, None if is_over or self._is_settled(entry) else entry)

    def _is_settled(self, entry: PendingAllocation) -> bool:
        """Whether a lingering allocation is known to be stored, or to be refused for good."""
        if entry.ends is None:
            return False
        awaited = entry.successor or entry.claim
        known = self._known.get(_key(awaited))
        if known is None or known.latest.metadata.uid != awaited.metadata.uid:
            return entry.successor is None
        return version_of(known.latest) > entry.version

    def _put(self, uid: str, entry: PendingAllocation | None) -> None:
        """In the index it stands under its uid and no namespace, where no claim can be."""
        self._revision += 1
        meta = ObjectMeta(name=uid)
        before = self._in_flight.pop(uid, None)
        if before and before.successor:
            self._successors.pop(before.successor.metadata.uid, None)
        if entry is not None:
            self._in_flight[uid] = entry
            if entry.successor:
                self._successors[entry.successor.metadata.uid] = uid
            known = self._known.get(_key(entry.claim))
            stored = known.latest.status.allocation if known and known.latest.metadata.uid == uid else None
            if not has_same_devices(stored, entry.claim.status.allocation):
                self.index.set_claim(msgspec.structs.replace(entry.claim, metadata=meta))
                return
        self.index.remove_claim(ResourceClaim(metadata=meta))


def has_same_devices(one: AllocationResult | None, other: AllocationResult | None) -> bool:
    """Whether both give the same devices and shares to the same requests."""
    return one is not None and other is not None and one.devices.results == other.devices.results


def version_of(claim: ResourceClaim) -> int:
    """Versions of one API server can be compared; what is no number is older than any."""
    text = claim.metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() else 0


def _is_older(claim: ResourceClaim, other: ResourceClaim) -> bool:
    return claim.metadata.uid == other.metadata.uid and version_of(claim) < version_of(other)


def _key(claim: ResourceClaim) -> Key:
    return claim.metadata.namespace, claim.metadata.name
