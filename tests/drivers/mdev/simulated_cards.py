"""Cards that make mediated devices, in memory: what a kernel would do, and who made what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dray.drivers.failures import Failures
from dray.drivers.mdev.plan import MdevPlan, plan_mdevs
from dray.drivers.mdev.situation import View, Wishes
from dray.errors import ConflictError, HardwareError, NotFoundError
from dray.hardware.change import CreateMdev, HostChange, RemoveMdev
from dray.hardware.change.executor import Applied
from dray.hardware.mdev import Mdev, MdevParent, MdevType, selectable_name

NVIDIA = {"nvidia-222": 16, "nvidia-223": 8, "nvidia-224": 4, "nvidia-299": 2}
INTEL = {"i915-GVTg_V5_4": 2, "i915-GVTg_V5_8": 4}
NAMES = {"nvidia-222": "GRID T4-1B", "nvidia-223": "GRID T4-2B"}
FOREIGN = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"


@dataclass
class Cards:
    """`cards`: what each offers when empty. A card makes one type at a time, or with `shared` any mixture that fits.

    Of what is `hidden` a look shows only the card, and not even that where it is `unlinked` too.
    """

    cards: dict[str, Mapping[str, int]]
    names: Mapping[str, str] = field(default_factory=dict)
    shared: bool = False
    mdevs: dict[str, CreateMdev] = field(default_factory=dict)
    ours: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    unlinked: set[str] = field(default_factory=set)

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
        hidden = {
            uuid: "" if uuid in self.unlinked else self.mdevs[uuid].parent
            for uuid in sorted(self.hidden & set(self.mdevs))
        }
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
        for kind in (self.ours, self.held, self.hidden, self.unlinked):
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


def wish(*desired: str, external: Sequence[str] = ()) -> Wishes:
    return Wishes(desired, frozenset(external), seed="machine")


class Node:
    """Cards, and what the agent remembers of them."""

    def __init__(self, cards: Cards) -> None:
        self.cards = cards
        self.owned: set[CreateMdev] = set()
        self.failures = Failures()
        self.now = 0.0

    def plan(self, wishes: Wishes) -> MdevPlan:
        return plan_mdevs(self.cards.view(), wishes, self.owned, self.failures, self.now)

    def settle(self, wishes: Wishes, steps: int = 3) -> MdevPlan:
        """Carry out plans until one is done; nothing fails."""
        for _ in range(steps):
            plan = self.plan(wishes)
            if plan.is_done:
                return plan
            for change in (*plan.remove, *plan.create):
                self.cards.apply(change)
            self.owned |= set(plan.create)
        raise AssertionError(f"not done after {steps} steps: {self.plan(wishes)}")


def identical(count: int) -> Node:
    return Node(Cards({f"0000:0{number}:00.0": NVIDIA for number in range(count)}, NAMES))
