"""Which mediated devices to make and which to remove, so that each card makes one of the desired types. Pure.

A plan is one step, from one look at the host: a card that must first lose its old instances gets new ones in the next
plan, when it says how many it can make. So look, plan, carry out (`ownership.py`), and look again until `is_done`;
look again too when something changed or `next_try` has come. Nothing is remembered between plans but what is passed in.

Order: the type that the fewest cards have comes first, then as the configuration lists them; of the cards that offer it,
the one with the least choice takes it, then by name. Identical cards thus get the types in turn. A card that has a
desired type keeps it: no plan takes away what is desired, however uneven the spread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from uuid import UUID, uuid5

from dray.drivers.failures import Failures
from dray.drivers.mdev.situation import View, Wishes
from dray.errors import InvalidError
from dray.hardware.change import CreateMdev, RemoveMdev
from dray.hardware.facts import Problem
from dray.hardware.mdev import INSTANCES, PARENTS, Mdev, MdevType, selectable_name

MOST_PER_CARD = 1024
"""No card makes as many; a driver that offers more has a broken count, and gets this many."""

_OUR_UUIDS = UUID("5d1d3a3c-1b5e-5c0e-9d5e-6d6465762d31")


class Why(StrEnum):
    """Why an instance stays."""

    DESIRED = "its type is desired"
    EXTERNAL = "its type has another manager"
    FOREIGN = "somebody else made it"
    HELD = "it is in use"
    WAITING = "its removal failed and is tried again later"
    HIDDEN = "it cannot be read in full"


@dataclass(frozen=True, slots=True)
class Kept:
    """An instance that stays."""

    mdev: Mdev
    why: Why


@dataclass(frozen=True, slots=True)
class MdevPlan:
    """One step: first all of `remove`, then all of `create`, in this order.

    `unplaced` are entries of the configuration that no card has or gets: none offers them, or all are taken. That is no
    error. `problems` need a person, or time. `next_try` is when a failure that stands in the way may be tried again.
    """

    create: tuple[CreateMdev, ...] = ()
    remove: tuple[RemoveMdev, ...] = ()
    kept: tuple[Kept, ...] = ()
    problems: tuple[Problem, ...] = ()
    unplaced: tuple[str, ...] = ()
    next_try: float | None = None

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do now."""
        return not self.create and not self.remove


def uuids(seed: str, parent: str, type_id: str, taken: AbstractSet[str]) -> Iterator[str]:
    """UUIDs for new instances of a type on a card: always the same ones in the same order, without those taken.

    They are computed, not drawn. A process that is killed between the creation and the checkpoint plans the same UUID
    again and finds its device instead of making a second one; a type that comes back, and a machine that boots, has the
    devices it had before; and what is remembered about UUIDs stays bounded. The kernel wants them unique on one machine:
    parent, type and number are. `seed` (the machine's id) makes them unique between machines, for tools that compare.
    The boot is no part: instances end with it, and `ownership.py` forgets those of an earlier one.
    """
    for number in range(MOST_PER_CARD + len(taken)):
        uuid = str(uuid5(_OUR_UUIDS, "\0".join((seed, parent, type_id, str(number)))))
        if uuid not in taken:
            yield uuid


def plan_mdevs(
    view: View, wishes: Wishes, owned: AbstractSet[CreateMdev], failures: Failures, now: float
) -> MdevPlan:
    """The next step. `owned` are the instances we made, or set out to make: only those are ever removed.

    An instance is ours when UUID, parent and type agree. `now` is on the clock of `failures`.
    """
    if view.blind:
        return MdevPlan(problems=(Problem(INSTANCES, f"no mediated device is changed: {view.blind}"),))
    return _Planner(view, wishes, owned, failures, now).plan()


@dataclass(frozen=True, slots=True)
class _Card:
    """A parent and what is on it after the removals; `going` says that there are some."""

    name: str
    types: tuple[MdevType, ...]
    stays: tuple[Kept, ...]
    going: bool

    @property
    def is_left_alone(self) -> bool:
        """Somebody else uses it, or something stays on it that we do not want more of."""
        return any(kept.why is not Why.DESIRED for kept in self.stays)

    @property
    def made(self) -> frozenset[str]:
        """The types of what stays."""
        return frozenset(kept.mdev.type_id for kept in self.stays) - {""}


class _Planner:
    """The work of one `plan_mdevs`; its lists become the plan."""

    def __init__(
        self, view: View, wishes: Wishes, owned: AbstractSet[CreateMdev], failures: Failures, now: float
    ) -> None:
        self._view = view
        self._seed = wishes.seed
        self._desired = [selectable_name(name) for name in wishes.desired]
        self._external = {selectable_name(name) for name in wishes.external}
        self._owned = {(made.parent, made.type_id, made.uuid) for made in owned}
        self._failures, self._now = failures, now
        self._problems: list[Problem] = []
        self._retries: list[float] = []

    def plan(self) -> MdevPlan:
        mdevs = sorted([*self._view.mdevs, *self._hidden()], key=lambda mdev: (mdev.parent, mdev.uuid))
        verdicts = [(mdev, self._verdict(mdev)) for mdev in mdevs]
        kept = tuple(Kept(mdev, why) for mdev, why in verdicts if why is not None)
        going = [mdev for mdev, why in verdicts if why is None]
        cards = self._cards(kept, {mdev.parent for mdev in going})
        chosen = self._choose(cards)
        create = [change for card in cards for change in self._fill(card, chosen.get(card.name))]
        placed = {t.id for t in chosen.values()} | {k.mdev.type_id for k in kept} - {""}
        return MdevPlan(
            tuple(create),
            tuple(RemoveMdev(mdev.uuid) for mdev in going),
            kept,
            tuple(self._problems),
            self._unplaced(cards, placed),
            min(self._retries, default=None),
        )

    def _hidden(self) -> list[Mdev]:
        """Those that cannot be read now: what we remember of ours stands in, else only the card, or not even that."""
        ours = {uuid: (parent, type_id) for parent, type_id, uuid in sorted(self._owned)}
        found: list[Mdev] = []
        for uuid, card in self._view.hidden.items():
            parent, type_id = ours.get(uuid, ("", ""))
            if card not in ("", parent):  # the UUID is somebody else's by now
                parent, type_id = card, ""
            found.append(Mdev(uuid, type_id, type_id, parent, None, None))
        return found

    def _rank(self, type_id: str, name: str) -> int | None:
        """The place in the configuration; None when the type is not desired."""
        names = (selectable_name(type_id), name)
        return next((at for at, wanted in enumerate(self._desired) if wanted in names), None)

    def _verdict(self, mdev: Mdev) -> Why | None:
        """Why it stays; None: remove it."""
        if mdev.uuid in self._view.hidden:
            return Why.HIDDEN
        if (mdev.parent, mdev.type_id, mdev.uuid) not in self._owned:
            return Why.FOREIGN
        if self._rank(mdev.type_id, mdev.type_name) is not None:
            return Why.DESIRED
        if {selectable_name(mdev.type_id), mdev.type_name} & self._external:
            return Why.EXTERNAL
        if mdev.uuid in self._view.unclear:  # perhaps the configuration names it, by the name that is missing
            return Why.HIDDEN
        return self._delay(mdev)

    def _delay(self, mdev: Mdev) -> Why | None:
        path = f"{INSTANCES}/{mdev.uuid}"
        undesired = f"mediated device {mdev.uuid} ({mdev.type_name} on {mdev.parent}) is no longer desired"
        if mdev.uuid in self._view.held:
            self._problems.append(
                Problem(path, f"{undesired}, but in use: it goes when its workload has ended")
            )
            return Why.HELD
        if failure := self._failures.waiting((mdev.uuid,), self._now):
            self._retries.append(failure.retry_at)
            self._problems.append(
                Problem(path, f"{undesired}, and was not removed {failure.how_often}: {failure.error}")
            )
            return Why.WAITING
        return None

    def _cards(self, kept: Sequence[Kept], going: AbstractSet[str]) -> list[_Card]:
        """All parents by name. One that no longer shows itself has no types, so nothing is made there.

        What is on a card that nobody knows may be on each of them.
        """
        stays: dict[str, list[Kept]] = {}
        for one in kept:
            stays.setdefault(one.mdev.parent, []).append(one)
        return [
            _Card(
                parent.name,
                parent.types,
                (*stays.get(parent.name, ()), *stays.get("", ())),
                parent.name in going,
            )
            for parent in sorted(self._view.parents, key=lambda parent: parent.name)
        ]

    def _choose(self, cards: Sequence[_Card]) -> dict[str, MdevType]:
        """A type for each card that has none. A card that is being cleared chooses too, so that the others leave it its
        share; it chooses again when it is empty."""
        count = Counter(type_id for card in cards for type_id in card.made)
        options = {card.name: self._options(card) for card in cards if not card.stays}
        chosen: dict[str, MdevType] = {}
        while offered := {t.id: rank for types in options.values() for rank, t in types}:
            type_id = min(offered, key=lambda one: (count[one], offered[one], one))
            takers = [name for name, types in options.items() if any(t.id == type_id for _, t in types)]
            card = min(takers, key=lambda name: (len(options[name]), name))
            chosen[card] = next(t for _, t in options.pop(card) if t.id == type_id)
            count[type_id] += 1
        return chosen

    def _options(self, card: _Card) -> list[tuple[int, MdevType]]:
        ranked = [(self._rank(t.id, t.name), t) for t in card.types]
        wanted = [(rank, t) for rank, t in ranked if rank is not None and (t.available > 0 or card.going)]
        return [(rank, t) for rank, t in wanted if not self._is_waiting(card.name, t)]

    def _is_waiting(self, card: str, mdev_type: MdevType) -> bool:
        failure = self._failures.waiting((card, mdev_type.id), self._now)
        if failure is None:
            return False
        self._retries.append(failure.retry_at)
        self._problems.append(
            Problem(
                f"{PARENTS}/{card}", f"{mdev_type.name} was not made {failure.how_often}: {failure.error}"
            )
        )
        return True

    def _more(self, card: _Card) -> MdevType | None:
        """The type that a card has and can make more of: creation stopped half-way, or somebody removed one."""
        if card.is_left_alone or len(card.made) > 1:
            self._explain(card)
            return None
        able = [t for t in card.types if t.id in card.made and t.available > 0]
        return next((t for t in able if not self._is_waiting(card.name, t)), None)

    def _fill(self, card: _Card, chosen: MdevType | None) -> list[CreateMdev]:
        """As many as the card can make of its one type; nothing before its old instances are gone."""
        chosen = self._more(card) if card.stays else chosen
        if chosen is None or card.going:
            return []
        room = MOST_PER_CARD - len(card.stays)
        if chosen.available > room:
            offered = f"{chosen.available} instances of {chosen.name} are offered, which nobody believes"
            self._problems.append(Problem(f"{PARENTS}/{card.name}", f"{offered}: {room} are made"))
        free = islice(
            uuids(self._seed, card.name, chosen.id, self._view.present), min(chosen.available, room)
        )
        try:
            return [CreateMdev(card.name, chosen.id, uuid) for uuid in free]
        except InvalidError as error:  # a name that no kernel gives
            self._problems.append(Problem(f"{PARENTS}/{card.name}", f"{chosen.name} is not made: {error}"))
            return []

    def _explain(self, card: _Card) -> None:
        """Tell of a card that could make desired instances and is left alone; what stays there says why."""
        if any(self._rank(t.id, t.name) is not None and t.available > 0 for t in card.types):
            why = sorted({f"{k.mdev.uuid} ({k.why})" for k in card.stays})
            text = f"no desired type is made here, because of {', '.join(why)}"
            self._problems.append(Problem(f"{PARENTS}/{card.name}", text))

    def _unplaced(self, cards: Sequence[_Card], placed: AbstractSet[str]) -> tuple[str, ...]:
        names = {selectable_name(type_id) for type_id in placed}
        names |= {t.name for card in cards for t in card.types if t.id in placed}
        return tuple(name for name in dict.fromkeys(self._desired) if name not in names)
