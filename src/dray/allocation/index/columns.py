"""Devices by columns: what a group of devices has under one name, as one object for equal contents.

Nodes with the same hardware have the same columns, serial numbers aside. So what a selector says to a group is found
again by the identities of the columns that it reads, without a look at the devices.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

from dray.allocation.device_values import prepare
from dray.allocation.features import Features
from dray.api.resource.slice import Device, DeviceAttribute, DeviceCapacity

KEPT_VALUES: Final = 200_000
"""In all columns of a kind; slices that change leave theirs behind."""
KEPT_NAMES: Final = 10_000
KEPT_LAYOUTS: Final = 10_000

_Value = TypeVar("_Value")
_Contents = tuple[Any, ...]


class Column:
    """Compared by identity. `odd` are the devices whose attribute has no value, or whose capacity is not simply an amount
    that is given as a whole.
    """

    __slots__ = ("odd",)

    def __init__(self, odd: int) -> None:
        self.odd = odd


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """What groups may share besides columns. Compared by identity; names are with the positions of their columns.

    `asked` are the devices for which selectors matter at all, `unsound` those on which every selector fails.
    """

    driver: str
    attributes: Mapping[str, int]
    capacity: Mapping[str, int]
    asked: int
    unsound: int
    multiple: int


class Group(NamedTuple):
    """Devices of one driver, in order; bit n of a set stands for the nth. `partial` may be given in parts."""

    devices: Sequence[Device]
    layout: Layout
    columns: tuple[Column, ...]
    partial: int


class Columns:
    """Makes groups. Owned by one index. What is forgotten when there is too much of it is only made once more."""

    def __init__(self, features: Features) -> None:
        self._lists = features.list_type_attributes
        self._has_binding = features.device_binding_and_status
        self._has_shares = features.consumable_capacity
        self._attributes = _Interned(self._odd_attributes)
        self._capacity = _Interned(_odd_capacity)
        self._layouts: dict[Hashable, Layout] = {}

    def group(self, driver: str, devices: Sequence[Device]) -> Group:
        """At least one device."""
        attribute_names, attributes = _transposed([one.attributes for one in devices])
        capacity_names, capacity = _transposed([one.capacity for one in devices])
        of_attributes, unsound = self._attributes.of(attribute_names, attributes)
        of_capacity, partial = self._capacity.of(capacity_names, map(_amounts_and_policies, capacity))
        asked = every = (1 << len(devices)) - 1
        if not self._has_binding:
            asked &= ~bits_of([bool(one.binding_conditions) for one in devices])
        multiple = bits_of([bool(one.allow_multiple_allocations) for one in devices])
        if self._has_shares:
            partial |= multiple
        key = (driver, attribute_names, capacity_names, every, asked, unsound, multiple)
        layout = self._layouts.get(key) or self._new_layout(key)
        return Group(devices, layout, (*of_attributes, *of_capacity), partial)

    def _new_layout(self, key: tuple[str, tuple[str, ...], tuple[str, ...], int, int, int, int]) -> Layout:
        driver, attributes, capacity, _, asked, unsound, multiple = key
        if len(self._layouts) >= KEPT_LAYOUTS:
            self._layouts.clear()
        layout = self._layouts[key] = Layout(
            driver,
            {name: at for at, name in enumerate(attributes)},
            {name: at for at, name in enumerate(capacity, len(attributes))},
            asked,
            unsound,
            multiple,
        )
        return layout

    def _odd_attributes(self, contents: _Contents) -> int:
        lists = self._lists
        return bits_of([one is not None and not _has_value(one, lists=lists) for one in contents])


class _Interned:
    """One column for equal contents. Neighbours are mostly alike, so the last one of a name is tried before a hash."""

    def __init__(self, odd: Callable[[_Contents], int]) -> None:
        self._odd = odd
        self._known: dict[_Contents, Column] = {}
        self._last: dict[str, tuple[_Contents, Column]] = {}
        self._values = 0

    def of(self, names: Iterable[str], each: Iterable[_Contents]) -> tuple[list[Column], int]:
        """The columns, and all that is odd in them."""
        found = []
        odd = 0
        for name, contents in zip(names, each, strict=True):
            last = self._last.get(name)
            column = last[1] if last is not None and last[0] == contents else self._find(name, contents)
            odd |= column.odd
            found.append(column)
        return found, odd

    def _find(self, name: str, contents: _Contents) -> Column:
        column = self._known.get(contents)
        if column is None:
            self._values += len(contents)
            if self._values > KEPT_VALUES:
                self._known.clear()
                self._values = len(contents)
            column = self._known[contents] = Column(self._odd(contents))
        if len(self._last) >= KEPT_NAMES:
            self._last.clear()
        self._last[name] = contents, column
        return column


def _transposed(
    rows: Sequence[Mapping[str, _Value]],
) -> tuple[tuple[str, ...], Iterable[tuple[_Value | None, ...]]]:
    """The names, and for each of them what the rows have, None for nothing."""
    each = list(map(tuple, rows))
    names = each[0]
    if each.count(names) == len(each):
        return names, zip(*[one.values() for one in rows], strict=True)
    names = tuple(dict.fromkeys(chain.from_iterable(rows)))
    return names, [tuple([one.get(name) for one in rows]) for name in names]


def bits_of(flags: Sequence[bool]) -> int:
    """Bit n is flag n."""
    return sum([1 << at for at, flag in enumerate(flags) if flag]) if True in flags else 0


def _has_value(attribute: DeviceAttribute, *, lists: bool) -> bool:
    one = attribute
    is_simple = one.string_value is not None or one.int_value is not None or one.bool_value is not None
    if is_simple and not (lists and one.version_values is not None):
        return True
    return not prepare("", Device(attributes={"one": one}), lists=lists).fault


def amounts_of(column: Sequence[DeviceCapacity | None]) -> Sequence[Hashable]:
    """Amounts as a selector may tell them apart: 1Gi is not 1073741824."""
    try:
        # Most are there and were written out before; a call for each would take as long as all of the rest.
        return [(one.value.written, one.value.kind) for one in column]  # type: ignore[union-attr]
    except AttributeError:
        return [None if one is None else (str(one.value), one.value.kind) for one in column]


def _amounts_and_policies(column: Sequence[DeviceCapacity | None]) -> _Contents:
    """What selectors read, and what makes a capacity odd."""
    return *amounts_of(column), *[one is not None and not _is_plain(one) for one in column]


def _odd_capacity(contents: _Contents) -> int:
    return bits_of(contents[len(contents) // 2 :])


def _is_plain(capacity: DeviceCapacity) -> bool:
    """Whether it cannot keep a device that is given as a whole from a request that names no amounts."""
    return capacity.request_policy is None and capacity.value.nano >= 0
