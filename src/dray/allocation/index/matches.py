"""Which devices selectors accept, evaluated once for each distinct projection of what they read.

Devices come in groups of one driver, and answers are bit sets (bit n stands for the nth device). The answer to a group
with the same columns as one before is known; else it is put together from the answers to projections.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol
from weakref import WeakSet

from dray.allocation.device_values import Place
from dray.allocation.faults import SelectorError
from dray.allocation.index.columns import Group, Layout
from dray.allocation.index.projections import Keys, is_one_for_all, keys_of, positions_of
from dray.allocation.requests import Request
from dray.allocation.selector import CompiledSelectors
from dray.api.resource.device_class import DeviceSelector
from dray.api.resource.slice import Device
from dray.api.taints import DeviceToleration

KEPT_PROJECTIONS: Final = 100_000
"""For each selector; one that reads something unique to a device would otherwise grow without end."""
KEPT_GROUPS: Final = 10_000
"""For each matcher."""
KEPT_MATCHERS: Final = 1024
KEPT_BYTES: Final = 256 << 20
"""For all matchers of one index: half a million answers. Tenants write selectors, and each may have an answer for every device."""
_ENTRY: Final = 200
_PLACE: Final = 150
"""Of a projection, for each place that a selector reads: the value outlives its device."""
_HOLDER: Final = 2048

NO: Final = 0
YES: Final = 1
FAILS: Final = 2
_DIGITS_YES: Final = bytes.maketrans(bytes((NO, YES, FAILS)), b"010")
_DIGITS_FAILS: Final = bytes.maketrans(bytes((NO, YES, FAILS)), b"001")


class Holder(Protocol):
    """Who remembers something that can be worked out again."""

    def forget(self) -> None:
        """Called at any time: what is needed again is learned again."""


class Kept:
    """The memory of all that one index remembers of answers, in bytes, about. Above the limit everything is forgotten, and
    learned again where it is needed."""

    def __init__(self) -> None:
        self.size = 0
        self._holders: WeakSet[Holder] = WeakSet()

    def add(self, holder: Holder) -> None:
        """Who is told to forget."""
        self._holders.add(holder)

    def take(self, size: int) -> None:
        """So much more is remembered, or is about to be."""
        self.size += size
        if self.size > KEPT_BYTES:
            self.size = size
            for holder in tuple(self._holders):
                holder.forget()


class Answers:
    """What one selector says to devices."""

    def __init__(self, selectors: CompiledSelectors, expression: str, kept: Kept | None = None) -> None:
        self._selectors = selectors
        self._kept = kept or Kept()
        self._kept.add(self)
        self._expression = expression
        self._known: dict[Hashable, int] = {}
        self.evaluations = 0
        self.places: tuple[Place, ...] = ()
        # A text that is no selector fails on every device, whatever it has.
        with suppress(SelectorError):
            self.places = selectors.selector(expression).places
        self._is_one_for_all = is_one_for_all(self.places)
        self._keys: Keys | None = keys_of(self.places)
        self._size = _ENTRY + _PLACE * len(self.places)

    def forget(self) -> None:
        """Everything that was learned; it is learned again where it is needed."""
        self._known.clear()

    @property
    def reads_columns(self) -> bool:
        """Whether devices that have the same under some names are the same to it."""
        return self._keys is not None

    def of(self, group: Group, asked: int) -> tuple[int, int]:
        """Those of `asked` that are accepted, and those on which the selector fails. The rest is not evaluated."""
        if self._is_one_for_all:
            answer = self._of_driver(group, asked)
            return asked if answer == YES else 0, asked if answer == FAILS else 0
        answers = self._of_each(group, asked)
        digits = answers[::-1]
        failed = int(digits.translate(_DIGITS_FAILS), 2) & asked if FAILS in answers else 0
        return int(digits.translate(_DIGITS_YES), 2) & asked, failed

    def _of_driver(self, group: Group, asked: int) -> int:
        driver = group.layout.driver
        answer = self._known.get(driver)
        if answer is None:
            # Not any device: one that is not asked about may be unsound.
            first = group.devices[(asked & -asked).bit_length() - 1]
            answer = self._known[driver] = self._evaluate(driver, first)
        return answer

    def _of_each(self, group: Group, asked: int) -> bytes:
        """An answer for every device; what it is for those that are not asked about means nothing."""
        driver, devices = group.layout.driver, group.devices
        if self._keys is None:
            return bytes(
                [self._evaluate(driver, one) if asked >> at & 1 else NO for at, one in enumerate(devices)]
            )
        keys = self._keys(driver, devices)
        try:
            return bytes(map(self._known.__getitem__, keys))
        except KeyError:
            return self._learn(group, keys, asked)

    def _learn(self, group: Group, keys: Sequence[Hashable], asked: int) -> bytes:
        answers, learned = bytearray(len(keys)), 0
        for at, key in enumerate(keys):
            if not asked >> at & 1:
                continue
            answer = self._known.get(key)
            if answer is None:
                if len(self._known) >= KEPT_PROJECTIONS:
                    self._known.clear()
                answer = self._known[key] = self._evaluate(group.layout.driver, group.devices[at])
                learned += self._size
            answers[at] = answer
        self._kept.take(learned)
        return bytes(answers)

    def _evaluate(self, driver: str, device: Device) -> int:
        self.evaluations += 1
        try:
            return YES if self._selectors.matches(self._expression, driver, device) else NO
        except SelectorError:
            return FAILS


class Matcher:
    """The selectors of a class and of a request, in the order in which they are asked; the first `false` ends it. And
    the taints that the request tolerates. One object for equal ones, so that it is compared by identity.
    """

    def __init__(
        self,
        answers: Sequence[Answers | None],
        tolerations: tuple[DeviceToleration, ...],
        kept: Kept | None = None,
    ) -> None:
        self._answers = answers
        self._kept = kept or Kept()
        self._kept.add(self)
        self.tolerations = tolerations
        self._reads_columns = all(one is None or one.reads_columns for one in answers)
        self._places = {place for one in answers if one is not None for place in one.places}
        self._positions: dict[Layout, tuple[int, ...]] = {}
        self._found: dict[tuple[object, ...], tuple[int, int]] = {}

    def forget(self) -> None:
        """See `Answers`."""
        self._found.clear()
        self._positions.clear()

    def of(self, group: Group) -> tuple[int, int]:
        """The devices that all accept, and those on which one fails that is reached."""
        if not self._reads_columns:
            return self._ask(group)
        layout, columns = group.layout, group.columns
        positions = self._positions.get(layout)
        if positions is None:
            positions = self._locate(layout)
        key = (layout, *[columns[at] for at in positions])
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= KEPT_GROUPS:
                self._found.clear()
            found = self._found[key] = self._ask(group)
            self._kept.take(_ENTRY + 8 * len(key) + len(group.devices) // 4)
        return found

    def _locate(self, layout: Layout) -> tuple[int, ...]:
        if len(self._positions) >= KEPT_GROUPS:
            self._positions.clear()
        found = self._positions[layout] = positions_of(self._places, layout)
        self._kept.take(_ENTRY)
        return found

    def _ask(self, group: Group) -> tuple[int, int]:
        reached, unsound, failed = group.layout.asked, group.layout.unsound, 0
        for one in self._answers:
            if one is None:
                return 0, failed | reached
            failed |= reached & unsound
            reached &= ~unsound
            if not reached:
                break
            reached, fails = one.of(group, reached)
            failed |= fails
        return reached, failed


class Matchers:
    """One matcher for each combination of selectors and tolerations that was asked for. Owned by one index."""

    def __init__(self, selectors: CompiledSelectors) -> None:
        self._selectors = selectors
        self.kept = Kept()
        self.kept.add(self)
        self._answers: dict[str, Answers] = {}
        self._matchers: dict[tuple[Hashable, Hashable, Hashable], Matcher] = {}

    def of(self, request: Request) -> Matcher:
        """The same object for the same selectors and tolerations, for as long as it is remembered."""
        wish, of_class = request.wish, request.device_class.spec.selectors
        key = (of_class, wish.selectors, wish.tolerations)
        found = self._matchers.get(key)
        if found is None:
            if len(self._matchers) >= KEPT_MATCHERS:
                self.forget()
            self.kept.take(_HOLDER + _size_of((*of_class, *wish.selectors)))
            answers = [self._of_selector(one) for one in (*of_class, *wish.selectors)]
            found = self._matchers[key] = Matcher(answers, wish.tolerations, self.kept)
        return found

    def forget(self) -> None:
        """All matchers: who still has one keeps it until it asks again."""
        self._matchers.clear()
        self._answers.clear()

    @property
    def evaluations(self) -> int:
        """How often an expression was evaluated."""
        return sum(one.evaluations for one in self._answers.values())

    def _of_selector(self, selector: DeviceSelector) -> Answers | None:
        """None for a selector without an expression, which is an error on every device."""
        if selector.cel is None:
            return None
        expression = selector.cel.expression
        if expression not in self._answers:
            made = self._answers[expression] = Answers(self._selectors, expression, self.kept)
            self.kept.take(_HOLDER + _PLACE * len(made.places))
            return made
        return self._answers[expression]


def _size_of(selectors: Iterable[DeviceSelector]) -> int:
    """The texts, which may outlive their claims."""
    return sum(len(one.cel.expression) for one in selectors if one.cel is not None)
