"""Who holds which device, stored or let through a moment ago. Pure; owned by one guard, changed without awaits between.

What was let through is reserved until it is known what became of it. A write is based on one version of its claim and
is stored only while the claim is at that version. So it is known as soon as a later version was seen, or that the claim
is gone: either the write is part of what was seen, or it can never be stored any more. No clock has a say in this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec

from dray.allocation.holding import Held, clash, given_twice
from dray.allocation.overdraft import overdraft
from dray.api.resource import ResourceSlice
from dray.controllers.guard.review import Subject
from dray.controllers.index import Index

SlicesOf = Callable[[str, str], Iterable[ResourceSlice]]
"""The published slices of a driver's pool."""


class Holding(msgspec.Struct, frozen=True):
    """A claim at one version with its devices: those it has, or for one let through those it may come to have."""

    subject: Subject
    held: tuple[Held, ...]
    is_stored: bool = True
    since: float = 0.0
    """When (monotonic) it was let through."""

    def __str__(self) -> str:
        return f"{self.subject.namespace}/{self.subject.name}"


class Clash(msgspec.Struct, frozen=True):
    """Why a write is refused, and the claim that stands in its way where it is a single one."""

    message: str
    holder: Holding | None = None


class Holdings:
    """Stored claims by uid and reservations by number, and who is where."""

    def __init__(self) -> None:
        self._stored: dict[str, Holding] = {}
        self._looked_up: set[str] = set()
        self._reserved: dict[int, Holding] = {}
        self._by_uid: Index[int, str] = Index()
        self._places: Index[str | int, str] = Index()
        self._last = 0
        self._reserved_of: Counter[str] = Counter()
        self.devices_reserved = 0
        """How many devices are kept for writes that were let through."""

    def see(self, holding: Holding, *, is_live: bool = False) -> None:
        """The claim as it is stored. `is_live`: from a question to the server, which may be ahead of the watch."""
        uid, version = holding.subject.uid, holding.subject.version
        known = self._stored.get(uid)
        if known is not None and known.subject.version > version and (is_live or uid in self._looked_up):
            return
        self._stored[uid] = holding
        self._looked_up.add(uid) if is_live else self._looked_up.discard(uid)
        self._places.put(uid, _places(holding))
        for number in self._by_uid.having(uid):
            if self._reserved[number].subject.version < version:
                self.release(number)

    def forget(self, uid: str) -> None:
        """The claim is gone for good."""
        self._stored.pop(uid, None)
        self._looked_up.discard(uid)
        self._places.put(uid)
        for number in self._by_uid.having(uid):
            self.release(number)

    def is_settled(self, subject: Subject) -> bool:
        """Whether a write that is based on this version can no longer be stored."""
        known = self._stored.get(subject.uid)
        return known is not None and known.subject.version > subject.version

    def devices_reserved_of(self, namespace: str) -> int:
        """How many of `devices_reserved` are for claims of this namespace."""
        return self._reserved_of[namespace]

    def reserve(self, holding: Holding) -> int:
        """Keep these devices for a write that is let through; gives the number to release it by."""
        self._last += 1
        self._reserved[self._last] = holding
        self._count(holding, len(holding.held))
        self._by_uid.put(self._last, [holding.subject.uid])
        self._places.put(self._last, _places(holding))
        return self._last

    def release(self, number: int) -> None:
        """It is known what became of it; nothing where that was known before."""
        gone = self._reserved.pop(number, None)
        if gone is not None:
            self._count(gone, -len(gone.held))
        self._by_uid.put(number)
        self._places.put(number)

    def _count(self, holding: Holding, devices: int) -> None:
        namespace = holding.subject.namespace
        self.devices_reserved += devices
        self._reserved_of[namespace] += devices
        if not self._reserved_of[namespace]:
            del self._reserved_of[namespace]

    def reserved(self) -> tuple[Holding, ...]:
        """All reservations, oldest first."""
        return tuple(self._reserved.values())

    def waiting(self, uid: str) -> tuple[Holding, ...]:
        """The reservations of one claim, oldest first."""
        return tuple(self._reserved[number] for number in sorted(self._by_uid.having(uid)))

    def judge(self, uid: str, wanted: tuple[Held, ...], slices_of: SlicesOf) -> Clash | None:
        """Why the claim with this uid cannot have these devices. Other reservations of its own do not matter.

        Of those and the stored allocation at most one can ever be stored at a time.
        """
        if (twice := given_twice(wanted)) is not None:
            return Clash(f"device {twice} is allocated twice")
        for one in wanted:
            for holder in self._others(one.place, uid):
                if clash((one,), holder.held) is not None:
                    verb = "is already" if holder.is_stored else "is being"
                    return Clash(f"device {one} {verb} allocated to claim {holder}", holder)
        return self._overdrawn(uid, wanted, slices_of)

    def _overdrawn(self, uid: str, wanted: tuple[Held, ...], slices_of: SlicesOf) -> Clash | None:
        for driver, pool in sorted({(one.driver, one.pool) for one in wanted}):
            slices = tuple(slices_of(driver, pool))
            if not slices:
                continue
            held = [
                one
                for holder in self._others(_pool(driver, pool), uid)
                for one in holder.held
                if (one.driver, one.pool) == (driver, pool)
            ]
            asked = [one for one in wanted if (one.driver, one.pool) == (driver, pool)]
            if why := overdraft(slices, held, asked):
                return Clash(why)
        return None

    def _others(self, value: str, uid: str) -> Iterator[Holding]:
        keys = self._places.having(value)
        stored = [self._stored[key] for key in keys if isinstance(key, str)]
        reserved = [self._reserved[key] for key in keys if isinstance(key, int)]
        for one in (*stored, *reserved):
            if one.subject.uid != uid:
                yield one


def _places(holding: Holding) -> set[str]:
    return {value for one in holding.held for value in (one.place, _pool(one.driver, one.pool))}


def _pool(driver: str, pool: str) -> str:
    return f"{driver}|{pool}"
