"""Cards that make mediated devices, in memory: what a kernel would do, and who made what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from dray.drivers.mdev.situation import View
from dray.errors import ConflictError, HardwareError, NotFoundError
from dray.hardware.change import CreateMdev, HostChange, RemoveMdev
from dray.hardware.change.executor import Applied
from dray.hardware.mdev import Mdev, MdevParent, MdevType, selectable_name


@dataclass
class Cards:
    """`cards`: what each offers when empty. A card makes one type at a time, or with `shared` any mixture that fits."""

    cards: dict[str, Mapping[str, int]]
    names: Mapping[str, str] = field(default_factory=dict)
    shared: bool = False
    mdevs: dict[str, CreateMdev] = field(default_factory=dict)
    ours: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)

    def available(self, card: str, type_id: str) -> int:
        made = [one.type_id for one in self.mdevs.values() if one.parent == card]
        if not self.shared and any(other != type_id for other in made):
            return 0
        left = 1 - sum((Fraction(1, self.cards[card][one]) for one in made), start=Fraction(0))
        return int(self.cards[card][type_id] * left)

    def view(self) -> View:
        parents = [
            MdevParent(name, tuple(MdevType(t, self.name(t), self.available(name, t)) for t in sorted(types)))
            for name, types in sorted(self.cards.items())
        ]
        mdevs = [
            Mdev(uuid, one.type_id, self.name(one.type_id), one.parent, None, None)
            for uuid, one in sorted(self.mdevs.items())
            if uuid not in self.hidden
        ]
        hidden = frozenset(self.hidden & set(self.mdevs))
        return View(tuple(parents), tuple(mdevs), hidden, frozenset(self.held))

    def name(self, type_id: str) -> str:
        return selectable_name(self.names.get(type_id, type_id))

    def add(self, change: CreateMdev, *, ours: bool = False) -> None:
        """Somebody makes one, by default not us."""
        assert self.available(change.parent, change.type_id) > 0
        self.mdevs[change.uuid] = change
        if ours:
            self.ours.add(change.uuid)

    def drop(self, uuid: str) -> None:
        """It goes, whoever made it."""
        del self.mdevs[uuid]
        for kind in (self.ours, self.held, self.hidden):
            kind.discard(uuid)

    def unplug(self, card: str) -> None:
        """The card goes, with everything on it."""
        del self.cards[card]
        for uuid in [uuid for uuid, one in self.mdevs.items() if one.parent == card]:
            self.drop(uuid)

    def apply(self, change: HostChange) -> Applied:
        """As the executor: errors for what the kernel refuses, and twice is fine."""
        if isinstance(change, RemoveMdev):
            return self._remove(change)
        assert isinstance(change, CreateMdev)
        if self.mdevs.get(change.uuid) == change:
            return Applied(change, changed=False)
        if change.uuid in self.mdevs:
            raise ConflictError(f"{change.uuid} exists already")
        if change.parent not in self.cards:
            raise NotFoundError(f"{change.parent} is not there", kind="mdev parent")
        if self.available(change.parent, change.type_id) < 1:
            raise HardwareError(f"{change.parent} has none left")
        self.add(change, ours=True)
        return Applied(change, changed=True, undo=RemoveMdev(change.uuid))

    def _remove(self, change: RemoveMdev) -> Applied:
        if change.uuid not in self.mdevs:
            return Applied(change, changed=False)
        if change.uuid in self.held:
            raise ConflictError(f"{change.uuid} is in use by process 77")
        self.drop(change.uuid)
        return Applied(change, changed=True)

    def count(self) -> dict[str, dict[str, int]]:
        """How many of each type are on each card."""
        found: dict[str, dict[str, int]] = {}
        for one in sorted(self.mdevs.values(), key=lambda one: (one.parent, one.type_id)):
            on_card = found.setdefault(one.parent, {})
            on_card[one.type_id] = on_card.get(one.type_id, 0) + 1
        return found
