"""Folds: what macros like `all`, `map` and `cel.bind` become."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dray.cel.ast import ADD
from dray.cel.exact.run import Code, Run, is_error, no_overload
from dray.cel.faults import EvaluationError
from dray.cel.values import (
    LIST_LIMIT,
    MISSING,
    EvaluationCancelledError,
    MixedMap,
    Value,
    hashable,
    is_list,
    is_map,
    make_map,
    text_of,
    type_name,
)

_UNSET = object()


class _GrowingMap(MixedMap):
    """A map that only its own fold sees."""

    __slots__ = ()

    def insert(self, key: Value, value: Value) -> None:
        if self.find(key) is not MISSING:
            raise EvaluationError(f"insert failed: key {text_of(key)} already exists")
        self._entries[key.__class__, hashable(key)] = key, value


@dataclass(frozen=True, slots=True)
class Fold:
    """Where a fold keeps what it carries: in three slots of the run from `slot` on."""

    slot: int
    initial: Code
    iterable: Code
    has_two_variables: bool

    @property
    def accumulator(self) -> Code:
        """What is carried. It begins when it is first asked for: what `cel.bind` names costs nothing if nobody uses it."""
        slot, initial = self.slot, self.initial

        def read(run: Run) -> Value:
            value = run.slots[slot]
            if value is _UNSET:
                value = run.slots[slot] = initial(run)
            return value

        return read

    @property
    def first(self) -> Code:
        """The item, or the index or key where there are two variables."""
        slot = self.slot + 1
        return lambda run: run.slots[slot]

    @property
    def second(self) -> Code:
        """The value that belongs to the index or key."""
        slot = self.slot + 2
        return lambda run: run.slots[slot]


def _entries(fold: Fold, over: Value) -> Iterable[tuple[Value, Value]] | EvaluationError:
    if is_map(over):
        pairs: Iterable[tuple[Value, Value]] = over.items()
        return pairs
    if is_list(over):
        return enumerate(over) if fold.has_two_variables else ((item, None) for item in over)
    if fold.has_two_variables:
        return EvaluationError(f"unsupported comprehension range type: {type_name(over)}")
    return EvaluationError(f"got '{type_name(over)}', expected iterable type")


def fold_code(fold: Fold, condition: Code, step: Code, result: Code, grows: str, nodes: int) -> Code:
    """The closure of a fold. `grows` names the function by which it only ever adds to a list or map of its own; `nodes` is
    the work of a step."""

    def evaluate(run: Run) -> Value:
        over = fold.iterable(run)
        if is_error(over):
            return over
        entries = _entries(fold, over)
        if isinstance(entries, EvaluationError):
            return entries
        slots, slot = run.slots, fold.slot
        slots[slot] = _UNSET if not grows else [] if grows == ADD else _GrowingMap(())
        for slots[slot + 1], slots[slot + 2] in entries:
            run.step(nodes)
            wanted = condition(run)
            if wanted.__class__ is bool and wanted is not True:
                break
            slots[slot] = step(run)
        found = result(run)
        return make_map(list(found.items())) if found.__class__ is _GrowingMap else found

    return evaluate


def growing_list_code(accumulator: Code, added: list[Code]) -> Code:
    """`accumulator + [item]`, in place."""

    def grow(run: Run) -> Value:
        items, more = accumulator(run), added[0](run)
        run.charge(1)
        for value in (items, more):
            if not is_list(value):
                return value if is_error(value) else no_overload()
        if len(items) + len(more) > LIST_LIMIT:
            raise EvaluationCancelledError(f"operation cancelled: list of more than {LIST_LIMIT} items")
        run.spend(len(more))
        items.extend(more)
        return items

    return grow


def growing_map_code(accumulator: Code, added: list[Code]) -> Code:
    """`cel.@mapInsert(accumulator, key, value)` or `(accumulator, map)`, in place."""

    def grow(run: Run) -> Value:
        values: list[Value] = []
        for code in (accumulator, *added):
            values.append(code(run))
            if is_error(values[-1]) and len(added) > 1:
                run.charge(len(values) == 3)
                return values[-1]
        run.charge(1)
        for value in values:
            if is_error(value):
                return value
        if len(values) == 2 and not is_map(values[1]):
            return no_overload()
        pairs = [(values[1], values[2])] if len(values) == 3 else list(values[1].items())
        try:
            for key, value in pairs:
                run.spend(1 + run.sizes.of(key))
                values[0].insert(key, value)
        except EvaluationError as error:
            return error
        return values[0]

    return grow
